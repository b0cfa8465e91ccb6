"""Executes one run in this process, from a pending folder to a finished one."""

import contextlib
import sys
import time
import traceback
from typing import Any

import numpy as np

from harness.contract.adapter import Adapter, Weights, adapter_code
from harness.contract.events import TrainingError
from harness.contract.fields import SpecError
from harness.contract.watchers import watching
from harness.interventions.catalogue import replacement
from harness.record.checkpoints import Loaded
from harness.record.folder import Heartbeat, RunFolder, past_attempts
from harness.record.holder import Holder
from harness.record.lease import FolderGone, LeaseLost
from harness.record.provenance import provenance, weights_sha256
from harness.record.reading import read_run
from harness.train import generators
from harness.train.checkpointing import CannotGoOnError, Keeper, identity, starts
from harness.train.diagnosing import Diagnosing, conclude, diagnose
from harness.train.loggers import Logging, join
from harness.train.monitor import TrainingMonitor
from harness.train.notices import quietly
from harness.train.prepare import Prepared
from harness.train.stopping import StopRequest, interruption, uninterrupted


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
    attempt = _Attempt(prepared, adapter, folder, identity(prepared, adapter, code), started)
    outcome: dict[str, Any] = {"status": "failed"}
    with Heartbeat(folder, lambda: attempt.steps):
        try:
            folder.hold_room()
            _begin(folder, started, attempts)
            outcome = attempt.carry_out()
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
                attempt.close()
                trouble = _finish_trace(folder)
                if outcome["status"] == "completed":
                    outcome |= trouble
                outcome["provenance"] = provenance() | {
                    "sources": dict(adapter.sources(prepared.spec.algorithm)),
                    "adapter": code,
                }
                _conclude(folder, attempt, outcome)
                if outcome["status"] == "completed":
                    folder.checkpoints.remove()
    return str(outcome["status"])


def _begin(folder: RunFolder, started: float, attempts: list[dict[str, Any]]) -> None:
    me = Holder.here("")
    folder.update_run(
        status="running",
        failure=None,
        stopped_by=None,
        attempts=attempts,
        resumed_from=None,
        resumption=[],
        timings={"started": started},
        pid=me.pid,
        host=me.host,
        job=me.job or None,
    )


class _Attempt:
    """One attempt at a run: from a checkpoint, or from its start."""

    def __init__(
        self,
        prepared: Prepared,
        adapter: Adapter,
        folder: RunFolder,
        own: dict[str, Any],
        started: float,
    ) -> None:
        self._prepared, self._adapter, self._folder, self._own = prepared, adapter, folder, own
        self.started, self._earlier = started, 0.0
        self.monitor: TrainingMonitor | None = None
        self.diagnosis: Diagnosing | None = None
        self.logging: Logging | None = None
        self.notes: list[str] = []

    @property
    def steps(self) -> int:
        """Environment steps so far."""
        return self.monitor.steps if self.monitor else 0

    @property
    def seconds(self) -> float:
        """For which what has been kept was trained, by all attempts that it comes from."""
        return self._earlier + time.time() - self.started

    def carry_out(self) -> dict[str, Any]:
        """Trains to the end, from the best state that fits."""
        every, stop = self._prepared.spec.checkpoint_every, StopRequest()
        if not every:
            return self._train(None, 0, stop)
        before = generators.read()
        for start in starts(self._folder.checkpoints, self._own, self._say):
            try:
                return self._train(start, every, stop)
            except CannotGoOnError as error:
                assert start is not None
                self.close()
                self._say(f"Checkpoint {start.number} cannot be gone on from: {error}.")
                self._folder.forget()
                generators.lay_in(before)
        raise AssertionError("a start always fits")

    def _train(self, start: Loaded | None, every: float, stop: StopRequest) -> dict[str, Any]:
        prepared, folder = self._prepared, self._folder
        self._earlier = start.about["seconds"] if start else 0.0
        folder.update_run(resumed_from=start.about["step"] if start else None)
        keeper = Keeper(folder.checkpoints, self._about, every, stop, start, self._say)
        self.monitor = monitor = TrainingMonitor(prepared, folder, keeper)
        begins = start.about["step"] if start else 0
        self.diagnosis = diagnose(prepared, monitor, folder, begins)
        self.logging = join(
            *(prepared.spec.logger, folder, monitor.events, self._say), resumes=start is not None
        )
        if self.logging and self.diagnosis:
            self.diagnosis.engine.signals.told = self.logging.signals
        changed = replacement(prepared.interventions)
        with quietly(), changed.made(), watching(monitor.events), stop.listening():
            self._adapter.train(
                prepared.spec.algorithm,
                prepared.native,
                prepared.context,
                monitor.make_env,
                monitor,
            )
        monitor.finish(prepared.native.total_steps)
        learned = monitor.learned()
        _check_finite(learned.weights)
        best = monitor.best
        kept = best.policy if best and best.policy else learned
        folder.keep_policy(kept)
        return {
            "status": "completed",
            "weights_sha256": weights_sha256(kept.weights),
            **({"kept": best.evaluation} if best else {}),
        }

    def close(self) -> None:
        """Writes what the diagnosis has found, and ends the logger's files."""
        conclude(self.diagnosis, self._folder)
        if self.logging:
            self.logging.close()

    def _about(self) -> dict[str, Any]:
        return {"identity": self._own, "step": self.steps, "seconds": self.seconds}

    def _say(self, text: str) -> None:
        self.notes.append(text)
        with contextlib.suppress(OSError):  # the log may be on a full disk
            print(text, file=sys.stderr, flush=True)


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


def _conclude(folder: RunFolder, attempt: _Attempt, outcome: dict[str, Any]) -> None:
    seconds, monitor = attempt.seconds, attempt.monitor
    folder.update_run(
        **outcome,
        steps=folder.content["steps"] | {"taken": attempt.steps},
        resumption=attempt.notes,
        timings={
            "started": attempt.started,
            "ended": time.time(),
            "seconds": seconds,
            "evaluation_seconds": monitor.evaluator.seconds if monitor else 0.0,
            **({"parts": monitor.parts} if monitor and monitor.parts else {}),
        },
    )


def _describe(error: Exception) -> str:
    if isinstance(error, TrainingError | SpecError):
        return str(error)
    return f"{type(error).__name__}: {error}"
