"""Writes tables of final scores in the thesis' layout: Markdown, CSV and LaTeX."""

import argparse
from pathlib import Path

from rich.text import Text

from analysis.commands.shell import (
    RESULTS_HELP,
    add_verdict_arguments,
    analysis_folder,
    load_results,
    make_console,
    make_options,
    writing_to,
)
from analysis.stats.intervals import METHODS
from analysis.tables.scores import score_tables, to_csv, to_latex, to_markdown
from analysis.verdicts.study import judge_runs
from analysis.words import run_counts
from harness.record.files import write_text
from harness.record.layout import ANALYSIS_FOLDER

FOLDER = "tables"
FORMATS = {"md": to_markdown, "csv": to_csv, "tex": to_latex}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    parser.add_argument("results", type=Path, help=RESULTS_HELP)
    parser.add_argument(
        "--output", type=Path, help=f"folder; default: RESULTS/{ANALYSIS_FOLDER}/{FOLDER}"
    )
    parser.add_argument(
        "--interval", choices=METHODS, default="t", help="method of the 95%% intervals (default: t)"
    )
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Writes one table per study, algorithm and variant, and says where they are.

    Raises:
        CommandError: There are no runs, or nowhere to write.
    """
    settings = make_options(options)
    loaded = load_results(options.results)
    tables = score_tables(judge_runs(loaded, settings), options.interval)
    output = options.output or analysis_folder(options.results) / FOLDER
    console = make_console()
    with writing_to(output):
        for table in tables:
            for ending, convert in FORMATS.items():
                path = output / f"{table.name}.{ending}"
                write_text(path, convert(table))
                console.print(Text(f"Table: {path}"), soft_wrap=True)
    console.print(Text(run_counts(loaded)), soft_wrap=True)
    return 0
