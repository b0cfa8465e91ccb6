"""Command: effects of single changes on the return, and the share of a gap they explain."""

import argparse

from rich.text import Text

from parallax.analysis.commands.common import (
    CommandError,
    add_folder_arguments,
    add_verdict_arguments,
    get_analysis_folder,
    load_results,
    make_console,
    make_options,
    open_output_folder,
)
from parallax.analysis.figures.ablation import make_ablation_figure_spec
from parallax.analysis.figures.figure_spec import render_figure, write_file_bytes
from parallax.analysis.report.render_csv import rows_to_csv
from parallax.analysis.report.sections.ablation import (
    format_ablation,
    make_ablation_rows,
    summarize_ablations,
)
from parallax.analysis.verdicts.ablation import judge_ablations
from parallax.harness.record.files import write_text

ABLATION_TABLE = "ablation.csv"
NO_INTERVENTION_MESSAGE = (
    "no framework was trained both as it is and with an intervention. "
    "Train with intervention=none,NAME; parallax intervention list lists the names."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    add_folder_arguments(parser)
    add_verdict_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Print the effects, write them as a table, and draw a figure for each setting.

    Raises:
        CommandError: There is nothing to compare or nowhere to write.
    """
    loaded = load_results(options.results)
    found = judge_ablations(loaded, make_options(options))
    if not found:
        raise CommandError(f"{options.results}: {NO_INTERVENTION_MESSAGE}")
    output = options.output or get_analysis_folder(options.results)
    console = make_console()
    with open_output_folder(output):
        table = output / ABLATION_TABLE
        write_text(table, rows_to_csv([row for item in found for row in make_ablation_rows(item)]))
        files = [table]
        for item in found:
            page = make_ablation_figure_spec(item)
            for kind, content in render_figure(page).items():
                path = output / f"{page.name}.{kind}"
                write_file_bytes(path, content)
                files.append(path)
    lines = [line for item in found for line in format_ablation(item)]
    for line in (
        *lines,
        *loaded.conflicts,
        summarize_ablations(found),
        *(f"File: {path}" for path in files),
    ):
        console.print(Text(line), soft_wrap=True)
    return 0
