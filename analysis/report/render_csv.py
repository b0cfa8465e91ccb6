"""Writes tables as CSV: keys as headings, all digits, unknown numbers empty."""

from collections.abc import Mapping, Sequence
from typing import Any

from parallax.analysis.escaping import format_csv
from parallax.analysis.report.document import Item, Table

TableRow = dict[str, object]


def table_to_csv(table: Table[Any]) -> str:
    """Return a table as CSV; empty where it has no rows."""
    return rows_to_csv([list_csv_values(table, item) for item in table.items])


def list_csv_values(table: Table[Item], item: Item) -> TableRow:
    """Return the values of one row, by the keys of its columns."""
    return {column.key: column.get_value(item) for column in table.columns if column.key}


def rows_to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as CSV; empty where there are none."""
    if not rows:
        return ""
    heads = list(rows[0])
    return format_csv(
        [heads, *([_format_csv_value(row.get(head, "")) for head in heads] for row in rows)]
    )


def _format_csv_value(value: object) -> object:
    if isinstance(value, float):
        return "" if value != value else repr(float(value))  # NumPy's own repr is no number
    return value
