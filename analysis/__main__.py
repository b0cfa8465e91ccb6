"""Compares frameworks: `python -m analysis RESULTS`."""

import argparse
import io
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from analysis.compare import compare
from analysis.curves import Panel, make_panels
from analysis.figures import draw_curves, save
from analysis.files import write_text
from analysis.intervals import METHODS
from analysis.load import OUTPUT_FOLDER, load
from analysis.notes import make_notes
from analysis.tables import print_comparison, to_csv, to_markdown

_WIDEST = 100  # columns
# Resampling starts from the same seed each time, so that the same runs give the same files.
_BOOTSTRAP_SEED = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints and writes the comparison.

    Args:
        arguments: The command line; that of the process if None.

    Returns:
        0, or 2 if there is nothing to compare or nowhere to write.
    """
    options = _parser().parse_args(arguments)
    if not options.results.is_dir():
        return _fail(f"{options.results}: no such folder. Give a results folder or a study in it.")
    loaded = load(options.results)
    if not loaded.requested:
        return _fail(
            f"{options.results}: no runs found, that is no folder named seed=<n> or holding a "
            "run.json. Give a results folder or a study in it."
        )
    output = options.output or options.results / OUTPUT_FOLDER
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    comparisons = compare(loaded, options.interval, rng)
    notes = make_notes(loaded, comparisons, options.interval)
    panels = make_panels(loaded, options.interval, rng)
    try:
        output.mkdir(parents=True, exist_ok=True)
        lines = _write(output, to_csv(comparisons), to_markdown(loaded, comparisons, notes))
        lines += _draw(output, panels, options.interval)
    except OSError as error:
        return _fail(f"{output}: cannot be written: {error.strerror}. Choose another --output.")
    console = _console()
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


def _console() -> Console:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # where a terminal lacks a character
    return Console(width=min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis", description="Compares frameworks by the runs in a folder."
    )
    parser.add_argument("results", type=Path, help="results folder, study, or a folder in it")
    parser.add_argument(
        "--interval", choices=METHODS, default="t", help="method of the 95%% intervals (default: t)"
    )
    parser.add_argument("--output", type=Path, help="default: RESULTS/analysis")
    return parser


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
