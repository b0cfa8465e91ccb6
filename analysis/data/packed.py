"""Runs to rows of a packed file and back, used or not."""

import dataclasses
import json
import math
from pathlib import Path, PurePath
from typing import Any

from analysis.data.runs import Cell, Excluded, Read, Run, RunId
from harness.record.files import Unusable, first_line, read_bounded
from harness.record.layout import RUN_FILE
from harness.record.packed import Row, evaluations_of, read_rows, write_rows
from harness.record.reading import Reading, parse_record

_MOST_JSON = 2**24  # bytes


def write_packed(found: Read, path: Path, *, public: bool = False) -> None:
    """Writes runs to a file, whole or not at all.

    Args:
        found: What was read, of a folder or of another file.
        path: The file.
        public: Leaves out of records what only says where on a machine a run was made: names of
            hosts, and of paths all but the last part. Done twice it gives the same bytes.

    Raises:
        OSError: It cannot be written.
    """
    items: list[Run | Excluded] = [*found.runs, *found.excluded]
    rows = [_row(item, found.root) for item in items]
    if public:
        rows = [{**row, "run_json": _without_places(row["run_json"])} for row in rows]
    write_rows(rows, path)


def _without_places(record: str | None) -> str | None:
    try:
        content = json.loads(record or "")
        attempts, made = content.get("attempts", []), content.get("provenance", {})
        for part in (content, made, *attempts):
            part.pop("host", None)
    except (ValueError, AttributeError, TypeError):
        return None  # it is damaged, and nobody could tell what stands in it
    for name in ("executable", "command", "preloaded"):
        if name in made:
            made[name] = _last_part(made[name])
    return json.dumps(content)


def _last_part(value: Any) -> Any:
    if isinstance(value, list):
        return [_last_part(one) for one in value]
    return (
        PurePath(value).name if isinstance(value, str) and PurePath(value).is_absolute() else value
    )


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
    rows = read_rows(path)
    try:
        items = [_item(row, path) for row in rows]
    except (ValueError, TypeError) as error:
        raise Unusable(first_line(error)) from error
    runs = tuple(item for item in items if isinstance(item, Run))
    return Read(path, runs, tuple(item for item in items if isinstance(item, Excluded)))


def _item(row: Row, root: Path) -> Run | Excluded:
    cell = Cell(row["study"], row["env"], row["algorithm"], row["hps"], row["variant"])
    run_id = RunId(cell, row["framework"], row["seed"])
    folder = root / row["folder"]
    if row["not_used_because"] is not None:
        state = row["completed"], row["failed"], row["run_json"]
        return Excluded(run_id, folder, row["not_used_because"], *state)
    found = evaluations_of(row)
    arrays = found.timesteps, found.results, found.ep_lengths
    seconds = math.nan if row["seconds"] is None else row["seconds"]
    if row["run_json"] is None:
        return Run(run_id, folder, *arrays, json.loads(row["spec"]), seconds)
    record, content = parse_record(row["run_json"].encode())
    spec = Reading(folder, record, content).spec
    made = record.provenance, record.hyperparameters
    return Run(run_id, folder, *arrays, spec, seconds, *made, record=row["run_json"])
