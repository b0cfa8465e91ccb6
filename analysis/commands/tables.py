"""Writes tables of final scores in the thesis' layout: Markdown, CSV and LaTeX."""

import argparse
from pathlib import Path

from rich.text import Text

from parallax.analysis.commands.common import (
    RESULTS_HELP,
    add_verdict_arguments,
    get_analysis_folder,
    load_results,
    make_console,
    make_options,
    open_output_folder,
)
from parallax.analysis.labels import format_run_counts
from parallax.analysis.report.sections.scores import (
    make_score_tables,
    score_table_to_csv,
    score_table_to_latex,
    score_table_to_markdown,
)
from parallax.analysis.stats.intervals import INTERVAL_METHODS
from parallax.analysis.verdicts.study import judge_runs
from parallax.harness.record.files import write_text
from parallax.harness.record.layout import ANALYSIS_FOLDER

TABLES_FOLDER = "tables"
TABLE_FORMATS = {
    "md": score_table_to_markdown,
    "csv": score_table_to_csv,
    "tex": score_table_to_latex,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    parser.add_argument("results", type=Path, help=RESULTS_HELP)
    parser.add_argument(
        "--output", type=Path, help=f"folder; default: RESULTS/{ANALYSIS_FOLDER}/{TABLES_FOLDER}"
    )
    parser.add_argument(
        "--interval",
        choices=INTERVAL_METHODS,
        default="t",
        help="method of the 95%% intervals (default: t)",
    )
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Writes one table per study, algorithm and variant, and says where they are.

    Raises:
        CommandError: There are no runs, or nowhere to write.
    """
    settings = make_options(options)
    loaded = load_results(options.results)
    tables = make_score_tables(judge_runs(loaded, settings), options.interval)
    output = options.output or get_analysis_folder(options.results) / TABLES_FOLDER
    console = make_console()
    with open_output_folder(output):
        for table in tables:
            for ending, convert in TABLE_FORMATS.items():
                path = output / f"{table.name}.{ending}"
                write_text(path, convert(table))
                console.print(Text(f"Table: {path}"), soft_wrap=True)
    console.print(Text(format_run_counts(loaded)), soft_wrap=True)
    return 0
