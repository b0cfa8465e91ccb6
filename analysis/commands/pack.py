"""Writes all runs of a study, with their evaluations and records, into one Parquet file."""

import argparse
from pathlib import Path

from rich.text import Text

from parallax.analysis.commands.common import (
    RESULTS_HELP,
    CommandError,
    make_console,
    open_output_folder,
    read_results,
)
from parallax.analysis.data.packed import write_packed
from parallax.analysis.data.runs import RunCollection
from parallax.harness.record.layout import PACKED_SUFFIX


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("results", type=Path, help=RESULTS_HELP)
    parser.add_argument("--output", type=Path, help=f"file; default: RESULTS{PACKED_SUFFIX}")
    parser.add_argument(
        "--anonymize",
        action="store_true",
        help="leave out host names and paths",
    )


def run(options: argparse.Namespace) -> int:
    """Write the file and print its path.

    Raises:
        CommandError: There are no runs, or nowhere to write.
    """
    found = read_results(options.results)
    path = options.output or options.results.absolute().with_suffix(PACKED_SUFFIX)
    pack_runs(found, path, anonymize=options.anonymize)
    return 0


def pack_runs(found: RunCollection, path: Path, *, anonymize: bool = False) -> None:
    """Write a file of packed runs and print a summary of it.

    Raises:
        CommandError: There is nowhere to write, or the name is no Parquet file's.
    """
    if path.suffix != PACKED_SUFFIX:
        raise CommandError(f"--output={path}: give a file that ends in {PACKED_SUFFIX}.")
    with open_output_folder(path.parent):
        write_packed(found, path, anonymize=anonymize)
    counts = f"{len(found.runs)} runs that can be used, {len(found.excluded)} that cannot"
    console = make_console()
    console.print(Text(f"Packed: {path}: {counts}."), soft_wrap=True)
    console.print(Text(f"Read it as a folder of runs: parallax report {path}"), soft_wrap=True)
