"""How stale recurrent states are in replay: Q-value discrepancy by strategy, over training."""

import argparse

from rich.text import Text

from analysis.commands.shell import (
    CommandError,
    add_folder_arguments,
    load_results,
    make_console,
    writing_to,
)
from analysis.data.staleness import read_staleness
from analysis.figures.sheet import render, write_bytes
from analysis.figures.staleness import sheet
from analysis.tables.staleness import lines, rows
from analysis.tables.verdicts import to_csv
from analysis.verdicts.staleness import settings
from harness.record.files import write_text
from harness.record.layout import ANALYSIS_FOLDER

TABLE = "discrepancy.csv"
STAGES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    add_folder_arguments(parser)
    parser.add_argument(
        "--stages",
        type=int,
        default=STAGES,
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
    console, items = make_console(), settings(found, options.stages)
    with writing_to(output):
        files = [output / TABLE]
        write_text(files[0], to_csv([row for item in items for row in rows(item)]))
        for item in items:
            page = sheet(item)
            for kind, content in render(page).items():
                files.append(output / f"{page.name}.{kind}")
                write_bytes(files[-1], content)
    told = [line for item in items for line in lines(item)]
    if unused := len(without) + len(loaded.excluded):
        told.append(f"Not used: {unused} of {loaded.requested} runs, which recorded none.")
    for line in (*told, *(f"File: {path}" for path in files)):
        console.print(Text(line), soft_wrap=True)
    return 0
