"""Executes one run in this process, from a pending folder to a finished one."""

import contextlib
import time
import traceback
from typing import Any

import numpy as np

from harness.contract.adapter import Adapter, Weights, adapter_code
from harness.contract.events import TrainingError
from harness.contract.fields import SpecError
from harness.contract.watchers import watching
from harness.diagnosis.engine import Engine
from harness.record.folder import Heartbeat, RunFolder, past_attempts
from harness.record.lease import FolderGone, Holder, LeaseLost
from harness.record.provenance import provenance, weights_sha256
from harness.record.reading import read_run
from harness.train.diagnosing import conclude, diagnose
from harness.train.monitor import TrainingMonitor
from harness.train.notices import quietly
from harness.train.prepare import Prepared
from harness.train.stopping import interruption, uninterrupted


def execute(prepared: Prepared, adapter: Adapter, folder: RunFolder) -> str:
    """Trains, evaluates and records; the folder must have been initialised.

    Returns:
        The final status. A failure is recorded, not raised.

    Raises:
        KeyboardInterrupt: After the run was marked interrupted.
        LeaseLost: Another process has taken the run over.
    """
    started, record = time.time(), read_run(folder.path)
    code, attempts = adapter_code(record.content["adapter"]), past_attempts(record)
    folder.clear()
    monitor: TrainingMonitor | None = None
    diagnosis: Engine | None = None
    outcome: dict[str, Any] = {"status": "failed"}
    with Heartbeat(folder, lambda: monitor.steps if monitor else 0):
        try:
            folder.hold_room()
            _begin(folder, started, attempts)
            monitor = TrainingMonitor(prepared.spec, folder)
            diagnosis = diagnose(prepared, monitor, folder)
            outcome = _train(prepared, adapter, monitor, folder)
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
                conclude(diagnosis, folder)
                trouble = _finish_trace(folder)
                if outcome["status"] == "completed":
                    outcome |= trouble
                outcome["provenance"] = provenance() | {
                    "sources": dict(adapter.sources(prepared.spec.algorithm)),
                    "adapter": code,
                }
                _conclude(folder, monitor, outcome, started)
    return str(outcome["status"])


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


def _train(
    prepared: Prepared, adapter: Adapter, monitor: TrainingMonitor, folder: RunFolder
) -> dict[str, Any]:
    with quietly(), watching(monitor.events):
        adapter.train(
            prepared.spec.algorithm, prepared.native, prepared.context, monitor.make_env, monitor
        )
    monitor.finish(prepared.native.total_steps)
    learned = monitor.learned()
    _check_finite(learned.weights)
    folder.keep_policy(learned)
    return {"status": "completed", "weights_sha256": weights_sha256(learned.weights)}


def _check_finite(weights: Weights) -> None:
    # A greedy choice is finite whatever the values are, so that returns need not show it.
    broken = [name for name, value in weights.items() if not np.isfinite(value).all()]
    if broken:
        raise TrainingError(
            f"training ended in weights that are not finite ({broken[0]} and {len(broken) - 1} "
            "others): the policy or the environment has diverged"
        )


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
            "evaluation_seconds": monitor.evaluator.seconds if monitor else 0.0,
        },
    )


def _describe(error: Exception) -> str:
    if isinstance(error, TrainingError | SpecError):
        return str(error)
    return f"{type(error).__name__}: {error}"
