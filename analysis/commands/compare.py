"""Prints a table with intervals, and draws learning curves."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.text import Text

from parallax.analysis.commands import common
from parallax.analysis.figures.curves import draw_learning_curves
from parallax.analysis.figures.figure_spec import save_figure
from parallax.analysis.report.render_markdown import render_markdown
from parallax.analysis.report.render_terminal import print_document
from parallax.analysis.report.sections import comparison
from parallax.analysis.verdicts.curves import CurvePanel, make_panels
from parallax.analysis.verdicts.endpoints import settle_options
from parallax.analysis.verdicts.failures import count_failed_as_bottom
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.harness.record.files import write_text

# Resampling starts from the same seed each time, so that the same runs give the same files.
_BOOTSTRAP_SEED = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    common.add_folder_arguments(parser)
    common.add_interval_argument(parser)
    common.add_endpoint_argument(parser.add_argument)


def run(options: argparse.Namespace) -> int:
    """Print and write the comparison.

    Args:
        options: The command line.

    Returns:
        0.

    Raises:
        CommandError: There is nothing to compare or nowhere to write.
    """
    common.check_endpoint(options.endpoint)
    loaded = common.load_results(options.results)
    settled = settle_options(loaded, VerdictOptions(endpoint=options.endpoint))
    output = options.output or common.get_analysis_folder(options.results)
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    groups = group_runs(loaded, settled)
    treated = count_failed_as_bottom(groups, settled)
    comparisons = comparison.compare_frameworks(groups, treated, settled, options.interval, rng)
    notes = comparison.make_notes(loaded, comparisons, settled, options.interval)
    panels = make_panels(loaded, options.interval, rng, treated)
    document = comparison.make_comparison_document(loaded, comparisons, notes)
    with common.open_output_folder(output):
        lines = _write_tables(
            output, comparison.comparison_to_csv(comparisons), render_markdown(document)
        )
        lines += _draw_learning_curves(output, panels, options.interval)
    console = common.make_console()
    print_document(console, document)
    if command := comparison.format_why_command(groups, options.results):
        lines.append(f"Next:    {command}")
    console.print(Text("\n".join(lines)), soft_wrap=True)
    return 0


def _write_tables(output: Path, table: str, text: str) -> list[str]:
    write_text(output / "comparison.csv", table)
    write_text(output / "comparison.md", text)
    return [f"Table:   {output / 'comparison.csv'}", f"         {output / 'comparison.md'}"]


def _draw_learning_curves(output: Path, panels: Sequence[CurvePanel], method: str) -> list[str]:
    if not any(panel.curves for panel in panels):
        return ["Picture: none, no run can be used"]
    png, pdf = output / "learning_curves.png", output / "learning_curves.pdf"
    save_figure(draw_learning_curves(panels, method), png, pdf)
    return [f"Picture: {png}", f"         {pdf}"]
