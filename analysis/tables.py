"""The comparison as a table: in the terminal, as CSV and as Markdown."""

import csv
import io
import math
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tabulate import tabulate

from analysis.absent import absent_runs
from analysis.compare import Comparison
from analysis.notes import Notes, counts
from analysis.runs import Loaded
from analysis.wording import (
    frameworks,
    furthest_lines,
    label,
    marks,
    note_lines,
    place,
    score_lines,
    title,
)

_SETTING = ("study", "env", "algorithm", "hps", "variant")
_NUMBERS = ("mean", "low", "high", "method", "n_requested", "n_completed", "n_used", "last_step")
_NO_FOLDER = "No folder, though another framework has the seed"
CSV_COLUMNS = (*_SETTING, "framework", *_NUMBERS)


def print_comparison(
    console: Console, loaded: Loaded, comparisons: Sequence[Comparison], notes: Notes
) -> None:
    """Prints the table, its notes and the runs that are not used."""
    cells = [row.cell for row in comparisons]
    names = frameworks(comparisons)
    table = Table(title=Text(title(cells), style="bold"), box=box.SIMPLE_HEAD, show_lines=True)
    for heading in ("setting", *names, "furthest apart"):
        table.add_column(Text(heading), overflow="fold")
    for row in comparisons:
        setting = "\n".join(label(row.cell, cells, marks(row, notes)))
        scores = ["\n".join(score_lines(row, name)) for name in names]
        table.add_row(*map(Text, (setting, *scores, "\n".join(furthest_lines(row.furthest)))))
    console.print(table)
    for line in (*note_lines(notes), counts(loaded)):
        console.print(Text(line))
    if loaded.excluded:
        console.print(Text(f"\nRuns not used: {len(loaded.excluded)}", style="bold"))
        items = [f"{place(item, loaded)}: {item.reason}" for item in loaded.excluded]
        console.print(_bullets(items))
    absent = [str(item) for item in absent_runs(loaded)]
    if absent:
        console.print(Text(f"\n{_NO_FOLDER}:", style="bold"))
        console.print(_bullets(absent))
    console.print()


def to_csv(comparisons: Sequence[Comparison]) -> str:
    """One line per setting and framework; unknown numbers are empty.

    Where seeds of one framework ended at different steps, last_step lists them.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in comparisons:
        setting = [getattr(row.cell, name) for name in _SETTING]
        for score in row.scores:
            final = score.final
            values = (final.mean, final.low, final.high)
            numbers = ["" if math.isnan(value) else repr(value) for value in values]
            sizes = (score.requested, score.completed, score.used)
            last = ";".join(map(str, score.last_steps))
            writer.writerow([*setting, score.framework, *numbers, final.method, *sizes, last])
    return text.getvalue()


def to_markdown(loaded: Loaded, comparisons: Sequence[Comparison], notes: Notes) -> str:
    """The table, its notes and the runs that are not used."""
    cells = [row.cell for row in comparisons]
    names = frameworks(comparisons)
    rows = [
        [
            ", ".join(label(row.cell, cells, marks(row, notes))),
            *(" ".join(score_lines(row, name)) for name in names),
            " ".join(furthest_lines(row.furthest)),
        ]
        for row in comparisons
    ]
    escaped = [[_escape(text) for text in row] for row in rows]
    headings = [_escape(text) for text in ("setting", *names, "furthest apart")]
    table = tabulate(escaped, headings, tablefmt="pipe", disable_numparse=True)
    parts = [f"# {_escape(title(cells))}", table, *map(_escape, note_lines(notes)), counts(loaded)]
    if loaded.excluded:
        lines = [
            f"- `{place(item, loaded).replace('`', '')}`: {_escape(item.reason)}"
            for item in loaded.excluded
        ]
        parts += [f"## Runs not used: {len(lines)}", "\n".join(lines)]
    absent = [f"- {_escape(str(item))}" for item in absent_runs(loaded)]
    if absent:
        parts += [f"## {_NO_FOLDER}", "\n".join(absent)]
    return "\n\n".join(parts) + "\n"


def _bullets(lines: Sequence[str]) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(overflow="fold")
    for line in lines:
        grid.add_row("-", Text(line))
    return grid


def _escape(text: str) -> str:
    for char in "\\|<*_`[":
        text = text.replace(char, f"\\{char}")
    return text
