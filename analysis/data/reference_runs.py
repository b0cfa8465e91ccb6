"""Reference runs that ship with the package: trainings of all frameworks at equal hyperparameters.

They are a part of the published study. When it changes, write them again with
`python -m parallax.analysis.data.reference_runs docs/ladder/ladder.parquet`.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from parallax.analysis.data.published import FOLDER
from parallax.harness.record.packed import PackedRow, read_rows, write_rows

REFERENCE_FILE = FOLDER / "reference_runs.parquet"
REFERENCE_VARIANT = "alignment=exact"


def select_reference_rows(rows: Iterable[PackedRow]) -> Iterator[PackedRow]:
    """Return the usable runs at equal hyperparameters without interventions."""
    for row in rows:
        parts = row["variant"].split(",")
        is_changed = any(part.startswith("intervention=") for part in parts)
        if row["not_used_because"] is None and REFERENCE_VARIANT in parts and not is_changed:
            yield row


def main(arguments: Sequence[str]) -> int:
    """Write the reference runs of a packed study."""
    write_rows(select_reference_rows(read_rows(Path(arguments[0]))), REFERENCE_FILE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
