"""Prints a table with intervals, and draws learning curves."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.text import Text

from analysis.commands.shell import (
    add_folder_arguments,
    analysis_folder,
    load_results,
    make_console,
    writing_to,
)
from analysis.figures.learning_curves import draw_curves
from analysis.figures.sheet import save
from analysis.stats.intervals import METHODS
from analysis.tables.comparison import make_notes, print_comparison, to_csv, to_markdown
from analysis.verdicts.comparison import compare
from analysis.verdicts.curves import Panel, make_panels
from harness.record.files import write_text

# Resampling starts from the same seed each time, so that the same runs give the same files.
_BOOTSTRAP_SEED = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line."""
    add_folder_arguments(parser)
    parser.add_argument(
        "--interval", choices=METHODS, default="t", help="method of the 95%% intervals (default: t)"
    )


def run(options: argparse.Namespace) -> int:
    """Prints and writes the comparison.

    Args:
        options: The command line.

    Returns:
        0.

    Raises:
        CommandError: There is nothing to compare or nowhere to write.
    """
    loaded = load_results(options.results)
    output = options.output or analysis_folder(options.results)
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    comparisons = compare(loaded, options.interval, rng)
    notes = make_notes(loaded, comparisons, options.interval)
    panels = make_panels(loaded, options.interval, rng)
    with writing_to(output):
        lines = _write(output, to_csv(comparisons), to_markdown(loaded, comparisons, notes))
        lines += _draw(output, panels, options.interval)
    console = make_console()
    print_comparison(console, loaded, comparisons, notes)
    console.print(Text("\n".join(lines)), soft_wrap=True)
    return 0


def _write(output: Path, table: str, text: str) -> list[str]:
    write_text(output / "comparison.csv", table)
    write_text(output / "comparison.md", text)
    return [f"Table:   {output / 'comparison.csv'}", f"         {output / 'comparison.md'}"]


def _draw(output: Path, panels: Sequence[Panel], method: str) -> list[str]:
    if not any(panel.curves for panel in panels):
        return ["Picture: none, no run can be used"]
    png, pdf = output / "learning_curves.png", output / "learning_curves.pdf"
    save(draw_curves(panels, method), png, pdf)
    return [f"Picture: {png}", f"         {pdf}"]
