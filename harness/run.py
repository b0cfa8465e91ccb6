"""Executes one run in this process, from a pending folder to a finished one."""

import contextlib
import dataclasses
import time
import traceback
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.adapter import Adapter, find_adapter
from harness.fields import SpecError
from harness.monitor import TrainingError, TrainingMonitor
from harness.prepare import Prepared
from harness.record.files import plain_json
from harness.record.folder import Heartbeat, RunFolder, past_attempts
from harness.record.lease import FolderGone, Holder, Lease, LeaseLost
from harness.record.provenance import provenance, weights_sha256
from harness.record.reading import Reading, holds, read_run
from harness.run_spec import RunSpec, spec_from_dict, spec_to_dict
from harness.stopping import REASONS, uninterrupted


def initialize(prepared: Prepared, path: Path, silent: Collection[str] | None = None) -> bool:
    """Writes a pending run folder, unless a complete run is there.

    Args:
        prepared: The run.
        path: Its folder.
        silent: As for `Lease.acquire`.

    Returns:
        Whether there is anything to run.

    Raises:
        SpecError: The folder cannot be written or belongs to another run.
        LeaseHeld: The run is going on in another process.
    """
    reading = read_run(path)
    _check_same(prepared.spec, reading)
    if reading.complete:
        return False
    try:
        path.mkdir(parents=True, exist_ok=True)
        with Lease.acquire(path, silent) as lease:
            # Asked again: another sweep may have completed it since.
            reading = read_run(path)
            _check_same(prepared.spec, reading)
            if reading.complete:
                return False
            folder = RunFolder(lease, {})
            if reading.damaged or not holds(reading.content):
                folder.set_aside()
            folder.update_run(**_pending(prepared, reading))
    except OSError as error:
        raise SpecError(
            f"results_dir: {path} cannot be written ({error.strerror}). Choose another folder."
        ) from error
    return True


def _pending(prepared: Prepared, before: Reading) -> dict[str, Any]:
    """What `run.json` says of a run that is set up."""
    return {
        "status": "pending",
        "spec": spec_to_dict(prepared.spec),
        "adapter": find_adapter(prepared.spec.framework).value,
        "alignment": [dataclasses.asdict(row) for row in prepared.native.alignment],
        **_translated(prepared),
        "steps": {
            "requested": prepared.spec.steps,
            "scheduled": prepared.native.total_steps,
            "framework": prepared.native.framework_steps,
            "taken": 0,
        },
        "weights_sha256": None,
        "failure": None,
        "stopped_by": None,
        "attempts": past_attempts(before),
        "timings": {},
        "provenance": {},
    }


def _translated(prepared: Prepared) -> dict[str, Any]:
    """What decides what trains."""
    return {
        "hyperparameters": dataclasses.asdict(prepared.hyperparameters),
        "native": dict(prepared.native.settings),
        "cadence": dataclasses.asdict(prepared.native.cadence),
    }


def check_translation(prepared: Prepared, recorded: Mapping[str, Any]) -> None:
    """Makes sure that what trains is what `run.json` says, which may be of another day.

    Args:
        prepared: What the code of now makes of the run.
        recorded: The content of `run.json`.

    Raises:
        SpecError: Names what differs.
    """
    now = _translated(prepared) | {"scheduled steps": prepared.native.total_steps}
    then = {**recorded, "scheduled steps": recorded["steps"]["scheduled"]}
    for part, value in now.items():
        new, old = _told(_as_read(value)), _told(then.get(part))
        if new != old and old is not None:
            raise SpecError(
                f"The code that is installed now translates the run otherwise than when it was "
                f"set up ({_first_difference(part, old, new)}). Start the sweep again, which sets "
                "it up anew."
            )


def _as_read(value: Any) -> Any:
    """A value as it comes back from a file."""
    return msgspec.json.decode(msgspec.json.encode(plain_json(value)))


def _told(value: Any) -> Any:
    """A mapping without what is null in it, as are fields that came later."""
    if not isinstance(value, dict):
        return value
    return {name: item for name, item in value.items() if item is not None}


def _first_difference(part: str, old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        name = min(n for n in old.keys() | new.keys() if old.get(n) != new.get(n))
        return f"{part}: {name}={old.get(name)} then, {new.get(name)} now"
    return f"{part}: {old} then, {new} now"


def execute(prepared: Prepared, adapter: Adapter, folder: RunFolder) -> str:
    """Trains, evaluates and records; the folder must have been initialised.

    Returns:
        The final status. A failure is recorded, not raised.

    Raises:
        KeyboardInterrupt: After the run was marked interrupted.
        LeaseLost: Another process has taken the run over.
    """
    started, attempts = time.time(), past_attempts(read_run(folder.path))
    folder.clear()
    monitor: TrainingMonitor | None = None
    outcome: dict[str, Any] = {"status": "failed"}
    with Heartbeat(folder, lambda: monitor.steps if monitor else 0):
        try:
            folder.hold_room()
            _begin(folder, started, attempts)
            monitor = TrainingMonitor(prepared.spec, folder)
            outcome = _train(prepared, adapter, monitor)
        except KeyboardInterrupt as error:
            outcome = interruption(getattr(error, "by", "user"))
            raise
        except (LeaseLost, FolderGone):
            raise
        except Exception as error:
            with contextlib.suppress(OSError):  # the log may be on a full disk
                traceback.print_exc()
            outcome = {"status": "failed", "failure": _describe(error)}
        finally:
            with uninterrupted():
                trouble = _finish_trace(folder)
                if outcome["status"] == "completed":
                    outcome |= trouble
                outcome["provenance"] = provenance() | {
                    "sources": dict(adapter.sources(prepared.spec.algorithm))
                }
                _conclude(folder, monitor, outcome, started)
    return str(outcome["status"])


def interruption(by: str) -> dict[str, Any]:
    """What `run.json` says of a run that was stopped from outside."""
    return {"status": "interrupted", "failure": REASONS[by], "stopped_by": by}


def _begin(folder: RunFolder, started: float, attempts: list[dict[str, Any]]) -> None:
    me = Holder.here("")
    folder.update_run(
        status="running",
        failure=None,
        stopped_by=None,
        attempts=attempts,
        timings={"started": started},
        pid=me.pid,
        host=me.host,
        job=me.job or None,
    )


def _train(prepared: Prepared, adapter: Adapter, monitor: TrainingMonitor) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        adapter.train(
            prepared.spec.algorithm, prepared.native, prepared.context, monitor.make_env, monitor
        )
    monitor.finish(prepared.native.total_steps)
    return {"status": "completed", "weights_sha256": weights_sha256(monitor.weights())}


def _finish_trace(folder: RunFolder) -> dict[str, Any]:
    try:
        folder.finish_trace()
    except (LeaseLost, FolderGone):
        raise
    except Exception as error:  # a full disk, or a value that is no number
        return {"status": "failed", "failure": f"the trace cannot be written: {error}"}
    finally:
        folder.release_room()
    return {}


def _conclude(
    folder: RunFolder,
    monitor: TrainingMonitor | None,
    outcome: dict[str, Any],
    started: float,
) -> None:
    ended = time.time()
    taken = monitor.steps if monitor else 0
    folder.update_run(
        **outcome,
        steps=folder.content["steps"] | {"taken": taken},
        timings={
            "started": started,
            "ended": ended,
            "seconds": ended - started,
            "evaluation_seconds": monitor.evaluation_seconds if monitor else 0.0,
        },
    )


def _describe(error: Exception) -> str:
    if isinstance(error, TrainingError | SpecError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _check_same(spec: RunSpec, reading: Reading) -> None:
    if reading.newer:
        raise SpecError(f"{reading.folder}: {reading.reason}, or choose another results_dir.")
    if reading.unreadable:
        raise SpecError(f"{reading.folder}: {reading.reason}. Let it be read, or move it away.")
    if reading.record is None:
        return
    try:
        # A study may have been renamed, and an interpreter moved.
        recorded = spec_from_dict(reading.spec)
        same = dataclasses.replace(recorded, study=spec.study, python=spec.python) == spec
    except SpecError:
        same = False
    if not same:
        changed = "" if holds(reading.content) else " (its run.json was changed or is damaged)"
        raise SpecError(
            f"{reading.folder} holds a run with other settings{changed}. Choose another study.name "
            "or results_dir."
        )
