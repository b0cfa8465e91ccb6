"""Estimates how many more seeds are needed, and writes the command that trains them."""

import argparse
import collections
import dataclasses
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parallax.analysis.commands import common
from parallax.analysis.data.runs import CompletedRun, LoadedRuns
from parallax.analysis.plan import planning
from parallax.analysis.plan.planning import SeedNeed
from parallax.analysis.plan.suite_needs import estimate_suite_needs, format_suite_needs
from parallax.analysis.report.sections.pair_tables import make_sequential_table
from parallax.analysis.report.tables import table_to_csv
from parallax.analysis.verdicts.endpoints import settle_options
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.sequential import SequentialSchedule, judge_sequentially
from parallax.analysis.verdicts.statements import DIFFERENT, EQUIVALENT
from parallax.analysis.verdicts.study import judge_runs
from parallax.harness.cli.arguments import add_trust_argument
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.record.files import print_lines, write_files_atomically
from parallax.harness.record.layout import RunPath, find_results_dir, format_task_name
from parallax.harness.record.run_json import RecordedSpec
from parallax.harness.train.trust import list_train_code, require_trust

PLAN_SCRIPT, SEQUENTIAL_TABLE = "plan.sh", "stopping.csv"

# Fields that the command sets itself; all other fields of a run's spec are passed on unchanged.
_EXCLUDED_FIELDS = {"study", "env", "algorithm", "hps", "framework", "seed", "python"}
_EXCLUDED_FIELDS |= {"checkpoint_every", "diagnosis", "logger"}  # how a run is recorded
_HYPERPARAMETER_FIELDS = {"hyperparameters", "overridden"}
_SPEC_FIELDS = {field.name for field in dataclasses.fields(RunSpec)}

_CHECK_SCRIPT = """\
is_planned_script() {
    case $(sha256sum "$1") in "$2"*) return 0 ;; esac
    echo "Not trained: $PWD/$1 is not the script of these runs, whose SHA-256 begins with $2." >&2
    echo "Restore the file: run.json of each run has its text under spec.script." >&2
    return 2
}
"""
_UNQUOTED_VALUE = re.compile(r"[\w./-]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    common.add_folder_arguments(parser)
    text = "largest number of seeds per framework (default: %(default)s)"
    parser.add_argument("--max-seeds", type=int, default=30, metavar="N", help=text)
    text = "seeds added at a time (default: %(default)s)"
    parser.add_argument("--batch", type=int, default=5, metavar="N", help=text)
    text = (
        "test after every batch, with error rates corrected for the repeated tests; all checks of "
        "a study need the same --batch and --max-seeds"
    )
    parser.add_argument("--sequential", action="store_true", help=text)
    text = (
        "plan for verdicts over all tasks of an algorithm together, which need fewer seeds per "
        "task than verdicts on single tasks"
    )
    parser.add_argument("--suite", action="store_true", help=text)
    text = "also plan new seeds for failed runs"
    parser.add_argument("--replace-failed", action="store_true", help=text)
    add_trust_argument(parser)
    common.add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Print the plan and write the script that carries it out.

    Raises:
        CommandError: There is nothing to plan for, or nowhere to write.
        SpecError: A run has unknown settings, or names code that the user does not trust.
    """
    chosen = common.make_options(options)
    if options.batch < 1 or options.max_seeds < 2:
        given = f"--batch={options.batch} and --max-seeds={options.max_seeds}"
        raise common.CommandError(f"{given}: give at least 1 and 2.")
    if options.suite and options.sequential:
        raise common.CommandError("--suite and --sequential: give one of them.")
    loaded = common.load_results(options.results, chosen)
    output = common.choose_output_folder(options) / PLAN_SCRIPT
    texts: dict[Path, str] = {}
    if options.sequential:
        table = output.with_name(SEQUENTIAL_TABLE)
        plan, lines, texts[table] = _plan_next_check(loaded, chosen, options)
        lines += [f"Table: {table}"]
    else:
        plan, lines = _plan_by_power(loaded, chosen, options)
    if not any((plan.decided, plan.planned, plan.over_limit, plan.not_repeatable)):
        conflicts = "".join(f" {text}." for text in loaded.conflicts)
        raise common.CommandError(
            f"{options.results}: no setting has complete runs of two frameworks to compare."
            f"{conflicts}"
        )
    lines += [
        *planning.format_pair_counts(plan, options.max_seeds, options.sequential),
        *loaded.conflicts,
        *planning.format_costs(plan, options.max_seeds),
    ]
    code = [line for need in plan.needs for line in _list_planned_code(need, loaded.runs)]
    require_trust(options.results, list(dict.fromkeys(code)), trust=options.trust)
    with common.open_output_folder(output.parent):
        # Written without commands too, so that no script of an earlier plan is left.
        remark = "\n".join([f"parallax {shlex.join(sys.argv[1:])}", *lines])
        texts[output] = format_script(make_sweeps(plan.needs, loaded), remark)
        write_files_atomically(texts)
    if plan.needs:
        lines += ["", f"Start them with: sh {shlex.quote(str(output))}"]
    print_lines(lines)
    return 0


def _plan_by_power(
    loaded: LoadedRuns, options: VerdictOptions, given: argparse.Namespace
) -> tuple[planning.SeedPlan, list[str]]:
    """Plan the seeds that pairs need for the requested power, and describe the power."""
    verdicts = judge_runs(loaded, options)
    options = verdicts.options
    needs = estimate_suite_needs(verdicts.groups, verdicts.suites, options)
    lines = [
        f"Score: {options.chosen_endpoint.description} ({options.endpoint_source})",
        f"Seeds for {options.power:.0%} power at the level that Holm's correction requires of "
        "the next p-value. Few seeds measure means and deviations roughly, so that the need is "
        "a range: four cases of five lie within it",
        *format_suite_needs(needs, options),
    ]
    if not given.suite:
        sizes = given.max_seeds, given.batch, given.replace_failed
        plan = planning.plan_seeds(verdicts.consistency, loaded, *sizes, options, verdicts.rankings)
        return plan, lines
    if not needs:
        raise common.CommandError(
            f"--suite: {given.results} has no algorithm with two runs of two frameworks on each "
            "of two tasks of which a scale is known. Leave --suite out, or give "
            "--range ENV=LOW:HIGH."
        )
    return planning.plan_suite_seeds(needs, loaded, given.max_seeds, given.replace_failed), lines


def _plan_next_check(
    loaded: LoadedRuns, options: VerdictOptions, given: argparse.Namespace
) -> tuple[planning.SeedPlan, list[str], str]:
    """Judge pairs by the sequential test, plan the next check, and return their table as CSV."""
    try:
        schedule = SequentialSchedule(given.batch, given.max_seeds)
    except ValueError as error:
        raise common.CommandError(str(error)) from error
    options = settle_options(loaded, options)
    found = judge_sequentially(group_runs(loaded, options), options, schedule)
    words = collections.Counter(item.verdict for item in found)
    lines = [
        f"Checks after every {schedule.batch} seeds, {schedule.max_seeds} at most: "
        f"{words[DIFFERENT]} different, {words[EQUIVALENT]} equivalent of {len(found)} pairs"
    ]
    plan = planning.plan_next_check(found, loaded, given.replace_failed)
    return plan, lines, table_to_csv(make_sequential_table(found))


@dataclasses.dataclass(frozen=True)
class SeedSweep:
    """Every combination of its values, one run each.

    Attributes:
        settings: What all runs share, as `name=value`.
        script: Name and first digits of the SHA-256 of the user's own script that is trained; None
            where the framework's code is.
    """

    settings: tuple[str, ...]
    algorithms: tuple[str, ...]
    hps: tuple[str, ...]
    envs: tuple[str, ...]
    frameworks: tuple[str, ...]
    seeds: tuple[int, ...]
    script: tuple[str, str] | None = None

    def command(self) -> str:
        """Return the command line, for a POSIX shell."""
        options = {
            "framework": self.frameworks,
            "algorithm": self.algorithms,
            "env.name": self.envs,
            "hps": self.hps,
            "seed": (_format_seeds(self.seeds),),
        }
        words = [f"{name}={','.join(values)}" for name, values in options.items()]
        arguments = shlex.join([*words, *self.settings])
        command = f"${{PYTHON:-python}} -P -m parallax train --multirun {arguments}"
        if self.script is None:
            return command
        name, digest = map(shlex.quote, self.script)  # the file may have been edited since
        return f"is_planned_script {name} {digest} && {command}"


def make_sweeps(needs: Sequence[SeedNeed], loaded: LoadedRuns) -> tuple[SeedSweep, ...]:
    """Return command lines for the seeds, merged along one axis after the other.

    They repeat the settings of the loaded runs.
    """
    sweeps = [
        SeedSweep(
            _collect_settings(need, loaded.runs),
            (need.cell.algorithm,),
            (need.cell.hps,),
            (_find_pattern(need, loaded.runs).spec["env"],),
            (need.framework.partition("@")[0],),
            need.seeds,
            _find_script(need),
        )
        for need in needs
    ]
    for axis in ("frameworks", "envs", "hps", "algorithms"):
        sweeps = _merge_axis(sweeps, axis)
    return tuple(sweeps)


def format_script(sweeps: Sequence[SeedSweep], remark: str) -> str:
    """Return a shell script with all sweeps."""
    lines = ["#!/bin/sh", *(f"# {line}".rstrip() for line in remark.splitlines())]
    lines += ["# Words given to this script are passed on, such as hydra.launcher.n_jobs=4.", ""]
    lines += [_CHECK_SCRIPT] if any(sweep.script for sweep in sweeps) else []
    lines += ["status=0", *(f'{sweep.command()} "$@" || status=$?' for sweep in sweeps)]
    lines += ["exit $status"]
    return "\n".join(lines) + "\n"


def _merge_axis(sweeps: Sequence[SeedSweep], axis: str) -> list[SeedSweep]:
    """Join sweeps that differ in one kind of value only."""
    found: dict[SeedSweep, list[str]] = collections.defaultdict(list)
    for sweep in sweeps:
        nothing: dict[str, Any] = {axis: ()}
        found[dataclasses.replace(sweep, **nothing)] += getattr(sweep, axis)
    merged = []
    for rest, values in found.items():
        changes: dict[str, Any] = {axis: tuple(dict.fromkeys(values))}
        merged.append(dataclasses.replace(rest, **changes))
    return merged


def _collect_settings(need: SeedNeed, runs: Sequence[CompletedRun]) -> tuple[str, ...]:
    """Return the options that a run of the setting had, its own framework's before others'."""
    run = _find_pattern(need, runs)
    spec = run.spec
    values: dict[str, Any] = {"study.name": need.cell.study}
    values |= {
        name: spec[name] for name in spec if name not in _EXCLUDED_FIELDS | _HYPERPARAMETER_FIELDS
    }
    replay = dict(values.pop("replay", {"name": "uniform"}))
    strategy = replay.pop("name")
    if strategy != "uniform":
        values |= {"replay": strategy} | {f"replay.{name}": replay[name] for name in replay}
    values |= {
        f"hyperparameters.{name}": spec["hyperparameters"][name] for name in spec["overridden"]
    }
    kwargs, wrappers = values.pop("env_kwargs", {}), values.pop("env_wrappers", ())
    values |= {f"env.kwargs.{name}": kwargs[name] for name in kwargs}
    values |= {"env.wrappers": wrappers} if wrappers else {}
    values.pop("script", None)
    if run.id.framework == need.framework:
        values |= {"framework.python": spec["python"]} if spec.get("python") else {}
    if script := _find_script(need):
        values |= {"script": script[0]}
    place = _find_results_dir(run)
    values |= {"results_dir": str(place)} if place else {}
    return tuple(f"{name}={_format_value(value)}" for name, value in values.items())


def _list_planned_code(need: SeedNeed, runs: Sequence[CompletedRun]) -> list[str]:
    """List the code that the options of a setting name and that is not installed here.

    Raises:
        SpecError: A run has settings that no command could have given it.
    """
    run = _find_pattern(need, runs)
    unknown = [name for name in run.spec if name not in _SPEC_FIELDS]
    names = [*run.spec["overridden"], *run.spec.get("env_kwargs", {}), *run.spec.get("replay", {})]
    if unknown := unknown + [name for name in names if not name.isidentifier()]:
        listed = ", ".join(name[:100] for name in unknown[:5])
        raise SpecError(
            f"{run.path} has settings that this version does not know: {listed}. "
            "Remove the run to plan without it."
        )
    spec = msgspec.convert(run.spec, RecordedSpec)
    python = spec.python if run.id.framework == need.framework else None
    # The script is the user's own file, of which the command checks the hash.
    return list_train_code(msgspec.structs.replace(spec, python=python, script=None))


def _find_script(need: SeedNeed) -> tuple[str, str] | None:
    """Return the name of the user's script that is trained, and the first digits of its hash."""
    stem, _, digest = need.framework.partition("@")[2].rpartition("-")
    return (f"{stem}.py", digest) if stem else None


def _find_pattern(need: SeedNeed, runs: Sequence[CompletedRun]) -> CompletedRun:
    """Return a run of the setting, of its own framework where there is one."""
    inside = [run for run in runs if run.id.cell == need.cell]
    return next((run for run in inside if run.id.framework == need.framework), inside[0])


def _find_results_dir(run: CompletedRun) -> Path | None:
    """Return the folder above the study, if the run is where the harness puts it."""
    spec, folder = run.spec, run.path
    path = RunPath(
        spec["study"],
        format_task_name(spec["env"], spec.get("env_kwargs", {}), spec.get("env_wrappers", ())),
        spec["algorithm"],
        spec["hps"],
        run.id.framework,
        folder.parent.name,
        spec["seed"],
    )
    return find_results_dir(folder, path)


def _format_seeds(seeds: Sequence[int]) -> str:
    """Format seeds for a Hydra sweep; consecutive seeds as a range, whose end is exclusive."""
    if len(seeds) > 3 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"range({seeds[0]},{seeds[-1] + 1})"
    return ",".join(map(str, seeds))


def _format_value(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{name}:{_format_value(value[name])}' for name in value)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_format_value, value))}]"
    text = str(value)
    if _UNQUOTED_VALUE.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
