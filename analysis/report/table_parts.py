"""What sortable tables are made of."""

import dataclasses
import math
from collections.abc import Callable, Sequence

from analysis.groups import Group
from analysis.numbers import number
from analysis.runs import Cell
from analysis.wording import common_parts, variant_parts


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


def p_value(value: float) -> Value:
    """A p-value with two digits."""
    if math.isnan(value):
        return Value("-")
    return Value("< 0.0001" if value < 1e-4 else f"{value:.2g}", repr(value))


def sizes(group: Group) -> Value:
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
