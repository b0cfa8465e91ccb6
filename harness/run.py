"""Executes one run in this process, from a pending folder to a finished one."""

import contextlib
import dataclasses
import json
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from harness.adapter import Adapter, find_adapter
from harness.fields import SpecError
from harness.heartbeat import Heartbeat
from harness.holder import Holder
from harness.lease import Lease, LeaseLost
from harness.monitor import TrainingError, TrainingMonitor
from harness.prepare import Prepared
from harness.provenance import provenance, weights_sha256
from harness.recording import SCHEMA, RunFolder, incompleteness, past_attempts, read_run
from harness.run_spec import spec_to_dict
from harness.stopping import REASONS

_PLACES = {"python": None, "study": None}


def initialize(prepared: Prepared, path: Path) -> bool:
    """Writes a pending run folder, unless a complete run is there.

    Returns:
        Whether there is anything to run.

    Raises:
        SpecError: The folder cannot be written or belongs to another run.
        LeaseHeld: The run is going on in another process.
    """
    spec = spec_to_dict(prepared.spec)
    _check_same(spec, path)
    if incompleteness(path) is None:
        return False
    content = {
        "schema": SCHEMA,
        "status": "pending",
        "spec": spec,
        "adapter": find_adapter(prepared.spec.framework).value,
        "hyperparameters": dataclasses.asdict(prepared.hyperparameters),
        "native": dict(prepared.native.settings),
        "alignment": [dataclasses.asdict(row) for row in prepared.native.alignment],
        "steps": {
            "requested": prepared.spec.steps,
            "scheduled": prepared.native.total_steps,
            "framework": prepared.native.framework_steps,
            "taken": 0,
        },
        "cadence": dataclasses.asdict(prepared.native.cadence),
        "weights_sha256": None,
        "failure": None,
        "stopped_by": None,
        "attempts": past_attempts(path),
        "timings": {},
        "provenance": {},
    }
    try:
        path.mkdir(parents=True, exist_ok=True)
        with Lease.acquire(path) as lease:
            RunFolder(lease).write_run(content)
    except OSError as error:
        raise SpecError(
            f"results_dir: {path} cannot be written ({error.strerror}). Choose another folder."
        ) from error
    return True


def execute(prepared: Prepared, adapter: Adapter, folder: RunFolder) -> str:
    """Trains, evaluates and records; the folder must have been initialised.

    Returns:
        The final status. A failure is recorded, not raised.

    Raises:
        KeyboardInterrupt: After the run was marked interrupted.
        LeaseLost: Another process has taken the run over.
    """
    started, attempts = time.time(), past_attempts(folder.path)
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
        except LeaseLost:
            raise
        except Exception as error:
            with contextlib.suppress(OSError):  # the log may be on a full disk
                traceback.print_exc()
            outcome = {"status": "failed", "failure": _describe(error)}
        finally:
            outcome |= _flush(folder)
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


def _flush(folder: RunFolder) -> dict[str, Any]:
    try:
        folder.flush()
    except OSError as error:
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
        steps=read_run(folder.path)["steps"] | {"taken": taken},
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


def _check_same(spec: dict[str, Any], path: Path) -> None:
    try:
        existing = read_run(path)["spec"]
    except (OSError, ValueError, KeyError):
        return
    if not isinstance(existing, dict):
        return
    asked = json.loads(json.dumps(spec))
    # Neither says what is run: the interpreter is a place, and a study's folder may be renamed.
    if existing | _PLACES != asked | _PLACES:
        raise SpecError(
            f"{path} holds a run with other settings. Choose another study.name or results_dir."
        )
