"""The comparison in the terminal, as CSV and as Markdown, and what to know beside it."""

import csv
import dataclasses
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tabulate import tabulate

from analysis.data.runs import Cell, Loaded, Run, absent_runs
from analysis.stats.intervals import thesis_coverage
from analysis.verdicts.comparison import Comparison, Furthest, Score
from analysis.words import (
    FORMULAS,
    MISSING,
    brackets,
    common_parts,
    number,
    own_parts,
    place,
    run_counts,
    steps,
)

# These may differ between runs that are compared.
_FREE = {"framework", "seed"}


@dataclasses.dataclass(frozen=True)
class Notes:
    """Remarks on a table.

    Attributes:
        general: Remarks on all rows.
        marked: Remarks on single rows; the first is number 1.
        marks: Numbers of the remarks that apply to a setting.
    """

    general: tuple[str, ...]
    marked: tuple[str, ...]
    marks: Mapping[Cell, tuple[int, ...]]


def make_notes(loaded: Loaded, comparisons: Sequence[Comparison], method: str) -> Notes:
    """All remarks on a table of comparisons."""
    found: dict[str, list[Cell]] = {}
    for row in comparisons:
        runs = [run for run in loaded.runs if run.id.cell == row.cell]
        for text in (*_different_ends(row), *_different_settings(runs)):
            found.setdefault(text, []).append(row.cell)
    marks = {
        row.cell: tuple(i for i, cells in enumerate(found.values(), 1) if row.cell in cells)
        for row in comparisons
    }
    general = (*_general(comparisons, method), *(f"{text}." for text in loaded.parted))
    return Notes(general, tuple(found), marks)


def _general(comparisons: Sequence[Comparison], method: str) -> list[str]:
    sizes = sorted(
        {score.group.n for row in comparisons for score in row.scores if score.group.n > 1}
    )
    notes = [
        "A seed's final score is the mean return over the episodes of its last evaluation. "
        "Shown: mean over seeds, 95% interval, n = used/requested.",
        f"Interval: {method}, {FORMULAS[method]}.",
        "Furthest apart: the largest difference between two means, with Welch's 95% interval "
        "for that pair. The pair was picked for being largest; its interval does not allow for it.",
    ]
    if method == "thesis" and sizes:
        shares = ", ".join(f"{thesis_coverage(n):.1%} at n = {n}" for n in sizes)
        notes[1] += f" On normal data it holds the true mean less often than 95%: {shares}."
    if method in ("bootstrap", "bca") and sizes and sizes[0] < 10:
        notes[1] += f" It is too narrow at few seeds (here n = {sizes[0]})."
    if sizes and sizes[0] == 2:
        notes.append(_two_seeds(method))
    return notes


def _two_seeds(method: str) -> str:
    wide = {
        "t": "t intervals are huge (± 12.7 s/√2)",
        "thesis": "intervals are far too narrow",
        "bootstrap": "intervals span the two seeds and hold the true mean half the time",
        "bca": "intervals span the two seeds and hold the true mean half the time",
    }[method]
    return (
        f"With n = 2, {wide}, and a difference between frameworks must be enormous to stand "
        "out: run more seeds before reading anything into these numbers."
    )


def _different_ends(row: Comparison) -> list[str]:
    names: dict[tuple[int, ...], list[str]] = {}
    for score in row.scores:
        if score.group.n:
            names.setdefault(score.group.steps, []).append(score.group.framework)
    if len(names) < 2 and all(len(ends) == 1 for ends in names):
        return []
    ends = ", ".join(
        f"{' or '.join(map(steps, at))} ({', '.join(names[at])})" for at in sorted(names)
    )
    return [f"The last evaluations are not at the same environment step: {ends}."]


def _different_settings(runs: Sequence[Run]) -> list[str]:
    flat = [_flatten(run.spec) for run in runs]
    names = sorted({name for spec in flat for name in spec} - _FREE)
    differ = [name for name in names if len({repr(spec.get(name)) for spec in flat}) > 1]
    if not differ:
        return []
    return [f"The runs differ in more than framework and seed: {', '.join(differ)} in run.json."]


def _flatten(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in spec.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def frameworks(comparisons: Sequence[Comparison]) -> list[str]:
    """Every framework that appears, sorted."""
    return sorted({score.group.framework for row in comparisons for score in row.scores})


def title(cells: Sequence[Cell]) -> str:
    """Heading with what all settings have in common of study and variant."""
    studies = {cell.study for cell in cells}
    parts = [f"study {study}" for study in studies] if len(studies) == 1 else []
    parts += common_parts(cells)
    return f"Final score ({', '.join(parts)})" if parts else "Final score"


def label(cell: Cell, cells: Sequence[Cell], marks: str) -> list[str]:
    """A setting in a few short lines, without what `title` says already.

    Args:
        cell: The setting.
        cells: All settings shown beside it.
        marks: Numbers of the remarks on it.
    """
    lines = [cell.env, f"{cell.algorithm}, {cell.hps}{marks}"]
    if len({other.study for other in cells}) > 1:
        lines.append(f"study {cell.study}")
    return lines + own_parts(cell, cells)


def score_lines(row: Comparison, framework: str) -> list[str]:
    """Mean, interval and n of one framework."""
    score = next((score for score in row.scores if score.group.framework == framework), None)
    if score is None:
        return [MISSING]
    if score.group.n == 0:
        return ["no run used", _size(score)]
    return [number(score.final.mean), brackets(score.final), _size(score)]


def furthest_lines(furthest: Furthest | None) -> list[str]:
    """Difference, interval and names of the pair."""
    if furthest is None:
        return [MISSING]
    gap = furthest.difference
    return [number(gap.mean), brackets(gap), f"({furthest.higher} - {furthest.lower})"]


def marks(row: Comparison, notes: Notes) -> str:
    """Numbers of the remarks on a row, to stand behind its label."""
    return "".join(f" [{mark}]" for mark in notes.marks[row.cell])


def note_lines(notes: Notes) -> list[str]:
    """All remarks, the numbered ones first."""
    return [f"[{i}] {text}" for i, text in enumerate(notes.marked, 1)] + list(notes.general)


def _size(score: Score) -> str:
    return f"(n={score.group.n}/{score.group.requested})"


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
    for line in (*note_lines(notes), run_counts(loaded)):
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
            sizes = (score.group.requested, score.group.completed, score.group.n)
            last = ";".join(map(str, score.group.steps))
            writer.writerow([*setting, score.group.framework, *numbers, final.method, *sizes, last])
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
    parts = [
        f"# {_escape(title(cells))}",
        table,
        *map(_escape, note_lines(notes)),
        run_counts(loaded),
    ]
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
