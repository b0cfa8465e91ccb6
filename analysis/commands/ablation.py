"""What each change of one thing does to the return, and how much of a gap it explains."""

import argparse

from rich.text import Text

from analysis.commands.shell import (
    CommandError,
    add_folder_arguments,
    add_verdict_arguments,
    analysis_folder,
    load_results,
    make_console,
    make_options,
    writing_to,
)
from analysis.figures.ablation import sheet
from analysis.figures.sheet import render, write_bytes
from analysis.tables.ablation import rows, sentences, summary
from analysis.tables.verdicts import to_csv
from analysis.verdicts.ablation import ablations
from harness.record.files import write_text

TABLE = "ablation.csv"
NOTHING_CHANGED = (
    "no framework was trained both as it is and with an intervention. "
    "Train with intervention=none,NAME; parallax interventions lists the names."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    add_folder_arguments(parser)
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Prints what was found, writes it as a table, and draws a figure for each setting.

    Raises:
        CommandError: There is nothing to compare or nowhere to write.
    """
    loaded = load_results(options.results)
    found = ablations(loaded, make_options(options))
    if not found:
        raise CommandError(f"{options.results}: {NOTHING_CHANGED}")
    output = options.output or analysis_folder(options.results)
    console = make_console()
    with writing_to(output):
        table = output / TABLE
        write_text(table, to_csv([row for item in found for row in rows(item)]))
        files = [table]
        for item in found:
            page = sheet(item)
            for kind, content in render(page).items():
                path = output / f"{page.name}.{kind}"
                write_bytes(path, content)
                files.append(path)
    lines = [line for item in found for line in sentences(item)]
    for line in (*lines, *loaded.parted, summary(found), *(f"File: {path}" for path in files)):
        console.print(Text(line), soft_wrap=True)
    return 0
