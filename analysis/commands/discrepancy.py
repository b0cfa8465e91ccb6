"""How stale recurrent states are in replay: Q-value discrepancy by strategy, over training."""

import argparse

from rich.text import Text

from parallax.analysis.commands.common import (
    CommandError,
    add_folder_arguments,
    load_results,
    make_console,
    open_output_folder,
)
from parallax.analysis.data.replay_metrics import read_staleness
from parallax.analysis.figures.figure_spec import render_figure, write_file_bytes
from parallax.analysis.figures.replay import make_staleness_figure_spec
from parallax.analysis.report.render_csv import rows_to_csv
from parallax.analysis.report.sections.replay import format_staleness_lines, make_staleness_rows
from parallax.analysis.verdicts.replay import summarize_staleness
from parallax.harness.record.files import write_text
from parallax.harness.record.layout import ANALYSIS_FOLDER

STALENESS_TABLE = "discrepancy.csv"
DEFAULT_STAGES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    add_folder_arguments(parser)
    parser.add_argument(
        "--stages",
        type=int,
        default=DEFAULT_STAGES,
        help="equal parts of the training to tell apart (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Prints a line for each strategy, writes a table, and draws a figure for each setting.

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
    told = [line for item in items for line in format_staleness_lines(item)]
    if unused := len(without) + len(loaded.excluded):
        told.append(f"Not used: {unused} of {loaded.requested} runs, which recorded none.")
    for line in (*told, *(f"File: {path}" for path in files)):
        console.print(Text(line), soft_wrap=True)
    return 0
