from collections.abc import Mapping, Sequence

from parallax.analysis.escaping import format_csv

TableRow = dict[str, object]


def rows_to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV; unknown numbers are empty, and all digits are kept."""
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
