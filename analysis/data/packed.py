"""Many runs in one Parquet file: what a study needs to be published, read and judged again.

A row is a run folder, used or not. Scores and evaluations stand in columns that any reader of
Parquet understands; `run_json` is the run's own record, with its settings and provenance. The same
runs make the same bytes.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from analysis.data.runs import Cell, Excluded, Read, Run, RunId
from harness.record.files import Unusable, first_line, read_bounded, write_atomically
from harness.record.layout import RUN_FILE
from harness.record.reading import Reading, parse_record

SUFFIX = ".parquet"
_VERSION = "1"
_KEY = b"parallax.runs"
_MOST_JSON = 2**24  # bytes
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


def write_packed(found: Read, path: Path) -> None:
    """Writes runs to a file, whole or not at all.

    Args:
        found: What was read, of a folder or of another file.
        path: The file.

    Raises:
        OSError: It cannot be written.
    """
    items: list[Run | Excluded] = [*found.runs, *found.excluded]
    rows = sorted((_row(item, found.root) for item in items), key=lambda row: str(row["folder"]))
    table = pyarrow.Table.from_pylist(rows, schema=SCHEMA)
    options = {"compression": "zstd", "write_page_checksum": True}
    write_atomically(path, lambda file: pyarrow.parquet.write_table(table, file, **options))


def _row(item: Run | Excluded, root: Path) -> dict[str, Any]:
    shared = {
        **dataclasses.asdict(item.id.cell),
        "framework": item.id.framework,
        "seed": item.id.seed,
        "folder": _folder(item.path, root),
        "run_json": record_of(item),
    }
    if isinstance(item, Excluded):
        state = {"completed": item.completed, "failed": item.failed}
        return {**shared, **state, "not_used_because": item.reason}
    foreign = shared["run_json"] is None
    return {
        **shared,
        "final_score": item.final_score,
        "timesteps": item.timesteps.tolist(),
        "returns": item.results.tolist(),
        "ep_lengths": item.ep_lengths.tolist(),
        "seconds": None if math.isnan(item.seconds) else item.seconds,
        "completed": True,
        "failed": False,
        "spec": json.dumps(dict(item.spec), sort_keys=True) if foreign else None,
    }


def _folder(path: Path, root: Path) -> str:
    relative = path.relative_to(root).as_posix()
    return path.name if relative == "." else relative


def record_of(item: Run | Excluded) -> str | None:
    """The text of the run's record; None where there is none that can be read."""
    if item.record is not None:
        return item.record
    try:
        return read_bounded(item.path / RUN_FILE, _MOST_JSON).decode()
    except (OSError, Unusable, UnicodeDecodeError):
        return None


def read_packed(path: Path) -> Read:
    """Reads runs from a file.

    Args:
        path: The file; folders of runs are named as if they lay in it.

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
        rows = table.select(SCHEMA.names).cast(SCHEMA).to_pylist()
        items = [_item(row, path) for row in rows]
    except (pyarrow.ArrowException, OSError, ValueError, TypeError) as error:
        raise Unusable(first_line(error)) from error
    runs = tuple(item for item in items if isinstance(item, Run))
    return Read(path, runs, tuple(item for item in items if isinstance(item, Excluded)))


def _item(row: Mapping[str, Any], root: Path) -> Run | Excluded:
    cell = Cell(row["study"], row["env"], row["algorithm"], row["hps"], row["variant"])
    run_id = RunId(cell, row["framework"], row["seed"])
    folder = root / row["folder"]
    if row["not_used_because"] is not None:
        state = row["completed"], row["failed"], row["run_json"]
        return Excluded(run_id, folder, row["not_used_because"], *state)
    timesteps, results = np.array(row["timesteps"], np.int64), np.array(row["returns"], float)
    lengths = np.array(row["ep_lengths"], np.int64)
    if results.ndim != 2 or results.shape != lengths.shape or len(results) != len(timesteps):
        raise Unusable(f"{row['folder']}: evaluations do not fit together")
    arrays = timesteps, results, lengths
    for array in arrays:
        array.flags.writeable = False
    seconds = math.nan if row["seconds"] is None else row["seconds"]
    if row["run_json"] is None:
        return Run(run_id, folder, *arrays, json.loads(row["spec"]), seconds)
    record, content = parse_record(row["run_json"].encode())
    spec = Reading(folder, record, content).spec
    made = record.provenance, record.hyperparameters
    return Run(run_id, folder, *arrays, spec, seconds, *made, record=row["run_json"])
