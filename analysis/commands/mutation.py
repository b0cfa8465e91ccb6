"""Which faults test generators tell from healthy trainings, and how sensitive they are."""

import argparse
from pathlib import Path

from rich.text import Text

from analysis.commands.shell import CommandError, make_console, writing_to
from analysis.data.outcomes import OutcomesError, read_outcomes
from analysis.tables.mutation import lines, rows
from analysis.tables.verdicts import to_csv
from analysis.verdicts.mutation import mutation
from harness.record.files import write_text
from harness.record.layout import ANALYSIS_FOLDER

TABLE = "mutation.csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    parser.add_argument("results", type=Path, help="a study's folder, or its mutation.json")
    parser.add_argument("--output", type=Path, help=f"folder; default: RESULTS/{ANALYSIS_FOLDER}")
    parser.add_argument(
        "--as-published-code",
        action="store_true",
        help="numbers as the reference's code counts where it departs from its paper",
    )


def run(options: argparse.Namespace) -> int:
    """Prints a table for each setting and writes one of all mutant configurations.

    Raises:
        CommandError: Nothing was played, or there is nowhere to write.
    """
    try:
        settings = read_outcomes(options.results)
    except OutcomesError as error:
        raise CommandError(str(error)) from error
    found = [mutation(setting, published=options.as_published_code) for setting in settings]
    folder = options.results if options.results.is_dir() else options.results.parent
    output = options.output or folder / ANALYSIS_FOLDER
    console = make_console()
    with writing_to(output):
        write_text(output / TABLE, to_csv([row for item in found for row in rows(item)]))
    for line in (*(line for item in found for line in lines(item)), f"File: {output / TABLE}"):
        console.print(Text(line), soft_wrap=True)
    return 0
