"""Judges the thesis' published tables alone, without any run, and draws what they hold."""

import argparse
import itertools
from pathlib import Path

from rich.text import Text

from analysis.commands.figures import add_jobs_argument, draw, figure_line
from analysis.commands.shell import add_verdict_arguments, make_console, make_options, writing_to
from analysis.commands.verdicts import summary, write_tables
from analysis.figures import families
from analysis.figures.sheet import Sheet
from analysis.thesis.page import published_page
from analysis.verdicts.study import judge_published, material_of_published
from harness.record.files import write_text

PAGE = "published-tables.md"
DRAWN = ("reproduction", "intervals", "verdicts", "ranks")  # families that need no curves


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    parser.add_argument(
        "--output", type=Path, default=Path(), help="folder of the page (default: this one)"
    )
    parser.add_argument("--tables", type=Path, help="folder for all verdicts as CSV; else none")
    parser.add_argument(
        "--figures", type=Path, help="folder for figures of these tables as PNG and PDF; else none"
    )
    add_jobs_argument(parser)
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Prints a summary and writes the page.

    Raises:
        CommandError: There is nowhere to write.
    """
    verdicts = judge_published(make_options(options))
    with writing_to(options.output):
        write_text(options.output / PAGE, published_page(verdicts))
    lines = [*summary(verdicts), f"Page:  {options.output / PAGE}"]
    if options.tables:
        with writing_to(options.tables):
            lines += [f"Table: {path}" for path in write_tables(options.tables, verdicts)]
    if options.figures:
        found = families.sheets(material_of_published(verdicts), DRAWN)
        items = list(itertools.chain(*found.values()))
        with writing_to(options.figures):
            draw([item for item in items if isinstance(item, Sheet)], options.figures, options.jobs)
        lines += [figure_line(item, options.figures) for item in items]
    console = make_console()
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    return 0
