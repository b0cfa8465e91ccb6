"""Conversion of runs, used or excluded, to rows of a packed file and back.

The reference runs that ship with the package are rows of the published study: trainings of all
frameworks at equal hyperparameters. When it changes, write them again with
`python -m parallax.analysis.data.packed docs/ladder/ladder.parquet`.
"""

import collections
import dataclasses
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, TypeVar

from parallax.analysis.data.published import FOLDER
from parallax.analysis.data.runs import (
    CELL_FIELDS,
    CompletedRun,
    ExcludedRun,
    RunCollection,
    RunId,
    StudyCell,
    hash_evaluations,
    make_loaded_run,
)
from parallax.harness.record.completeness import NON_FINITE, DivergedError, check_finite
from parallax.harness.record.files import (
    UnusableError,
    escape_unprintable,
    make_bytes_writer,
    read_bounded,
    write_atomically,
)
from parallax.harness.record.layout import RUN_FILE
from parallax.harness.record.npz_files import RunEvaluations
from parallax.harness.record.packed import (
    CHANGED,
    PackedRow,
    check_columns,
    check_hash,
    encode_rows,
    judge_row,
    read_evaluations,
    read_rows,
    round_score,
    translate_row,
    write_rows,
)
from parallax.harness.record.reading import parse_record
from parallax.harness.record.run_json import find_other_variant

_MAX_RECORD_BYTES = 2**24  # bytes
RunT = TypeVar("RunT", CompletedRun, ExcludedRun)
_LONGEST_SHOWN, _LONGEST_REASON = 255, 1000


def write_packed(found: RunCollection, path: Path, *, anonymize: bool = False) -> None:
    """Write runs to a file atomically, as `encode_runs` returns them.

    Raises:
        OSError: It cannot be written.
    """
    write_atomically(path, make_bytes_writer(encode_runs(found, anonymize=anonymize)))


def encode_runs(found: RunCollection, *, anonymize: bool = False) -> bytes:
    """Return a file of packed runs.

    `anonymize` removes host names from records, and all but the last part of paths. Anonymizing
    twice gives the same bytes.
    """
    rows = [_run_to_row(item, found.root) for item in found.folders]
    if anonymize:
        rows = [{**row, "run_json": _anonymize_record(row["run_json"])} for row in rows]
    return encode_rows(rows)


def state_all_settings(found: RunCollection) -> RunCollection:
    """Return runs under variants with all settings: folders' names may leave some out, rows not."""
    runs = tuple(map(_state_settings, found.runs))
    return dataclasses.replace(
        found, runs=runs, excluded=tuple(map(_state_settings, found.excluded))
    )


def _state_settings(item: RunT) -> RunT:
    try:
        record, _ = parse_record((read_record_text(item) or "").encode())
    except UnusableError:
        return item
    cell = item.id.cell
    variant = "" if record.imported else find_other_variant(cell.variant, record.spec)
    cell = dataclasses.replace(cell, variant=variant or cell.variant)
    return dataclasses.replace(item, id=dataclasses.replace(item.id, cell=cell))


def _anonymize_record(record: str | None) -> str | None:
    try:
        content = json.loads(record or "")
        attempts, made = content.get("attempts", []), content.get("provenance", {})
        for part in (content, made, *attempts):
            part.pop("host", None)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None  # it is damaged, and its content is unknown
    for name in ("executable", "command", "preloaded"):
        if name in made:
            made[name] = _strip_directories(made[name])
    return json.dumps(content)


def _strip_directories(value: Any) -> Any:
    if isinstance(value, list):
        return [_strip_directories(one) for one in value]
    return (
        PurePath(value).name if isinstance(value, str) and PurePath(value).is_absolute() else value
    )


def _run_to_row(item: CompletedRun | ExcludedRun, root: Path) -> dict[str, Any]:
    shared = {
        **dataclasses.asdict(item.id.cell),
        "framework": item.id.framework,
        "seed": item.id.seed,
        "folder": _format_folder(item.path, root),
        "run_json": read_record_text(item),
    }
    if isinstance(item, ExcludedRun):
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


def _format_folder(path: Path, root: Path) -> str:
    relative = path.relative_to(root).as_posix()
    return path.name if relative == "." else relative


def read_record_text(item: CompletedRun | ExcludedRun) -> str | None:
    """Return the text of the run's record; None if there is none or it cannot be read."""
    if item.record is not None:
        return item.record
    try:
        return read_bounded(item.path / RUN_FILE, _MAX_RECORD_BYTES).decode()
    except (OSError, UnusableError, UnicodeDecodeError):
        return None


def read_packed(path: Path) -> RunCollection:
    """Read runs from a file, and check each as its folder would be checked.

    A row that fails a check does not raise: it is excluded, with the reason. Folders of runs are
    named as if they were in the file.

    Raises:
        UnusableError: It is damaged, of a later version, or contains something else.
    """
    items = [_judge(row, path, number) for number, row in enumerate(read_rows(path), 1)]
    items = _judge_foreign_together(_without_repeated_folders(items))
    runs = tuple(item for item in items if isinstance(item, CompletedRun))
    return RunCollection(path, runs, tuple(item for item in items if isinstance(item, ExcludedRun)))


def _judge(row: PackedRow, root: Path, number: int) -> CompletedRun | ExcludedRun:
    """Convert one row to a run, or to an excluded folder with the reason."""
    named = translate_row(row)
    run_id = RunId(
        StudyCell(*(_shorten_name(named[name]) for name in CELL_FIELDS)),
        _shorten_name(named["framework"]),
        row["seed"],
    )
    folder = root / f"row {number}"
    try:
        check_columns(row)
        folder = root / row["folder"]
        if row["not_used_because"] is not None:
            return _read_unused(row, run_id, folder)
        if row["run_json"] is None:
            return _read_foreign(row, run_id, folder)
    except UnusableError as error:
        return ExcludedRun(run_id, folder, str(error), record=row["run_json"])
    run = make_loaded_run(run_id, folder, judge_row(row, root), row["run_json"])
    if isinstance(run, ExcludedRun):
        return run
    return dataclasses.replace(run, seconds=math.nan if row["seconds"] is None else row["seconds"])


def _shorten_name(name: str | None) -> str:
    """Return a name that pages and terminals can show; `?` if there is none."""
    return "?" if name is None else escape_unprintable(name[:_LONGEST_SHOWN])


def _read_unused(row: PackedRow, run_id: RunId, folder: Path) -> ExcludedRun:
    if check_hash(row) is False:
        raise UnusableError(CHANGED)
    reason = escape_unprintable(row["not_used_because"])[:_LONGEST_REASON]
    if not reason.strip():
        raise UnusableError(
            "corrupted row: column not_used_because is empty, so no reason is known"
        )
    completed, failed = bool(row["completed"]), bool(row["failed"])
    reading = judge_row(row, folder)
    # Returns that are not finite fail a run that its record calls completed.
    diverged = failed and reason.startswith(NON_FINITE) and row["returns"] is None
    record = reading.record
    if record and completed and record.status != "completed":
        raise UnusableError(f"corrupted row: column completed is True, not {record.status}")
    if failed != (reading.failed or diverged):
        status = record.status if record else "nothing"
        raise UnusableError(f"corrupted row: column failed is {failed}, and run_json says {status}")
    return ExcludedRun(run_id, folder, reason, completed, failed, row["run_json"], reading.spec)


def _read_foreign(row: PackedRow, run_id: RunId, folder: Path) -> CompletedRun | ExcludedRun:
    """Judge a run of another tool, which has no record."""
    settings = parse_settings(row["spec"])
    outcome = judge_foreign(run_id, folder, read_evaluations(row), settings)
    if check_hash(row) is False:
        raise UnusableError(CHANGED)
    if isinstance(outcome, CompletedRun):
        found = row["completed"], row["failed"], round_score(row["final_score"])
        expected = True, False, round_score(outcome.final_score)
        if found != expected:
            words = "corrupted row: columns completed, failed and final_score are"
            raise UnusableError(f"{words} {found}, and its evaluations say {expected}")
    return outcome


def _without_repeated_folders(
    items: Sequence[CompletedRun | ExcludedRun],
) -> list[CompletedRun | ExcludedRun]:
    """Exclude rows that repeat a folder: a packed file must have one row per folder."""
    seen: set[Path] = set()
    outcome: list[CompletedRun | ExcludedRun] = []
    for item in items:
        if isinstance(item, CompletedRun) and item.path in seen:
            reason = "corrupted row: another row of the file has the same folder"
            item = ExcludedRun(item.id, item.path, reason, record=item.record)
        seen.add(item.path)
        outcome.append(item)
    return outcome


def _judge_foreign_together(
    items: Sequence[CompletedRun | ExcludedRun],
) -> list[CompletedRun | ExcludedRun]:
    """Exclude copies and short runs of other tools; the order of items does not change."""
    foreign = [item for item in items if isinstance(item, CompletedRun) and item.provenance is None]
    judged = iter(exclude_copies_and_short_runs(foreign))
    return [
        next(judged) if isinstance(item, CompletedRun) and item.provenance is None else item
        for item in items
    ]


_MAX_STEPS = 2**53


def judge_foreign(
    run_id: RunId, folder: Path, evaluations: RunEvaluations, spec: dict[str, Any]
) -> CompletedRun | ExcludedRun:
    """Judge a run of another tool by itself.

    `spec` has the settings that `parse_settings` returns.
    """
    timesteps = evaluations.timesteps
    requested = spec.get("n_timesteps")
    try:
        check_finite(evaluations)
        if requested and timesteps[-1] + _get_evaluation_interval(timesteps) <= requested:
            raise UnusableError(
                f"too short: last evaluation at step {timesteps[-1]:,} of {requested:,}"
            )
    except UnusableError as error:
        failed = isinstance(error, DivergedError)
        return ExcludedRun(run_id, folder, str(error), failed=failed)
    return CompletedRun(
        run_id, folder, timesteps, evaluations.results, evaluations.ep_lengths, spec
    )


def parse_settings(text: str | None) -> dict[str, Any]:
    """Parse the settings from the Zoo's files that a packed file stores for a run.

    Raises:
        UnusableError: The text contains anything but `n_timesteps` and `zoo_seed`, whole numbers.
    """
    try:
        settings = json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise UnusableError(
            "corrupted row: column spec is not JSON, and there is no run_json"
        ) from error
    if (
        not isinstance(settings, dict)
        or not settings.keys() <= {"n_timesteps", "zoo_seed"}
        or not all(isinstance(value, int) for value in settings.values())
        or not 0 < settings.get("n_timesteps", 1) <= _MAX_STEPS
    ):
        raise UnusableError(
            "corrupted row: column spec holds something else than n_timesteps and zoo_seed, "
            "whole numbers, which is all that is known of runs of other tools"
        )
    return settings


def exclude_copies_and_short_runs(runs: Sequence[CompletedRun]) -> list[CompletedRun | ExcludedRun]:
    """Exclude foreign runs that only a comparison with others can find: copies and short runs.

    A run is too short if another of the same task was evaluated at least one evaluation interval
    later.
    """
    ends: dict[tuple[StudyCell, str], int] = collections.defaultdict(int)
    for run in runs:
        key = (run.id.cell, run.id.framework)
        ends[key] = max(ends[key], int(run.timesteps[-1]))
    seen: dict[str, CompletedRun] = {}
    outcome: list[CompletedRun | ExcludedRun] = []
    for run in runs:
        last, end = int(run.timesteps[-1]), ends[run.id.cell, run.id.framework]
        twin = seen.setdefault(hash_evaluations(run), run)
        if twin is not run:
            reason = f"same evaluations as {twin.path.name}, which is used"
            outcome.append(ExcludedRun(run.id, run.path, reason, completed=True))
        elif last + _get_evaluation_interval(run.timesteps) <= end:
            reason = f"too short: last evaluation at step {last:,}; another run reached {end:,}"
            outcome.append(ExcludedRun(run.id, run.path, reason))
        else:
            outcome.append(run)
    return outcome


def _get_evaluation_interval(timesteps: Any) -> int:
    return int(timesteps[-1] - timesteps[-2]) if len(timesteps) > 1 else int(timesteps[-1])


REFERENCE_FILE = FOLDER / "reference_runs.parquet"
_REFERENCE_VARIANT = "alignment=exact"


def select_reference_rows(rows: Iterable[PackedRow]) -> Iterator[PackedRow]:
    """Return the usable runs at equal hyperparameters without interventions."""
    for row in rows:
        parts = row["variant"].split(",")
        is_changed = any(part.startswith("intervention=") for part in parts)
        if row["not_used_because"] is None and _REFERENCE_VARIANT in parts and not is_changed:
            yield row


def main(arguments: Sequence[str]) -> int:
    """Write the reference runs of a packed study."""
    write_rows(select_reference_rows(read_rows(Path(arguments[0]))), REFERENCE_FILE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
