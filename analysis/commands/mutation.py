"""Command: injected faults that test generators detect, and their sensitivity."""

import argparse
from pathlib import Path

from rich.text import Text

from parallax.analysis.commands.common import CommandError, make_console, open_output_folder
from parallax.analysis.data.mutation_outcomes import OutcomesError, read_outcomes
from parallax.analysis.report.render_csv import rows_to_csv
from parallax.analysis.report.sections.mutation import format_mutation_table, make_mutation_rows
from parallax.analysis.verdicts.mutation import judge_mutation
from parallax.harness.record.files import write_text
from parallax.harness.record.layout import ANALYSIS_FOLDER

MUTATION_TABLE = "mutation.csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("results", type=Path, help="a study's folder, or its mutation.json")
    parser.add_argument("--output", type=Path, help=f"folder; default: RESULTS/{ANALYSIS_FOLDER}")
    parser.add_argument(
        "--as-published-code",
        action="store_true",
        help="numbers as the reference's code counts where it departs from its paper",
    )


def run(options: argparse.Namespace) -> int:
    """Print a table for each setting and write one of all mutant configurations.

    Raises:
        CommandError: Nothing was played, or there is nowhere to write.
    """
    try:
        settings = read_outcomes(options.results)
    except OutcomesError as error:
        raise CommandError(str(error)) from error
    found = [
        judge_mutation(setting, as_published_code=options.as_published_code) for setting in settings
    ]
    folder = options.results if options.results.is_dir() else options.results.parent
    output = options.output or folder / ANALYSIS_FOLDER
    console = make_console()
    with open_output_folder(output):
        write_text(
            output / MUTATION_TABLE,
            rows_to_csv([row for item in found for row in make_mutation_rows(item)]),
        )
    for line in (
        *(line for item in found for line in format_mutation_table(item)),
        f"File: {output / MUTATION_TABLE}",
    ):
        console.print(Text(line), soft_wrap=True)
    return 0
