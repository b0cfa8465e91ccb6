"""Sortable tables: what they are made of, and every run folder as a row."""

import dataclasses
import math
from collections.abc import Callable, Sequence

from analysis.data.runs import Cell, Excluded, Loaded, Run
from analysis.report.links import Links
from analysis.verdicts.groups import Group
from analysis.words import common_parts, number, place, variant_parts


@dataclasses.dataclass(frozen=True)
class Value:
    """One cell.

    Attributes:
        text: What is shown.
        sort: What it is sorted by; empty for the text itself.
        kind: Verdict that gives it a colour; empty for none.
    """

    text: str
    sort: str = ""
    kind: str = ""


@dataclasses.dataclass(frozen=True)
class SortableTable:
    """A table whose columns can be sorted.

    Attributes:
        name: Anchor.
        title: Heading.
        columns: Headings, and whether a column holds numbers.
        rows: Cells, and the numbers of the groups behind a row.
    """

    name: str
    title: str
    columns: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[tuple[Value, ...], tuple[int, ...]], ...]


def amount(value: float, text: str | None = None) -> Value:
    """A number; unknown ones are shown as a dash and sorted to the end."""
    if math.isnan(value):
        return Value(text or "-", "")
    return Value(number(value) if text is None else text, repr(float(value)))


def ends(low: float, high: float) -> Value:
    """Both ends of an interval, sorted by the lower one."""
    if math.isnan(low):
        return Value("-", "")
    return Value(f"{number(low)} to {number(high)}", repr(low))


def p_value(value: float) -> Value:
    """A p-value with two digits."""
    if math.isnan(value):
        return Value("-")
    return Value("< 0.0001" if value < 1e-4 else f"{value:.2g}", repr(value))


def size_values(group: Group) -> Value:
    """Runs requested/completed/used."""
    return Value(f"{group.requested}/{group.completed}/{group.n}", str(group.n))


def setting_columns(cells: Sequence[Cell]) -> list[tuple[str, Callable[[Cell], str]]]:
    """Columns that name a setting; study and variant only as far as they differ."""
    columns: list[tuple[str, Callable[[Cell], str]]] = []
    if len({cell.study for cell in cells}) > 1:
        columns.append(("study", lambda cell: cell.study))
    columns += [
        ("task", lambda cell: cell.env),
        ("algorithm", lambda cell: cell.algorithm),
        ("hyperparameters", lambda cell: cell.hps),
    ]
    if len({cell.variant for cell in cells}) > 1:
        common = set(common_parts(sorted(set(cells))))
        columns.append(("variant", lambda cell: _own(cell.variant, common)))
    return columns


def _own(variant: str, common: set[str]) -> str:
    return ", ".join(part for part in variant_parts(variant) if part not in common) or "-"


@dataclasses.dataclass(frozen=True)
class RunRow:
    """One run folder.

    Attributes:
        group: Number of its group.
        first: Whether it is the first of its group.
        setting: What names its setting, in the columns of `setting_columns`.
        framework: Its framework.
        seed: Its seed; -1 where not told.
        score: Final score as text; empty if not used.
        last_step: Environment steps at the last evaluation; -1 if not used.
        hours: Duration; -1 where not told.
        reason: Why it is not used; empty if it is.
        link: Relative address of the folder.
        path: The folder below the results folder.
    """

    group: int
    first: bool
    setting: tuple[str, ...]
    framework: str
    seed: int
    score: str
    last_step: int
    hours: float
    reason: str
    link: str
    path: str


def run_rows(loaded: Loaded, links: Links) -> tuple[RunRow, ...]:
    """Every run folder, ordered by group and seed."""
    items = sorted(
        loaded.folders,
        key=lambda i: (
            links.numbers[i.id.cell, i.id.framework],
            -1 if i.id.seed is None else i.id.seed,
            i.path,
        ),
    )
    heads = setting_columns(loaded.cells)
    rows, before = [], -1
    for item in items:
        group = links.numbers[item.id.cell, item.id.framework]
        setting = tuple(get(item.id.cell) for _, get in heads)
        rows.append(_run_row(item, group, group != before, setting, loaded, links))
        before = group
    return tuple(rows)


def _run_row(
    item: Run | Excluded,
    group: int,
    first: bool,
    setting: tuple[str, ...],
    loaded: Loaded,
    links: Links,
) -> RunRow:
    seconds = item.seconds if isinstance(item, Run) else math.nan
    return RunRow(
        group=group,
        first=first,
        setting=setting,
        framework=item.id.framework,
        seed=-1 if item.id.seed is None else item.id.seed,
        score=f"{item.final_score:.2f}" if isinstance(item, Run) else "",
        last_step=int(item.timesteps[-1]) if isinstance(item, Run) else -1,
        hours=-1.0 if math.isnan(seconds) else seconds / 3600,
        reason="" if isinstance(item, Run) else item.reason,
        link=links.folder(item.path),
        path=place(item, loaded),
    )
