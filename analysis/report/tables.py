"""Tables with typed columns: described once, read by every renderer.

A CSV file takes keys and values with all digits, pages take headings and formatted values.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.escaping import format_csv
from parallax.analysis.labels import (
    MISSING,
    find_common_parts,
    format_number,
    format_range,
    get_label,
    get_recipe_label,
    split_variant,
)
from parallax.analysis.verdicts.groups import ScoreGroup

Item = TypeVar("Item")

RUNS_TABLE = "runs-table"  # links to groups of runs refer to its rows


@dataclasses.dataclass(frozen=True)
class TableCell:
    """One cell of a table on a page.

    Attributes:
        sort: Sort key of a numeric cell; empty where the value is unknown.
        style: Words that give the cell a colour, such as a verdict; empty for none.
        path: File or folder that the cell links to, if it exists; None for none.
    """

    text: str
    sort: str = ""
    style: str = ""
    path: Path | None = None


@dataclasses.dataclass(frozen=True)
class Column(Generic[Item]):
    """One column of a table.

    Attributes:
        key: Name in CSV files; empty where only pages have the column.
        heading: Heading on pages; empty where only CSV files have the column.
        get_sort_key: Takes the number to sort by from the value; None for a column of text.
        get_style: Takes the words that give the cell a colour from the value; None for no colour.
        get_path: Takes the file or folder that the cell links to from an item.
    """

    key: str
    heading: str
    get_value: Callable[[Item], Any]
    format: Callable[[Any], str] = str
    get_sort_key: Callable[[Any], float] | None = None
    get_style: Callable[[Any], str] | None = None
    get_path: Callable[[Item], Path] | None = None

    @property
    def is_numeric(self) -> bool:
        """Return whether pages sort the column by number."""
        return self.get_sort_key is not None

    def make_cell(self, item: Item) -> TableCell:
        """Return the cell of an item on a page."""
        value = self.get_value(item)
        sort = "" if self.get_sort_key is None else _format_sort_key(self.get_sort_key(value))
        style = "" if self.get_style is None else self.get_style(value)
        path = None if self.get_path is None else self.get_path(item)
        return TableCell(self.format(value), sort, style, path)


def _format_sort_key(value: float) -> str:
    # Six digits distinguish what four digits on the page show; all digits are in the CSV files.
    return "" if math.isnan(value) else f"{value:.6g}"


@dataclasses.dataclass(frozen=True, eq=False)
class Table(Generic[Item]):
    """A table that pages can sort and filter, and that is written as CSV.

    Attributes:
        name: Anchor on a page.
        get_groups: Takes the groups of runs behind a row from its item.
    """

    name: str
    title: str
    columns: tuple[Column[Item], ...]
    items: tuple[Item, ...]
    get_groups: Callable[[Item], Iterable[ScoreGroup]]

    @property
    def page_columns(self) -> tuple[Column[Item], ...]:
        """The columns that pages show."""
        return tuple(column for column in self.columns if column.heading)

    def make_page_rows(self) -> list[tuple[tuple[TableCell, ...], tuple[ScoreGroup, ...]]]:
        """Return the cells of each row, and the groups of runs behind it."""
        shown = self.page_columns
        return [
            (tuple(column.make_cell(item) for column in shown), tuple(self.get_groups(item)))
            for item in self.items
        ]


def make_csv_column(key: str, get_value: Callable[[Item], Any]) -> Column[Item]:
    """Return a column that only CSV files have."""
    return Column(key, "", get_value)


def make_text_column(
    key: str, heading: str, get_value: Callable[[Item], str], format: Callable[[str], str] = str
) -> Column[Item]:
    """Return a column of text."""
    return Column(key, heading, get_value, format)


def make_verdict_column(key: str, heading: str, get_value: Callable[[Item], str]) -> Column[Item]:
    """Return a column of verdicts; missing ones are shown as a dash."""
    return Column(key, heading, get_value, lambda one: one or MISSING, get_style=_get_verdict_style)


def _get_verdict_style(verdict: str) -> str:
    return f"verdict {verdict.replace(' ', '-')}" if verdict else ""


def make_number_column(
    key: str,
    heading: str,
    get_value: Callable[[Item], float],
    format: Callable[[float], str] = format_number,
) -> Column[Item]:
    """Return a column of numbers; unknown ones are shown as a dash and sorted to the end."""
    return Column(key, heading, get_value, format, float)


def make_count_column(key: str, heading: str, get_value: Callable[[Item], int]) -> Column[Item]:
    """Return a column of whole numbers."""
    return Column(key, heading, get_value, lambda count: f"{count:,}", float)


def make_p_value_column(key: str, heading: str, get_value: Callable[[Item], float]) -> Column[Item]:
    """Return a column of p-values with two digits."""
    return Column(key, heading, get_value, format_bare_p_value, float)


def make_interval_columns(
    low_key: str, high_key: str, get_ends: Callable[[Item], tuple[float, float]]
) -> list[Column[Item]]:
    """Return both ends for CSV files, and one column for pages, sorted by the lower end."""
    return [
        Column("", "95% interval", get_ends, format_interval, lambda ends: ends[0]),
        make_csv_column(low_key, lambda item: get_ends(item)[0]),
        make_csv_column(high_key, lambda item: get_ends(item)[1]),
    ]


def make_setting_columns(
    get_cell: Callable[[Item], StudyCell], cells: Sequence[StudyCell], omit: Sequence[str] = ()
) -> list[Column[Item]]:
    """Return the columns that name a setting; pages show study and variant where they differ."""
    several_studies = len({cell.study for cell in cells}) > 1
    several_variants = len({cell.variant for cell in cells}) > 1
    common = set(find_common_parts(sorted(set(cells)))) if several_variants else set()
    columns: tuple[Column[Item], ...] = (
        make_text_column("study", "study" * several_studies, lambda i: get_cell(i).study),
        make_text_column("env", "task", lambda i: get_cell(i).env),
        make_text_column("algorithm", "algorithm", lambda i: get_cell(i).algorithm, get_label),
        make_text_column("hps", "hyperparameters", lambda i: get_cell(i).hps, get_recipe_label),
        make_text_column(
            "variant",
            "variant" * several_variants,
            lambda i: get_cell(i).variant,
            lambda text: ", ".join(p for p in split_variant(text) if p not in common) or MISSING,
        ),
    )
    return [column for column in columns if column.key not in omit]


def make_pair_columns(
    get_first: Callable[[Item], str], get_second: Callable[[Item], str]
) -> list[Column[Item]]:
    """Return the columns that name two frameworks."""
    return [
        make_text_column("first", "first", get_first, get_label),
        make_text_column("second", "second", get_second, get_label),
    ]


def make_size_columns(prefix: str, get_group: Callable[[Item], ScoreGroup]) -> list[Column[Item]]:
    """Return mean, deviation and the three counts of runs, for CSV files."""
    return [
        make_csv_column(f"{prefix}_mean", lambda i: float(get_group(i).moments.mean)),
        make_csv_column(f"{prefix}_sd", lambda i: float(get_group(i).moments.sd)),
        make_csv_column(f"{prefix}_requested", lambda i: get_group(i).requested),
        make_csv_column(f"{prefix}_completed", lambda i: get_group(i).completed),
        make_csv_column(f"{prefix}_used", lambda i: get_group(i).n),
    ]


def make_used_column(get_groups: Callable[[Item], Sequence[ScoreGroup]]) -> Column[Item]:
    """Return the least and the largest number of runs used, for pages."""
    return Column(
        "",
        "n",
        lambda item: [group.n for group in get_groups(item)],
        format_range,
        lambda sizes: float(min(sizes)),
    )


def list_size_values(prefix: str, group: ScoreGroup) -> dict[str, object]:
    """Return mean, deviation and the three counts of runs, by the keys of CSV files."""
    columns: list[Column[ScoreGroup]] = make_size_columns(prefix, lambda one: one)
    return {column.key: column.get_value(group) for column in columns}


def format_interval(ends: tuple[float, float]) -> str:
    """Format both ends of an interval; an unknown one is a dash."""
    low, high = ends
    return MISSING if math.isnan(low) else f"{format_number(low)} to {format_number(high)}"


def format_bare_p_value(value: float) -> str:
    """Format a p-value without `p =`; an unknown one is a dash."""
    if math.isnan(value):
        return MISSING
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def format_sizes(group: ScoreGroup) -> str:
    """Format the numbers of runs requested/completed/used."""
    return f"{group.requested}/{group.completed}/{group.n}"


TableRow = dict[str, object]


def table_to_csv(table: Table[Any]) -> str:
    """Return a table as CSV, with its headings also where it has no rows."""
    heads = [column.key for column in table.columns if column.key]
    return rows_to_csv([list_csv_values(table, item) for item in table.items], heads)


def list_csv_values(table: Table[Item], item: Item) -> TableRow:
    """Return the values of one row, by the keys of its columns."""
    return {column.key: column.get_value(item) for column in table.columns if column.key}


def rows_to_csv(rows: Sequence[Mapping[str, object]], heads: Sequence[str] = ()) -> str:
    """Return rows as CSV.

    Args:
        rows: Values by heading; those of the first row are the headings.
        heads: The headings for a table without rows; without headings the result is empty.
    """
    heads = list(rows[0]) if rows else heads
    if not heads:
        return ""
    return format_csv(
        [heads, *([_format_csv_value(row.get(head, "")) for head in heads] for row in rows)]
    )


def _format_csv_value(value: object) -> object:
    if isinstance(value, float):
        return "" if value != value else repr(float(value))  # NumPy's own repr is not a number
    return value
