"""Further seeds that would decide what is undecided, as a sweep for the harness."""

import argparse
import collections
import shlex
import sys
from pathlib import Path

from rich.text import Text

from parallax.analysis.commands.common import (
    CommandError,
    add_folder_arguments,
    add_verdict_arguments,
    get_analysis_folder,
    load_results,
    make_console,
    make_options,
    open_output_folder,
)
from parallax.analysis.data.runs import LoadedRuns
from parallax.analysis.plan.planning import (
    SeedPlan,
    format_costs,
    format_pair_counts,
    plan_next_check,
    plan_seeds,
)
from parallax.analysis.plan.sweeps import format_script, make_sweeps
from parallax.analysis.report.render_csv import rows_to_csv
from parallax.analysis.report.sections.consistency import make_sequential_row
from parallax.analysis.verdicts.consistency import DIFFERENT, EQUIVALENT
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.sequential import SequentialSchedule, judge_sequentially
from parallax.analysis.verdicts.study import judge_runs
from parallax.harness.record.files import write_text

PLAN_SCRIPT, SEQUENTIAL_TABLE = "plan.sh", "stopping.csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    add_folder_arguments(parser)
    parser.add_argument("--most", type=int, default=30, help="seeds per framework (default: 30)")
    parser.add_argument("--batch", type=int, default=5, help="seeds added at once (default: 5)")
    parser.add_argument(
        "--sequential",
        action="store_true",
        help="look after every batch; --batch and --most must stay as they were at the first look",
    )
    parser.add_argument(
        "--replace-failed", action="store_true", help="new seeds in place of failed ones"
    )
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the plan and writes the script that carries it out.

    Raises:
        CommandError: There is nothing to plan for, or nowhere to write.
    """
    chosen = make_options(options)
    if options.batch < 1 or options.most < 2:
        given = f"--batch={options.batch} and --most={options.most}"
        raise CommandError(f"{given}: give at least 1 and 2.")
    loaded = load_results(options.results)
    output = (options.output or get_analysis_folder(options.results)) / PLAN_SCRIPT
    plan, lines = _make_plan(loaded, chosen, options, output.with_name(SEQUENTIAL_TABLE))
    if not any((plan.decided, plan.planned, plan.over_limit, plan.not_repeatable)):
        parted = "".join(f" {text}." for text in loaded.conflicts)
        raise CommandError(
            f"{options.results}: no setting has complete runs of two frameworks to compare.{parted}"
        )
    lines += [
        *format_pair_counts(plan, options.most, options.sequential),
        *loaded.conflicts,
        *format_costs(plan),
    ]
    with open_output_folder(output.parent):
        # Written without commands too, so that no script of an earlier plan is left.
        remark = "\n".join([f"python -m analysis {shlex.join(sys.argv[1:])}", *lines])
        write_text(output, format_script(make_sweeps(plan.needs, loaded), remark))
    if plan.needs:
        lines += ["", f"Start them with: sh {shlex.quote(str(output))}"]
    console = make_console()
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    return 0


def _make_plan(
    loaded: LoadedRuns, options: VerdictOptions, given: argparse.Namespace, table: Path
) -> tuple[SeedPlan, list[str]]:
    if not given.sequential:
        verdicts = judge_runs(loaded, options)
        sizes = given.most, given.batch, given.replace_failed
        return plan_seeds(verdicts.consistency, loaded, *sizes, options, verdicts.rankings), [
            f"Seeds for {options.power:.0%} power at the level that Holm's correction holds the "
            "next p-value against, if the values measured were the true ones. As these are rough, "
            "the true need may be anything between the numbers behind it (four cases of five)"
        ]
    try:
        looks = SequentialSchedule(given.batch, given.most)
    except ValueError as error:
        raise CommandError(str(error)) from error
    found = judge_sequentially(group_runs(loaded), options, looks)
    with open_output_folder(table.parent):
        write_text(table, rows_to_csv([make_sequential_row(item) for item in found]))
    words = collections.Counter(item.verdict for item in found)
    lines = [
        f"Looks after every {looks.batch} seeds, {looks.max_seeds} at most: {words[DIFFERENT]} "
        f"different, {words[EQUIVALENT]} equivalent of {len(found)} pairs",
        f"Table: {table}",
    ]
    return plan_next_check(found, loaded, given.replace_failed), lines
