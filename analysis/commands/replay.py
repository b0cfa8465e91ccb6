"""Command: effect of prioritised replay on returns, accuracy of its priorities, its costs."""

import argparse

from rich.text import Text

from parallax.analysis.commands.common import (
    CommandError,
    add_folder_arguments,
    add_verdict_arguments,
    load_results,
    make_console,
    make_options,
    open_output_folder,
)
from parallax.analysis.data.replay_metrics import UNIFORM, read_replay_metrics, read_staleness
from parallax.analysis.figures.figure_spec import render_figure, write_file_bytes
from parallax.analysis.figures.replay import (
    make_replay_figure_specs,
    make_staleness_figure_spec,
)
from parallax.analysis.report.render_csv import rows_to_csv
from parallax.analysis.report.sections.replay import (
    format_replay_study,
    format_staleness_lines,
    make_effect_rows,
    make_staleness_rows,
    make_strategy_rows,
    summarize_replay,
)
from parallax.analysis.verdicts.replay import judge_replay, summarize_staleness
from parallax.harness.record.files import write_text
from parallax.harness.record.layout import ANALYSIS_FOLDER

STRATEGIES_TABLE, EFFECTS_TABLE = "replay.csv", "replay_effects.csv"
STALENESS_TABLE = "discrepancy.csv"
_DEFAULT_STAGES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    add_folder_arguments(parser)
    parser.add_argument(
        "--staleness",
        action="store_true",
        help="R2D2 only: measure how far stored recurrent states are from recomputed ones",
    )
    parser.add_argument(
        "--stages",
        type=int,
        default=_DEFAULT_STAGES,
        metavar="N",
        help="with --staleness: equal stages of the training (default: %(default)s)",
    )
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Print the effects, write two tables, and draw a figure for each setting.

    Raises:
        CommandError: Nothing was replayed otherwise than uniformly, or nowhere to write.
    """
    if options.staleness:
        return _report_staleness(options)
    loaded = load_results(options.results)
    items = read_replay_metrics(loaded)
    if all(item.name == UNIFORM for item in items):
        raise CommandError(
            f"{options.results}: every run replays uniformly. Train with "
            "replay=uniform,per,atdc,imp; docs/reference/replay.md tells what these are."
        )
    study = judge_replay(items, make_options(options))
    output = options.output or options.results / ANALYSIS_FOLDER
    with open_output_folder(output):
        files = [output / STRATEGIES_TABLE, output / EFFECTS_TABLE]
        for path, rows in zip(
            files, (make_strategy_rows(study), make_effect_rows(study)), strict=True
        ):
            write_text(path, rows_to_csv(rows))
        for page in make_replay_figure_specs(study):
            for kind, content in render_figure(page).items():
                path = output / f"{page.name}.{kind}"
                write_file_bytes(path, content)
                files.append(path)
    unread = [
        f"{item.item.path}: no looks at priorities: {item.unread}" for item in items if item.unread
    ]
    counts = f"{loaded.requested} run folders: {loaded.completed} complete, {loaded.used} used."
    lines = [
        *format_replay_study(study),
        "",
        *unread,
        *loaded.conflicts,
        counts,
        summarize_replay(study, study.effects),
    ]
    console = make_console()
    for line in (*lines, *(f"File: {path}" for path in files)):
        console.print(Text(line), soft_wrap=True)
    return 0


def _report_staleness(options: argparse.Namespace) -> int:
    """Print a line for each strategy, write a table, and draw a figure for each setting.

    Raises:
        CommandError: No run recorded discrepancies, or there is nowhere to write.
    """
    if options.stages < 1:
        raise CommandError(f"--stages {options.stages} must be at least 1.")
    loaded = load_results(options.results)
    found, without = read_staleness(loaded.runs)
    if not found:
        raise CommandError(
            f"{options.results}: no complete run recorded Q-value discrepancies. Runs of "
            "algorithm=r2d2 do whose episodes are longer than sequence_length less overlap."
        )
    output = options.output or options.results / ANALYSIS_FOLDER
    console, items = make_console(), summarize_staleness(found, options.stages)
    with open_output_folder(output):
        files = [output / STALENESS_TABLE]
        write_text(
            files[0], rows_to_csv([row for item in items for row in make_staleness_rows(item)])
        )
        for item in items:
            page = make_staleness_figure_spec(item)
            for kind, content in render_figure(page).items():
                files.append(output / f"{page.name}.{kind}")
                write_file_bytes(files[-1], content)
    lines = [line for item in items for line in format_staleness_lines(item)]
    if unused := len(without) + len(loaded.excluded):
        lines.append(f"Not used: {unused} of {loaded.requested} runs, which recorded none.")
    for line in (*lines, *(f"File: {path}" for path in files)):
        console.print(Text(line), soft_wrap=True)
    return 0
