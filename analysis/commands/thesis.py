"""Judges the thesis' published tables alone, without any run, and draws what they hold."""

import argparse
import itertools
from pathlib import Path

from rich.text import Text

from parallax.analysis.commands.common import (
    add_jobs_argument,
    add_verdict_arguments,
    make_console,
    make_options,
    open_output_folder,
)
from parallax.analysis.commands.figures import draw_figures, format_figure_line
from parallax.analysis.commands.verdicts import summarize_verdicts, write_verdict_tables
from parallax.analysis.figures import families
from parallax.analysis.figures.figure_spec import FigureSpec
from parallax.analysis.report.render_markdown import render_markdown
from parallax.analysis.thesis.page import make_thesis_document
from parallax.analysis.verdicts.study import judge_published_table, results_from_published
from parallax.harness.record.files import write_text

THESIS_PAGE_NAME = "published-tables.md"
FIGURE_FAMILIES = ("reproduction", "intervals", "verdicts", "ranks")  # families that need no curves


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
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
    """Print a summary and write the page.

    Raises:
        CommandError: There is nowhere to write.
    """
    verdicts = judge_published_table(make_options(options))
    with open_output_folder(options.output):
        write_text(
            options.output / THESIS_PAGE_NAME, render_markdown(make_thesis_document(verdicts))
        )
    lines = [*summarize_verdicts(verdicts), f"Page:  {options.output / THESIS_PAGE_NAME}"]
    if options.tables:
        with open_output_folder(options.tables):
            lines += [f"Table: {path}" for path in write_verdict_tables(options.tables, verdicts)]
    if options.figures:
        found = families.make_family_figure_specs(results_from_published(verdicts), FIGURE_FAMILIES)
        items = list(itertools.chain(*found.values()))
        with open_output_folder(options.figures):
            draw_figures(
                [item for item in items if isinstance(item, FigureSpec)],
                options.figures,
                options.jobs,
            )
        lines += [format_figure_line(item, options.figures) for item in items]
    console = make_console()
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    return 0
