"""Many runs in one Parquet file: what a study needs to be published, read, judged and made again.

A row is a run folder, used or not. Scores and evaluations stand in columns that any reader of
Parquet understands; `run_json` is the run's own record, with its settings and provenance. The same
rows make the same bytes.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from harness.record.evaluations import Evaluations
from harness.record.files import Unusable, first_line, write_atomically

_VERSION = "1"
_KEY = b"parallax.runs"
_TEXT, _WHOLE, _NUMBER = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
SCHEMA = pyarrow.schema(
    [
        *((name, _TEXT) for name in ("study", "env", "algorithm", "hps", "framework", "variant")),
        ("seed", _WHOLE),
        ("final_score", _NUMBER),  # mean return over the episodes of the last evaluation
        ("timesteps", pyarrow.list_(_WHOLE)),
        ("returns", pyarrow.list_(pyarrow.list_(_NUMBER))),
        ("ep_lengths", pyarrow.list_(pyarrow.list_(_WHOLE))),
        ("seconds", _NUMBER),
        ("not_used_because", _TEXT),
        ("completed", pyarrow.bool_()),
        ("failed", pyarrow.bool_()),
        ("folder", _TEXT),
        ("run_json", _TEXT),
        ("spec", _TEXT),
    ],
    metadata={_KEY: _VERSION.encode()},
)
"""Columns. `returns` and `ep_lengths` are lists by evaluation of lists by episode."""

Row = Mapping[str, Any]


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Writes rows by their folders' names, whole or not at all.

    Raises:
        OSError: The file cannot be written.
    """
    ordered = sorted(map(dict, rows), key=lambda row: str(row["folder"]))
    table = pyarrow.Table.from_pylist(ordered, schema=SCHEMA)
    options = {"compression": "zstd", "write_page_checksum": True}
    write_atomically(path, lambda file: pyarrow.parquet.write_table(table, file, **options))


def read_rows(path: Path) -> list[Row]:
    """The rows of a file.

    Raises:
        Unusable: It is damaged, of a later version, or holds something else.
    """
    try:
        table = pyarrow.parquet.read_table(path, page_checksum_verification=True)
        version = (table.schema.metadata or {}).get(_KEY)
        if version is None or not set(SCHEMA.names) <= set(table.schema.names):
            raise Unusable("it holds no packed runs; `parallax pack RESULTS` makes such a file")
        if version.decode() != _VERSION:
            raise Unusable("a later version of this project wrote it: use that one")
        rows: list[Row] = table.select(SCHEMA.names).cast(SCHEMA).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, TypeError) as error:
        raise Unusable(first_line(error)) from error
    return rows


def evaluations_of(row: Row) -> Evaluations:
    """The evaluations of a run that is used.

    Raises:
        Unusable: They do not fit together.
    """
    try:
        timesteps = np.array(row["timesteps"], np.int64)
        results = np.array(row["returns"], np.float64)
        lengths = np.array(row["ep_lengths"], np.int64)
    except (ValueError, TypeError) as error:
        raise Unusable(first_line(error)) from error
    if results.ndim != 2 or results.shape != lengths.shape or len(results) != len(timesteps):
        raise Unusable(f"{row['folder']}: evaluations do not fit together")
    for array in (timesteps, results, lengths):
        array.flags.writeable = False
    return Evaluations(timesteps, results, lengths)
