"""`parallax why`: everything known about why two implementations differ, in one answer.

It prints hyperparameters, differences between updates, the first divergence in lockstep, and a
study's returns and ablations. Where something is unknown, it prints the command that measures it.
"""

import argparse
import dataclasses
import shlex
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from parallax.harness.cli.alignment import EXAMPLE_TASKS, translate_recipe
from parallax.harness.cli.arguments import (
    RUNS_HELP,
    add_algorithms_argument,
    add_file_argument,
    add_trust_argument,
    find_script_side,
    get_single_algorithm,
    load_study,
)
from parallax.harness.cli.lockstep import format_lockstep_verdict, make_lockstep_side
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS, PROBED_ALGORITHMS
from parallax.harness.contract.fields import SpecError, format_unknown_name, format_value
from parallax.harness.contract.interpreter import forbid_imports_from
from parallax.harness.contract.own_script import OwnScript, read_own_script
from parallax.harness.contract.recipes import list_recipe_names, load_recipe
from parallax.harness.contract.run_spec import (
    ALIGNMENTS,
    DEFAULTS_RECIPE,
    INTERVENTION_SEPARATOR,
    NO_INTERVENTION,
)
from parallax.harness.imports.run_names import UNKNOWN_NAME
from parallax.harness.interventions.catalogue import list_interventions
from parallax.harness.lockstep.comparison import LockstepOptions, compare_implementations
from parallax.harness.probes import catalogue, runner
from parallax.harness.probes.experiments import AlignmentLevel
from parallax.harness.probes.results import (
    AGREES,
    RECIPE,
    ProbeReport,
    ProbeResult,
    format_answer,
    name_source,
)
from parallax.harness.record.layout import to_folder_name
from parallax.harness.train.trust import list_task_code, require_trust

if TYPE_CHECKING:
    from parallax.analysis.data.runs import LoadedRuns
    from parallax.analysis.verdicts.ablation import AblationVerdict
    from parallax.analysis.verdicts.consistency import PairVerdict

LOCKSTEP_UPDATES = 20
_EPILOG = """\
examples:
  parallax why sb3 cleanrl --algorithms ppo
  parallax why sb3 torchrl --algorithms sac --env Pendulum-v1 --study results/first
  parallax why cleanrl cleanrl --algorithms ppo --script my_ppo.py"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("first", metavar="A", help="a framework, such as sb3")
    add("second", metavar="B", help="another framework, such as cleanrl")
    add_algorithms_argument(parser, f"one algorithm of {','.join(sorted(PROBED_ALGORITHMS))}")
    of_study = "default: the study's, or"
    add(
        "--env",
        metavar="TASK",
        help=f"task of the trainings ({of_study} one that suits the algorithm)",
    )
    add(
        "--hps",
        metavar="RECIPE",
        help=f"recipe of the hyperparameters, or the path of a YAML file with one ({of_study} "
        "original)",
    )
    add(
        "--alignment",
        choices=ALIGNMENTS,
        help=f"alignment level: defaults, common, exact or lockstep ({of_study} exact)",
    )
    add("--study", type=Path, metavar="FOLDER", help=f"runs of both: {RUNS_HELP}")
    add_file_argument(
        parser,
        "--script",
        "your own copy of a CleanRL script, instead of the wheel's; cleanrl cleanrl compares both",
    )
    add_trust_argument(parser)


@dataclasses.dataclass(frozen=True)
class ComparedSide:
    """One of the two implementations.

    Attributes:
        framework: Name of the framework.
        script: The user's own copy of its script, which replaces it.
        path: File of the copy.
    """

    framework: str
    script: OwnScript | None = None
    path: Path | None = None

    @property
    def label(self) -> str:
        """Return its name, as in tables."""
        return self.script.name_implementation(self.framework) if self.script else self.framework


@dataclasses.dataclass(frozen=True)
class DifferingAnswer:
    """A probe that two implementations answer differently.

    Attributes:
        removed_by: Interventions that remove the difference, as `framework: name`.
    """

    result: ProbeResult
    removed_by: tuple[tuple[str, str], ...]


def run(options: argparse.Namespace) -> int:
    """Print the answer."""
    names = list(PROBED_ALGORITHMS)
    algorithm = get_single_algorithm(options.algorithms, names)
    sides = _parse_sides(options, algorithm)
    pair = sides[0].label, sides[1].label
    env = options.env
    # Before anything is measured, so that a wrong name costs no minutes.
    loaded = None if options.study is None else load_study(options.study)
    is_stored = options.hps is None
    take_settings_of_study(options, loaded, pair, algorithm)
    if loaded and not env:  # the task is named by the study, whose author may be somebody else
        require_trust(options.study, list_task_code(options.env), trust=options.trust)
        forbid_imports_from(run.path for run in loaded.runs)
    with tempfile.TemporaryDirectory() as folder:
        recipe = _find_recipe(options.hps, loaded, algorithm, Path(folder), is_stored=is_stored)
        options.hps = recipe
        _print_answer(options, sides, algorithm, loaded)
    return 0


def take_settings_of_study(
    options: argparse.Namespace, loaded: "LoadedRuns | None", pair: tuple[str, str], algorithm: str
) -> None:
    """Set task, recipe and alignment, unless an option names them, from the study's runs of both.

    Of several settings, the alphabetically first is chosen, with equal hyperparameters if possible.
    """
    recipe = options.hps and Path(options.hps).name.removesuffix(".yaml")
    given = {"env": options.env, "hps": recipe, "alignment": options.alignment}
    found: dict[str, set[tuple[str, ...]]] = {name: set() for name in pair}
    for run in loaded.runs if loaded else ():
        cell = run.id.cell
        if run.id.framework in found and cell.algorithm == algorithm:
            setting = cell.env, cell.hps, str(run.spec.get("alignment", UNKNOWN_NAME))
            pairs = zip(given.values(), setting, strict=True)
            if all(value is None or value == present for value, present in pairs):
                found[run.id.framework].add(setting)
    default = EXAMPLE_TASKS[ALGORITHMS[algorithm].actions], "original", "exact"
    of_both = sorted(found[pair[0]] & found[pair[1]])
    chosen = min(of_both, key=lambda setting: setting[2] != "exact", default=default)
    for name, value, other in zip(given, chosen, default, strict=True):
        # Library defaults have no recipe, and that of imported runs may be unknown.
        is_known = value != UNKNOWN_NAME and (name, value) != ("hps", DEFAULTS_RECIPE)
        setattr(options, name, getattr(options, name) or (value if is_known else other))


def _find_recipe(
    name: str, loaded: "LoadedRuns | None", algorithm: str, folder: Path, *, is_stored: bool = False
) -> str:
    """Return the name or path of a recipe; a recipe known only from runs is written to a file.

    A name that is stored with runs is no path, since their author may be somebody else.
    """
    recipes = list_recipe_names(algorithm)
    if name not in recipes and (is_stored or not name.endswith(".yaml")):
        for run in loaded.runs if loaded else ():
            values = run.spec.get("hyperparameters", {})
            fields = {field.name for field in dataclasses.fields(ALGORITHMS[algorithm])}
            is_whole = set(values) == fields and not run.spec.get("overridden")
            if (run.id.cell.hps, run.id.cell.algorithm) == (name, algorithm) and is_whole:
                own = folder / f"{to_folder_name(name)}.yaml"  # the name may be an absolute path
                own.write_text(yaml.safe_dump(values))
                name = str(own)
                break
        else:
            raise SpecError(
                f"{format_unknown_name(f'--hps {name}', name, recipes)} For a recipe of your own, "
                "give the path of its YAML file."
            )
    load_recipe(algorithm, name)
    return name


def _print_answer(
    options: argparse.Namespace,
    sides: tuple[ComparedSide, ComparedSide],
    algorithm: str,
    loaded: "LoadedRuns | None",
) -> None:
    pair, env = (sides[0].label, sides[1].label), options.env
    recipe = Path(options.hps).name.removesuffix(".yaml")
    setting = f"{env}, hps={recipe}, alignment={options.alignment}"
    print(f"Why {pair[0]} and {pair[1]} differ: {algorithm}, {setting}")
    _print_section("Hyperparameters", _describe_hyperparameters(options, sides, algorithm, env))
    level = AlignmentLevel(options.alignment, options.hps)
    found = list_differing_answers(_run_probes(sides, algorithm, level), pair)
    _print_section("One update", _describe_answers(found, pair))
    _print_section("Lockstep", _describe_lockstep(sides, algorithm, level))
    ablations = _judge_ablations(loaded, pair, algorithm)
    verdicts, problem = _judge_returns(loaded, pair, (algorithm, env))
    returns = _describe_returns(verdicts, pair, ablations)
    returns += _describe_changed_recipe(verdicts, options.hps, recipe)
    _print_section("Returns", returns or [problem])
    judged = {
        (verdict.framework, effect.name)
        for verdict in ablations
        if (verdict.cell.env, verdict.cell.hps) == (env, recipe)
        and f"alignment={options.alignment}" in verdict.cell.variant
        for effect in verdict.effects
    }
    common = shlex.join([f"algorithm={algorithm}", f"env={env}", f"hps={recipe}"])
    common += _repeat_settings(loaded, (algorithm, env, recipe, options.alignment))
    if recipe not in list_recipe_names(algorithm):
        common += f" --config-dir {_find_config_folder(Path(options.hps))}"
    known = [item.verdict for item in verdicts]
    _print_section("Next", _suggest_commands(options, sides, found, common, judged, known))


def _parse_sides(options: argparse.Namespace, algorithm: str) -> tuple[ComparedSide, ComparedSide]:
    """Return the two implementations; `cleanrl@LABEL` is a user's script by its table name."""
    given = options.first, options.second
    names = [name.partition("@")[0] for name in given]
    _check_names(options, names, algorithm)
    sides = [ComparedSide(name) for name in names]
    labelled = [i for i, name in enumerate(given) if "@" in name]
    if labelled and (len(labelled) > 1 or not options.script):
        raise SpecError(
            f"{given[labelled[-1]]} is your own script: give its file with --script FILE. Only "
            "one of the two can be a script."
        )
    if options.script:
        number = find_script_side(options.script, names, algorithm)
        number = labelled[0] if labelled else number
        script = read_own_script(options.script)
        sides[number] = ComparedSide(names[number], script, options.script)
        if labelled and sides[number].label != given[number]:
            raise SpecError(
                f"--script {options.script} is {sides[number].label}, and not {given[number]}: it "
                "was edited since, or is another file."
            )
    if sides[0].label == sides[1].label:
        raise SpecError(
            f"{options.first} is named twice: name another framework, or with --script FILE your "
            "own copy of a CleanRL script."
        )
    return sides[0], sides[1]


def _check_names(options: argparse.Namespace, names: Sequence[str], algorithm: str) -> None:
    for name in names:
        if not load_adapter(name).supports(algorithm):
            raise SpecError(f"framework={name} has no algorithm={algorithm}.")


def _print_section(title: str, lines: Sequence[str]) -> None:
    print(f"\n{title}")
    print("\n".join(f"  {line}" for line in lines), flush=True)


def _describe_hyperparameters(
    options: argparse.Namespace, sides: tuple[ComparedSide, ComparedSide], algorithm: str, env: str
) -> list[str]:
    pair = sides[0].label, sides[1].label
    columns = [
        column
        for side in sides  # one by one: both may be of one framework
        for column in translate_recipe(
            algorithm, options.hps, options.alignment, env, [side.framework]
        )
    ]
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
    own = [
        f"{side.label}: constants are taken from the wheel's script; the copy may have others"
        for side in sides
        if side.script
    ]
    return [*(lines or [f"All {len(first.settings)} are equal."]), *patched, *own]


def _run_probes(
    sides: tuple[ComparedSide, ComparedSide], algorithm: str, level: AlignmentLevel
) -> ProbeReport:
    probes = catalogue.select_probes([algorithm], [])
    if level.uses_recipe:  # then no implementation runs with its default settings
        probes = [probe for probe in probes if "default" not in probe.name]
    frameworks = tuple(dict.fromkeys(side.framework for side in sides))
    request = runner.ProbeRequest(tuple(probes), frameworks, level=level, uses_store=True)
    found = {target.label: target for target in runner.find_targets(request).targets}
    targets = tuple(
        dataclasses.replace(
            found[side.framework],
            label=side.label,
            script=side.path.resolve() if side.path else None,
        )
        for side in sides
    )
    with CommandProgress(len(sides) * len(probes)) as progress:
        return runner.run_probes(probes, runner.ProbeTargets(targets), progress.advance)


def list_differing_answers(report: ProbeReport, pair: tuple[str, str]) -> list[DifferingAnswer]:
    """List the probes that two implementations answer differently, and interventions against it."""
    found = []
    for result in report.results:
        answers = [result.answers.get(name) for name in pair]
        if any(answer is None or answer.unmeasured for answer in answers):
            continue
        if any(set(pair) <= set(group) for group in result.groups):
            continue
        first, second = (result.answers[name] for name in pair)
        if first.meaning and first.meaning == second.meaning:
            continue  # the same deviation, measured in other states of the training
        found.append(DifferingAnswer(result, tuple(_find_removals(result.probe, pair))))
    return found


def _find_removals(probe: str, pair: tuple[str, str]) -> list[tuple[str, str]]:
    """Return interventions that promise the other's answer to a probe, or the paper's.

    Interventions of the reference form remove the difference if both frameworks have them.
    They replace lines of the framework's code, which a user's own script may lack.
    """
    algorithm = probe.partition(".")[0]
    return [
        (name, item.name)
        for name, other in (pair, pair[::-1])
        if "@" not in name
        for item in list_interventions(load_adapter(name))
        if algorithm in item.algorithms
        and probe in item.answers
        and (item.reference_form or item.answers[probe] in (f"as in {other}", "as in the paper"))
    ]


def _describe_answers(found: Sequence[DifferingAnswer], pair: tuple[str, str]) -> list[str]:
    lines = []
    for item in found:
        lines.append(f"{item.result.question} ({item.result.probe})")
        lines += [f"  {name}: {_word_answer(item.result, name)}" for name in pair]
        if item.removed_by:
            names = ", ".join(f"{change} in {name}" for name, change in item.removed_by)
            lines.append(f"  removed by: {names}")
    return lines or ["No probe is answered differently."]


def _word_answer(result: ProbeResult, name: str) -> str:
    """Describe a measured answer: its meaning, its difference from the source, and its line."""
    answer = result.answers[name]
    words = format_answer(answer, name_source(result))
    if answer.comparison.kind == AGREES:
        return words
    own = " by our recipe" if answer.origin == RECIPE else ""
    place = f", at {answer.source_line}" if answer.source_line else ""
    return f"{answer.meaning} ({words}{own}{place})"


def _describe_lockstep(
    sides: tuple[ComparedSide, ComparedSide], algorithm: str, level: AlignmentLevel
) -> list[str]:
    first, second = (
        dataclasses.replace(
            make_lockstep_side(side.framework, NO_INTERVENTION, algorithm, level.name),
            script=side.script,
        )
        for side in sides
    )
    try:
        result = compare_implementations(
            first, second, algorithm, LOCKSTEP_UPDATES, lambda _: None, LockstepOptions(level=level)
        )
    except SpecError as error:
        return [f"Not compared: {error}"]
    return format_lockstep_verdict(result).splitlines()


def _judge_ablations(
    loaded: "LoadedRuns | None", pair: tuple[str, str], algorithm: str
) -> list["AblationVerdict"]:
    """Return the study's ablations of two implementations."""
    if loaded is None:
        return []
    from parallax.analysis.verdicts.ablation import judge_ablations
    from parallax.analysis.verdicts.endpoints import settle_options
    from parallax.analysis.verdicts.options import VerdictOptions

    return [
        verdict
        for verdict in judge_ablations(loaded, settle_options(loaded, VerdictOptions()))
        if verdict.framework in pair and verdict.cell.algorithm == algorithm
    ]


def _judge_returns(
    loaded: "LoadedRuns | None", pair: tuple[str, str], setting: tuple[str, str]
) -> tuple[list["PairVerdict"], str]:
    """Return the verdicts on two implementations, and why there are none."""
    if loaded is None:
        return [], "Unknown: no runs were named with --study."
    from parallax.analysis.verdicts.consistency import judge_consistency
    from parallax.analysis.verdicts.endpoints import settle_options
    from parallax.analysis.verdicts.groups import UnknownScaleError, group_runs
    from parallax.analysis.verdicts.options import VerdictOptions

    settled = settle_options(loaded, VerdictOptions())
    try:
        groups = group_runs(loaded, settled)
    except UnknownScaleError as error:
        return [], f"Not compared: {error}"
    verdicts = [
        item
        for item in judge_consistency(groups, settled)
        if {item.first.framework, item.second.framework} == set(pair)
        and (item.cell.algorithm, item.cell.env) == setting
    ]
    return verdicts, f"{loaded.root} holds no runs of both on {setting[1]}."


def _describe_returns(
    verdicts: Sequence["PairVerdict"], pair: tuple[str, str], ablations: Sequence["AblationVerdict"]
) -> list[str]:
    lines = [
        f"{item.cell.env}, {item.cell.hps}, {item.cell.variant}: {item.first.framework} - "
        f"{item.second.framework} = {item.difference:.4g} ({item.low:.4g} to {item.high:.4g}), "
        f"n = {item.first.n} and {item.second.n}: {item.verdict}"
        for item in verdicts
    ]
    if any(item.cell.hps == UNKNOWN_NAME for item in verdicts):
        lines.append("The hyperparameters of these runs are unknown, and may not be those above.")
    lines += [
        f"{effect.name} in {verdict.framework}, {verdict.cell.env}, {verdict.cell.hps}, "
        f"{verdict.cell.variant}: "
        f"{effect.result.difference:+.4g} ({effect.result.low:.4g} to "
        f"{effect.result.high:.4g}), n = {effect.result.n} pairs: {effect.verdict}"
        + "".join(
            f"; {ratio.share:.0%} of the gap to {other}"
            for other, ratio in effect.shares.items()
            if other in pair
        )
        for verdict in ablations
        for effect in verdict.effects
    ]
    return lines


def _describe_changed_recipe(verdicts: Sequence["PairVerdict"], hps: str, recipe: str) -> list[str]:
    """Return a line if runs have other values than the recipe of their name, which was measured."""
    changed = set()
    for run in (run for item in verdicts for run in (*item.first.runs, *item.second.runs)):
        own, cell = run.spec.get("hyperparameters", {}), run.id.cell
        if cell.hps != recipe or run.spec.get("alignment") == "defaults":
            continue
        values = dataclasses.asdict(load_recipe(cell.algorithm, hps))
        # Whether there are convolutions depends on the task.
        named = {*run.spec.get("overridden", ()), "conv_filters"}
        changed |= {
            n for n in own.keys() & values.keys() - named if not _are_equal(own[n], values[n])
        }
    names = ", ".join(sorted(changed))
    return [f"These runs have other values than the recipe {recipe} above: {names}."] * bool(names)


def _are_equal(value: Any, other: Any) -> bool:
    """Return whether a recorded value is one of a recipe, whose sequences are tuples."""
    return bool(value == (list(other) if isinstance(other, tuple) else other))


def _repeat_settings(loaded: "LoadedRuns | None", setting: tuple[str, str, str, str]) -> str:
    """Return length and environments of the study's runs of a setting, as words of a command."""
    for run in loaded.runs if loaded else ():
        cell = run.id.cell
        if (cell.algorithm, cell.env, cell.hps, run.spec.get("alignment")) == setting:
            names = [name for name in ("steps", "eval_every", "eval_episodes") if name in run.spec]
            changed = {"n_envs": 1, "wrappers": "none"}
            names += [
                name for name in changed if run.spec.get(name, changed[name]) != changed[name]
            ]
            return "".join(f" {shlex.quote(f'{name}={run.spec[name]}')}" for name in names)
    return ""


def _find_config_folder(recipe: Path) -> str:
    """Return the folder for `--config-dir` that a recipe is in, or a placeholder."""
    folder = recipe.parents[2] if len(recipe.parents) > 2 else recipe
    return str(folder) if (folder / "hps" / recipe.name).is_file() else "FOLDER"


def _suggest_commands(
    options: argparse.Namespace,
    sides: tuple[ComparedSide, ComparedSide],
    found: Sequence[DifferingAnswer],
    common: str,
    judged: Collection[tuple[str, str]] = (),
    verdicts: Collection[str] = (),
) -> list[str]:
    common = f"{common} {shlex.quote(f'alignment={options.alignment}')}"
    end = "seed=0,1,2,3,4 study.name=why"
    commands = []
    if not verdicts:
        # Other frameworks take no script, so that an own script needs a separate training command.
        groups = [
            (side.framework, f" script={shlex.quote(str(side.path))}" if side.path else "")
            for side in sides
        ]
        if not any(script for _, script in groups):
            groups = [(",".join(side.framework for side in sides), "")]
        commands += [
            f"parallax train -m framework={name} {common}{script} {end}" for name, script in groups
        ]
    removals = dict.fromkeys(removal for item in found for removal in item.removed_by)
    for name in (side.label for side in sides):
        left = [removal for removal in removals if removal[0] == name and removal not in judged]
        changes = [change for _, change in left]
        if len(changes) > 1:
            changes.append(INTERVENTION_SEPARATOR.join(changes))
        if changes:
            values = ",".join(["none", *changes])
            commands.append(
                f"parallax train -m framework={name} {common} intervention={values} {end}"
            )
    has_ablation = "intervention=" in " ".join(commands)
    if commands:
        judge = "ablation" if has_ablation else "verdicts"
        commands.append(f"parallax study {judge} results/why")
    if "inconclusive" in verdicts:
        commands.append(f"parallax study plan {shlex.quote(str(options.study))}")
    if commands:
        return commands
    if removals:
        return ["Nothing: the ablations above include every known change against a difference."]
    return ["Nothing: no known change of the code removes a difference."]
