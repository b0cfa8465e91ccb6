"""`parallax why`: everything known about why two implementations differ, in one answer.

Hyperparameters, update-level differences, the first divergence in lockstep, and returns and
ablations of a study, each with the next command where something is unknown.
"""

import argparse
import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parallax.harness.cli.alignment import EXAMPLE_TASKS, translate_recipe
from parallax.harness.cli.arguments import (
    RUNS_HELP,
    add_algorithms_argument,
    get_single_name,
)
from parallax.harness.cli.lockstep import format_lockstep_verdict, make_lockstep_side
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.adapter import find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS, PROBED_ALGORITHMS
from parallax.harness.contract.fields import SpecError, format_unknown_name, format_value
from parallax.harness.contract.recipes import list_recipe_names
from parallax.harness.contract.run_spec import ALIGNMENTS, INTERVENTION_SEPARATOR, NO_INTERVENTION
from parallax.harness.interventions.catalogue import list_interventions
from parallax.harness.lockstep.comparison import LockstepOptions, compare_implementations
from parallax.harness.probes import catalogue, runner
from parallax.harness.probes.experiments import AlignmentLevel
from parallax.harness.probes.results import ProbeReport, ProbeResult, describe_answer

if TYPE_CHECKING:
    from parallax.analysis.data.runs import LoadedRuns

LOCKSTEP_UPDATES = 20
_EPILOG = """\
examples:
  parallax why sb3 cleanrl --algorithms ppo
  parallax why sb3 torchrl --algorithms sac --env Pendulum-v1 --study results/first"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("first", metavar="A", help="a framework, such as sb3")
    add("second", metavar="B", help="another framework, such as cleanrl")
    add_algorithms_argument(parser, f"one algorithm of {','.join(sorted(PROBED_ALGORITHMS))}")
    add("--env", metavar="TASK", help="task of the trainings (default: one that the algorithm has)")
    add(
        "--hps",
        metavar="RECIPE",
        default="original",
        help="recipe of the hyperparameters (default: %(default)s)",
    )
    add(
        "--alignment",
        choices=ALIGNMENTS,
        default="exact",
        help="how much is equal: defaults, common, exact or lockstep (default: %(default)s)",
    )
    add("--study", type=Path, metavar="FOLDER", help=f"runs of both: {RUNS_HELP}")


@dataclasses.dataclass(frozen=True)
class DifferingAnswer:
    """A probe that two implementations answer differently.

    Attributes:
        result: Its answers.
        removed_by: Interventions that remove the difference, as `framework: name`.
    """

    result: ProbeResult
    removed_by: tuple[tuple[str, str], ...]


def run(options: argparse.Namespace) -> int:
    """Print the answer.

    Raises:
        SpecError: A name is not known, the two are the same, or the study holds no runs.
    """
    names = list(PROBED_ALGORITHMS)
    algorithm = get_single_name("--algorithms", options.algorithms or (), names)
    pair = _check_names(options, algorithm)
    loaded = None if options.study is None else _load_study(options.study)
    env = options.env or EXAMPLE_TASKS[ALGORITHMS[algorithm].actions]
    print(f"Why {pair[0]} and {pair[1]} differ: {algorithm}, {env}, alignment={options.alignment}")
    _print_section("Hyperparameters", _describe_hyperparameters(options, pair, algorithm, env))
    level = AlignmentLevel(_choose_probe_level(options.alignment), options.hps)
    found = list_differing_answers(_run_probes(pair, algorithm, level), pair)
    _print_section("One update", _describe_answers(found, pair))
    _print_section("Lockstep", _describe_lockstep(pair, algorithm, level))
    _print_section("Returns", _describe_returns(loaded, pair, algorithm, env))
    _print_section("Next", _suggest_commands(options, pair, algorithm, found, env))
    return 0


def _check_names(options: argparse.Namespace, algorithm: str) -> tuple[str, str]:
    known = sorted(find_adapter_entry_points())
    for name in (options.first, options.second):
        if name not in known:
            raise SpecError(format_unknown_name(f"framework {name}", name, known))
        if not load_adapter(name).supports(algorithm):
            raise SpecError(f"framework={name} has no algorithm={algorithm}.")
    if options.first == options.second:
        raise SpecError(f"{options.first} is named twice: name another framework.")
    recipes = list_recipe_names(algorithm)
    if options.hps not in recipes:
        raise SpecError(format_unknown_name(f"--hps {options.hps}", options.hps, recipes))
    return options.first, options.second


def _choose_probe_level(alignment: str) -> str:
    """Return the level of probes that is nearest to a level of alignment."""
    return alignment if alignment in ("exact", "lockstep") else "defaults"


def _print_section(title: str, lines: Sequence[str]) -> None:
    print(f"\n{title}")
    print("\n".join(f"  {line}" for line in lines), flush=True)


def _describe_hyperparameters(
    options: argparse.Namespace, pair: tuple[str, str], algorithm: str, env: str
) -> list[str]:
    columns = translate_recipe(algorithm, options.hps, options.alignment, env, pair)
    if refused := [column for column in columns if column.refusal]:
        return [f"{column.framework} refuses the recipe: {column.refusal}" for column in refused]
    first, second = columns
    lines = [
        f"{name}: {format_value(row.value)} in {pair[0]}, "
        f"{format_value(second.settings[name].value)} in {pair[1]}"
        for name, row in first.settings.items()
        if row.value != second.settings[name].value
    ]
    patched = [
        f"{column.framework}: {', '.join(patches)} set by patches of its source"
        for column in columns
        if (patches := [row.field for row in column.settings.values() if row.kind == "patched"])
    ]
    return [*(lines or [f"All {len(first.settings)} are equal."]), *patched]


def _run_probes(pair: tuple[str, str], algorithm: str, level: AlignmentLevel) -> ProbeReport:
    request = runner.ProbeRequest(
        tuple(catalogue.select_probes([algorithm], [])), pair, level=level
    )
    targets = runner.find_targets(request)
    with CommandProgress(len(pair) * len(request.probes)) as progress:
        return runner.run_probes(request.probes, targets, progress.advance)


def list_differing_answers(report: ProbeReport, pair: tuple[str, str]) -> list[DifferingAnswer]:
    """List the probes that two implementations answer differently, with what removes it.

    Args:
        report: Answers of both.
        pair: Their names.
    """
    found = []
    for result in report.results:
        answers = [result.answers.get(name) for name in pair]
        if any(answer is None or answer.unmeasured for answer in answers):
            continue
        if any(set(pair) <= set(group) for group in result.groups):
            continue
        found.append(DifferingAnswer(result, tuple(_find_removals(result.probe, pair))))
    return found


def _find_removals(probe: str, pair: tuple[str, str]) -> list[tuple[str, str]]:
    """Return interventions that promise the other's answer to a probe, or the paper's."""
    algorithm = probe.partition(".")[0]
    return [
        (name, item.name)
        for name, other in (pair, pair[::-1])
        for item in list_interventions(load_adapter(name))
        if algorithm in item.algorithms
        and item.answers.get(probe) in (f"as in {other}", "as in the paper")
    ]


def _describe_answers(found: Sequence[DifferingAnswer], pair: tuple[str, str]) -> list[str]:
    lines = []
    for item in found:
        lines.append(f"{item.result.question} ({item.result.probe})")
        lines += [f"  {name}: {describe_answer(item.result.answers[name])}" for name in pair]
        if item.removed_by:
            names = ", ".join(f"{change} in {name}" for name, change in item.removed_by)
            lines.append(f"  removed by: {names}")
    return lines or ["No probe is answered differently."]


def _describe_lockstep(pair: tuple[str, str], algorithm: str, level: AlignmentLevel) -> list[str]:
    first, second = (
        make_lockstep_side(name, NO_INTERVENTION, algorithm, level.name) for name in pair
    )
    try:
        result = compare_implementations(
            first,
            second,
            algorithm,
            LOCKSTEP_UPDATES,
            lambda _: None,
            LockstepOptions(level=level),
        )
    except SpecError as error:
        return [f"Not compared: {error}"]
    return format_lockstep_verdict(result).splitlines()


def _load_study(folder: Path) -> "LoadedRuns":
    """Load the study before anything is measured, so that a wrong name costs no minutes."""
    # As late as this: pandas and scipy take a second to import.
    from parallax.analysis.commands.common import CommandError, load_results

    try:
        return load_results(folder)
    except CommandError as error:
        raise SpecError(str(error)) from error


def _describe_returns(
    loaded: "LoadedRuns | None", pair: tuple[str, str], algorithm: str, env: str
) -> list[str]:
    if loaded is None:
        return ["Unknown: no runs were named with --study."]
    from parallax.analysis.verdicts.ablation import judge_ablations
    from parallax.analysis.verdicts.consistency import judge_consistency
    from parallax.analysis.verdicts.endpoints import settle_endpoint
    from parallax.analysis.verdicts.groups import UnknownScaleError, group_runs
    from parallax.analysis.verdicts.options import VerdictOptions

    settled = settle_endpoint(loaded, VerdictOptions())
    try:
        groups = group_runs(loaded, settled)
    except UnknownScaleError as error:
        return [f"Not compared: {error}"]
    lines = [
        f"{item.cell.env}, {item.cell.hps}, {item.cell.variant}: {item.first.framework} - "
        f"{item.second.framework} = {item.difference:.4g} ({item.low:.4g} to {item.high:.4g}), "
        f"n = {item.first.n} and {item.second.n}: {item.verdict}"
        for item in judge_consistency(groups, settled)
        if {item.first.framework, item.second.framework} == set(pair)
        and (item.cell.algorithm, item.cell.env) == (algorithm, env)
    ]
    for verdict in judge_ablations(loaded, settled):
        if verdict.framework in pair and verdict.cell.algorithm == algorithm:
            lines += [
                f"{effect.name} in {verdict.framework}, {verdict.cell.env}: "
                f"{effect.result.difference:+.4g} ({effect.result.low:.4g} to "
                f"{effect.result.high:.4g}), n = {effect.result.n} pairs: {effect.verdict}"
                + "".join(
                    f"; {ratio.share:.0%} of the gap to {other}"
                    for other, ratio in effect.shares.items()
                    if other in pair
                )
                for effect in verdict.effects
            ]
    return lines or [f"{loaded.root} holds no runs of both on {env}."]


def _suggest_commands(
    options: argparse.Namespace,
    pair: tuple[str, str],
    algorithm: str,
    found: Sequence[DifferingAnswer],
    env: str,
) -> list[str]:
    common = f"algorithm={algorithm} env={env} hps={options.hps}"
    commands = []
    if options.study is None:
        commands.append(
            f"parallax train -m framework={','.join(pair)} {common} "
            f"alignment={options.alignment} seed=0,1,2,3,4 study.name=why"
        )
    removals = dict.fromkeys(removal for item in found for removal in item.removed_by)
    for name in pair:
        names = [change for framework, change in removals if framework == name]
        if names:
            every = [*names, INTERVENTION_SEPARATOR.join(names)] if len(names) > 1 else names
            commands.append(
                f"parallax train -m framework={name} {common} alignment={options.alignment} "
                f"intervention=none,{','.join(every)} seed=0,1,2,3,4 study.name=why"
            )
    study = shlex.quote(str(options.study or "results/why"))
    commands.append(f"parallax study ablation {study}")
    return commands
