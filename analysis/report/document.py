"""Sortable tables: what they are made of, and every run folder as a row."""

import dataclasses
import math
from collections.abc import Callable, Sequence

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import find_common_parts, format_number, split_variant
from parallax.analysis.report.render_csv import TableRow
from parallax.analysis.verdicts.groups import ScoreGroup


@dataclasses.dataclass(frozen=True)
class TableCell:
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
    rows: tuple[tuple[tuple[TableCell, ...], tuple[int, ...]], ...]


def make_number_cell(value: float, text: str | None = None) -> TableCell:
    """A number; unknown ones are shown as a dash and sorted to the end."""
    if math.isnan(value):
        return TableCell(text or "-", "")
    return TableCell(format_number(value) if text is None else text, repr(float(value)))


def make_interval_cell(low: float, high: float) -> TableCell:
    """Both ends of an interval, sorted by the lower one."""
    if math.isnan(low):
        return TableCell("-", "")
    return TableCell(f"{format_number(low)} to {format_number(high)}", repr(low))


def make_p_value_cell(value: float) -> TableCell:
    """A p-value with two digits."""
    if math.isnan(value):
        return TableCell("-")
    return TableCell("< 0.0001" if value < 1e-4 else f"{value:.2g}", repr(value))


def make_sizes_cell(group: ScoreGroup) -> TableCell:
    """Runs requested/completed/used."""
    return TableCell(f"{group.requested}/{group.completed}/{group.n}", str(group.n))


def list_setting_columns(
    cells: Sequence[StudyCell],
) -> list[tuple[str, Callable[[StudyCell], str]]]:
    """Columns that name a setting; study and variant only as far as they differ."""
    columns: list[tuple[str, Callable[[StudyCell], str]]] = []
    if len({cell.study for cell in cells}) > 1:
        columns.append(("study", lambda cell: cell.study))
    columns += [
        ("task", lambda cell: cell.env),
        ("algorithm", lambda cell: cell.algorithm),
        ("hyperparameters", lambda cell: cell.hps),
    ]
    if len({cell.variant for cell in cells}) > 1:
        common = set(find_common_parts(sorted(set(cells))))
        columns.append(("variant", lambda cell: _format_own_variant(cell.variant, common)))
    return columns


def _format_own_variant(variant: str, common: set[str]) -> str:
    return ", ".join(part for part in split_variant(variant) if part not in common) or "-"


@dataclasses.dataclass(frozen=True)
class ReportSection:
    """Some lines of Markdown under a heading.

    Attributes:
        heading: The heading.
        blocks: Paragraphs, lists and tables.
    """

    heading: str
    blocks: tuple[str, ...]


def format_list(head: str, items: Sequence[str]) -> str:
    if not items:
        return f"{head}."
    return "\n".join([f"{head}:", "", *(f"- {item}." for item in items)])


def make_setting_columns(cell: StudyCell) -> TableRow:
    """The setting, a column each."""
    return {name: getattr(cell, name) for name in ("study", "env", "algorithm", "hps", "variant")}


def make_size_columns(prefix: str, group: ScoreGroup) -> TableRow:
    """Mean, deviation and the three counts, each behind a prefix."""
    return {
        f"{prefix}_mean": float(group.moments.mean),
        f"{prefix}_sd": float(group.moments.sd),
        f"{prefix}_requested": group.requested,
        f"{prefix}_completed": group.completed,
        f"{prefix}_used": group.n,
    }


def make_interval_columns(name: str, values: tuple[float, float, float]) -> TableRow:
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))
