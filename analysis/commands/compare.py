"""Prints a table with intervals, and draws learning curves."""

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from parallax.analysis.commands import common
from parallax.analysis.escaping import escape_controls
from parallax.analysis.figures.curves import draw_learning_curves
from parallax.analysis.figures.figure_spec import encode_figure
from parallax.analysis.report.document import (
    Block,
    Document,
    Grid,
    Inline,
    Listing,
    ReportSection,
    Strong,
    Words,
)
from parallax.analysis.report.render_markdown import render_markdown
from parallax.analysis.report.sections import comparison
from parallax.analysis.verdicts.curves import make_panels
from parallax.analysis.verdicts.endpoints import settle_options
from parallax.analysis.verdicts.failures import count_failed_as_bottom
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.harness.record.files import print_lines, write_files_atomically

_BOOTSTRAP_SEED = 0  # always the same, so that the same runs give the same files
MAX_PANELS = 64  # settings in the picture
_MIN_COLUMN_WIDTH = 10  # characters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    common.add_folder_arguments(parser)
    common.add_endpoint_argument(parser.add_argument)
    common.add_interval_argument(parser.add_argument)


def run(options: argparse.Namespace) -> int:
    """Print and write the comparison.

    Raises:
        CommandError: There is nothing to compare or nowhere to write.
    """
    common.check_endpoint(options.endpoint)
    loaded = common.load_results(options.results)
    settled = settle_options(loaded, VerdictOptions(endpoint=options.endpoint))
    output = common.choose_output_folder(options)
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    groups = group_runs(loaded, settled)
    with_failed_runs = count_failed_as_bottom(groups, settled)
    comparisons = comparison.compare_frameworks(
        groups, with_failed_runs, settled, options.interval, rng
    )
    notes = comparison.make_notes(loaded, comparisons, settled, options.interval)
    panels = make_panels(loaded, options.interval, rng, with_failed_runs)
    document = comparison.make_comparison_document(loaded, comparisons, notes)
    table, text = output / "comparison.csv", output / "comparison.md"
    lines = [f"Table:   {table}", f"         {text}"]
    contents: dict[Path, str | bytes] = {
        table: comparison.comparison_to_csv(comparisons),
        text: render_markdown(document),
    }
    if not any(panel.curves for panel in panels):
        lines.append("Picture: none, no run can be used")
    elif len(panels) > MAX_PANELS:
        settings = f"of {len(panels)} settings, {MAX_PANELS} are drawn"
        lines.append(f"Picture: none, {settings}: name fewer")
    else:
        drawn = encode_figure(draw_learning_curves(panels, options.interval))
        pictures = {output / f"learning_curves.{kind}": raw for kind, raw in drawn.items()}
        contents |= pictures
        lines += [f"{head:8} {path}" for head, path in zip(("Picture:", ""), pictures, strict=True)]
    with common.open_output_folder(output):
        write_files_atomically(contents)
    console = common.make_console()
    print_document(console, document)
    command = comparison.format_why_command(groups, options.results)
    if command:
        lines.append(f"Next:    {command}")
    print_lines(lines)  # names of folders may hold control characters
    return 0


def print_document(console: Console, document: Document) -> None:
    """Print the blocks of a document that a terminal can show."""
    title = Text(document.title, style="bold")
    for block in document.blocks:
        if isinstance(block, Grid):
            console.print(_make_table(block, title, console.width))
            title = Text("")
        else:
            _print_block(console, block)
    console.print()


def _print_block(console: Console, block: Block) -> None:
    if isinstance(block, ReportSection):
        console.print(Text(f"\n{block.heading}", style="bold"))
        for inner in block.blocks:
            _print_block(console, inner)
    elif isinstance(block, Listing):
        console.print(_make_bullets(block.items))
    elif isinstance(block, str | tuple):
        console.print(Text(words_to_text(block)))


def words_to_text(words: Words) -> str:
    """Return text without markup and control characters."""
    if isinstance(words, str):
        return str(escape_controls(words))
    return "".join(map(_inline_to_text, words))


def _inline_to_text(part: Inline) -> str:
    if isinstance(part, Strong):
        return words_to_text(part.words)
    return words_to_text(part if isinstance(part, str) else part.text)


def _make_table(grid: Grid, title: Text, width: int) -> RichTable:
    """Return a table, with two columns if the terminal is too narrow for those of the grid."""
    table = RichTable(title=title, box=box.SIMPLE_HEAD, show_lines=True)
    if len(grid.heads) * _MIN_COLUMN_WIDTH > width:
        table.show_header, table.show_lines = False, False
        for _ in range(2):
            table.add_column(overflow="fold")
        for row in grid.rows:
            for head, cell in zip(grid.heads, row, strict=True):
                table.add_row(Text(head), Text(words_to_text(cell)))
            table.add_section()
        return table
    for head in grid.heads:
        table.add_column(Text(head), overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(words_to_text(cell)) for cell in row))
    return table


def _make_bullets(items: Iterable[Words]) -> RichTable:
    bullets = RichTable.grid(padding=(0, 1))
    bullets.add_column()
    bullets.add_column(overflow="fold")
    for item in items:
        bullets.add_row("-", Text(words_to_text(item)))
    return bullets
