"""Writes tables as CSV: keys as headings, all digits, unknown numbers empty."""

from collections.abc import Mapping, Sequence
from typing import Any

from parallax.analysis.escaping import format_csv
from parallax.analysis.report.tables import Item, Table

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
        heads: The headings where there are no rows; without any the result is empty.
    """
    heads = list(rows[0]) if rows else heads
    if not heads:
        return ""
    return format_csv(
        [heads, *([_format_csv_value(row.get(head, "")) for head in heads] for row in rows)]
    )


def _format_csv_value(value: object) -> object:
    if isinstance(value, float):
        return "" if value != value else repr(float(value))  # NumPy's own repr is no number
    return value
