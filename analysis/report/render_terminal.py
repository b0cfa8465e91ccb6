"""Prints a document on a terminal."""

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from parallax.analysis.report.document import (
    Block,
    Document,
    Grid,
    Listing,
    ReportSection,
    Strong,
    Words,
)


def print_document(console: Console, document: Document) -> None:
    """Print the blocks of a document that a terminal can show."""
    title = Text(document.title, style="bold")
    for block in document.blocks:
        if isinstance(block, Grid):
            console.print(_make_table(block, title))
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
    """Return text without markup."""
    if isinstance(words, str):
        return words
    return "".join(
        part
        if isinstance(part, str)
        else words_to_text(part.words)
        if isinstance(part, Strong)
        else part.text
        for part in words
    )


def _make_table(grid: Grid, title: Text) -> RichTable:
    table = RichTable(title=title, box=box.SIMPLE_HEAD, show_lines=True)
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
