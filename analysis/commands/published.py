"""Judges the thesis' published tables alone, without any run."""

import argparse
from pathlib import Path

from rich.text import Text

from analysis.commands.shell import add_verdict_arguments, make_console, make_options, writing_to
from analysis.commands.verdicts import summary, write_tables
from analysis.thesis.page import published_page
from analysis.verdicts.study import judge_published
from harness.record.files import write_text

PAGE = "published-tables.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    parser.add_argument(
        "--output", type=Path, default=Path(), help="folder of the page (default: this one)"
    )
    parser.add_argument("--tables", type=Path, help="folder for all verdicts as CSV; else none")
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Prints a summary and writes the page.

    Raises:
        CommandError: There is nowhere to write.
    """
    chosen = make_options(options)
    verdicts = judge_published(chosen)
    with writing_to(options.output):
        write_text(options.output / PAGE, published_page(chosen))
    lines = [*summary(verdicts), f"Page:  {options.output / PAGE}"]
    if options.tables:
        with writing_to(options.tables):
            lines += [f"Table: {path}" for path in write_tables(options.tables, verdicts)]
    console = make_console()
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    return 0
