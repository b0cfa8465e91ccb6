"""Reads run folders; a folder that cannot be used is kept with its reason."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.evaluations import (
    UnusableError,
    check_complete,
    first_line,
    read_evaluations,
)
from analysis.find import RUN_FILE, find_run_folders, is_foreign, seed_of
from analysis.foreign import judge_together, read_foreign
from analysis.runs import Cell, Excluded, Loaded, Run, RunId

SCHEMA = 1


def load(root: Path) -> Loaded:
    """Reads every run folder under `root`.

    Args:
        root: A results folder, a study, anything deeper, or one run folder.

    Returns:
        Runs and excluded folders; no folder, however damaged, raises.
    """
    root = root.resolve()
    runs: list[Run] = []
    foreign: list[Run] = []
    excluded: list[Excluded] = []
    known: dict[RunId, Path] = {}
    for folder in find_run_folders(root):
        ours = not is_foreign(folder)
        outcome = read_run(folder) if ours else read_foreign(folder)
        if isinstance(outcome, Excluded):
            excluded.append(outcome)
        elif not ours:
            foreign.append(outcome)
        elif outcome.id in known:
            other = known[outcome.id].relative_to(root)
            reason = f"same run as {other}, which is used"
            excluded.append(Excluded(outcome.id, folder, reason, completed=True))
        else:
            known[outcome.id] = folder
            runs.append(outcome)
    for outcome in judge_together(foreign):
        (runs if isinstance(outcome, Run) else excluded).append(outcome)  # type: ignore[arg-type]
    return Loaded(root, tuple(runs), tuple(excluded))


def read_run(folder: Path) -> Run | Excluded:
    """Reads one run folder.

    Args:
        folder: Absolute path of the run folder.

    Returns:
        The run if it is complete, otherwise the reason why it is not used.
    """
    run_id = _id_from_path(folder)
    try:
        record = _read_record(folder)
        run_id = _id_from_spec(record, folder)
        _check_status(record)
        end = _lookup(record, "steps.scheduled", int)
        timesteps, results, ep_lengths = read_evaluations(folder)
        check_complete(timesteps, results, end)
        spec, seconds = record["spec"], _seconds(record)
        return Run(run_id, folder, timesteps, results, ep_lengths, spec, seconds)
    except UnusableError as error:
        return Excluded(run_id, folder, str(error))


def _read_record(folder: Path) -> dict[str, Any]:
    try:
        record = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UnusableError(f"missing {RUN_FILE}") from error
    except OSError as error:
        raise UnusableError(f"unreadable {RUN_FILE}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UnusableError(f"corrupted {RUN_FILE}: {first_line(error)}") from error
    if not isinstance(record, dict):
        raise UnusableError(f"corrupted {RUN_FILE}: not an object but {type(record).__name__}")
    if record.get("schema") != SCHEMA:
        raise UnusableError(f"{RUN_FILE} has schema={record.get('schema')!r}; {SCHEMA} is known")
    return record


def _id_from_spec(record: Mapping[str, Any], folder: Path) -> RunId:
    names = ("study", "env", "algorithm", "hps", "framework")
    study, env, algorithm, hps, framework = (_lookup(record, f"spec.{name}", str) for name in names)
    cell = Cell(study, env, algorithm, hps, folder.parent.name)
    return RunId(cell, framework, _lookup(record, "spec.seed", int))


def _id_from_path(folder: Path) -> RunId:
    parts = ("?",) * 7 + folder.parts[1:]
    study, env, algorithm, hps, framework, variant, name = parts[-7:]
    return RunId(Cell(study, env, algorithm, hps, variant), framework, seed_of(name))


def _check_status(record: Mapping[str, Any]) -> None:
    status = _lookup(record, "status", str)
    if status == "failed":
        raise UnusableError(f"failed: {first_line(record.get('failure') or '')}")
    if status in ("pending", "running", "interrupted"):
        raise UnusableError(status)
    if status != "completed":
        raise UnusableError(f"corrupted {RUN_FILE}: status={status!r} is not known")


def _seconds(record: Mapping[str, Any]) -> float:
    timings = record.get("timings")
    value = timings.get("seconds") if isinstance(timings, Mapping) else None
    known = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return float(value) if known else math.nan  # type: ignore[arg-type]


def _lookup(record: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    """The entry at a dotted name, checked for its type."""
    value: Any = record
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UnusableError(f"corrupted {RUN_FILE}: {name}={value!r} is not {kind.__name__}"[:200])
    return value
