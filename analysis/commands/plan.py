"""Estimates how many more seeds are needed, and writes the command that trains them."""

import argparse
import collections
import shlex
import sys
from pathlib import Path

from rich.text import Text

from parallax.analysis.commands import common
from parallax.analysis.data.runs import LoadedRuns
from parallax.analysis.plan import planning
from parallax.analysis.plan.suite_needs import estimate_suite_needs, format_suite_needs
from parallax.analysis.plan.sweeps import format_script, make_sweeps
from parallax.analysis.report.sections.consistency import make_sequential_table
from parallax.analysis.report.tables import table_to_csv
from parallax.analysis.verdicts.consistency import DIFFERENT, EQUIVALENT
from parallax.analysis.verdicts.endpoints import settle_options
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.sequential import SequentialSchedule, judge_sequentially
from parallax.analysis.verdicts.study import judge_runs
from parallax.harness.record.files import write_text

PLAN_SCRIPT, SEQUENTIAL_TABLE = "plan.sh", "stopping.csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    common.add_folder_arguments(parser)
    parser.add_argument(
        "--max-seeds",
        type=int,
        default=30,
        metavar="N",
        help="seeds per framework at most (default: %(default)s)",
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=5,
        metavar="N",
        help="seeds added at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--sequential",
        action="store_true",
        help="test after every batch, with error rates that allow for it; all checks of a study "
        "need the same --batch and --max-seeds",
    )
    parser.add_argument(
        "--suite",
        action="store_true",
        help="plan for verdicts over all tasks of an algorithm together, which need fewer seeds "
        "per task than verdicts on single tasks",
    )
    parser.add_argument(
        "--replace-failed", action="store_true", help="also plan new seeds for failed runs"
    )
    common.add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Print the plan and write the script that carries it out.

    Raises:
        CommandError: There is nothing to plan for, or nowhere to write.
    """
    chosen = common.make_options(options)
    if options.batch < 1 or options.max_seeds < 2:
        given = f"--batch={options.batch} and --max-seeds={options.max_seeds}"
        raise common.CommandError(f"{given}: give at least 1 and 2.")
    loaded = common.load_results(options.results)
    output = (options.output or common.get_analysis_folder(options.results)) / PLAN_SCRIPT
    plan, lines = _make_plan(loaded, chosen, options, output.with_name(SEQUENTIAL_TABLE))
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
    with common.open_output_folder(output.parent):
        # Written without commands too, so that no script of an earlier plan is left.
        remark = "\n".join([f"parallax {shlex.join(sys.argv[1:])}", *lines])
        write_text(output, format_script(make_sweeps(plan.needs, loaded), remark))
    if plan.needs:
        lines += ["", f"Start them with: sh {shlex.quote(str(output))}"]
    console = common.make_console()
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    return 0


def _make_plan(
    loaded: LoadedRuns, options: VerdictOptions, given: argparse.Namespace, table: Path
) -> tuple[planning.SeedPlan, list[str]]:
    if given.suite and given.sequential:
        raise common.CommandError("--suite and --sequential: give one of them.")
    if not given.sequential:
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
        if given.suite:
            if not needs:
                raise common.CommandError(
                    f"--suite: {given.results} has no algorithm with two runs of two frameworks on "
                    "each of two tasks of which a scale is known. Leave --suite out, or give "
                    "--range ENV=LOW:HIGH."
                )
            return planning.plan_suite_seeds(
                needs, loaded, given.max_seeds, given.replace_failed
            ), lines
        sizes = given.max_seeds, given.batch, given.replace_failed
        return planning.plan_seeds(
            verdicts.consistency, loaded, *sizes, options, verdicts.rankings
        ), lines
    try:
        looks = SequentialSchedule(given.batch, given.max_seeds)
    except ValueError as error:
        raise common.CommandError(str(error)) from error
    options = settle_options(loaded, options)
    found = judge_sequentially(group_runs(loaded, options), options, looks)
    with common.open_output_folder(table.parent):
        write_text(table, table_to_csv(make_sequential_table(found)))
    words = collections.Counter(item.verdict for item in found)
    lines = [
        f"Looks after every {looks.batch} seeds, {looks.max_seeds} at most: {words[DIFFERENT]} "
        f"different, {words[EQUIVALENT]} equivalent of {len(found)} pairs",
        f"Table: {table}",
    ]
    return planning.plan_next_check(found, loaded, given.replace_failed), lines
