"""Executes one run in this process, from a pending folder to a finished one."""

import contextlib
import copy
import math
import sys
import time
import traceback
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Adapter, Weights
from parallax.harness.contract.adapter_discovery import describe_adapter_code
from parallax.harness.contract.events import TrainingError, watch_libraries
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.upstream_code import silence_future_warnings
from parallax.harness.interventions.catalogue import make_replacement
from parallax.harness.record.checkpoints import LoadedCheckpoint
from parallax.harness.record.files import escape_unprintable, summarize_error
from parallax.harness.record.folder import HeartbeatWriter, RunFolder, collect_attempts
from parallax.harness.record.lock import FolderDeletedError, LockLostError
from parallax.harness.record.lock_owner import LockOwner
from parallax.harness.record.provenance import collect_provenance, hash_weights
from parallax.harness.record.reading import read_run
from parallax.harness.train.checkpointing import (
    CheckpointManager,
    ResumeError,
    iterate_resume_points,
)
from parallax.harness.train.diagnosis import RunDiagnosis, finish_diagnosis, start_diagnosis
from parallax.harness.train.env_states import load_rng_state, read_rng_state
from parallax.harness.train.limits import estimate_state_bytes
from parallax.harness.train.loggers import TrainingLogger, start_logging
from parallax.harness.train.monitor import TrainingMonitor
from parallax.harness.train.prepare import PreparedRun
from parallax.harness.train.run_identity import describe_run_identity
from parallax.harness.train.stop_signals import (
    StopRequest,
    describe_interruption,
    ignore_stop_signals,
)

_MAX_NOTE_LENGTH = 1_000
_OTHER_ERRORS = (SpecError, LockLostError, OSError)  # not of a checkpoint's state


def execute_run(prepared: PreparedRun, adapter: Adapter, folder: RunFolder) -> str:
    """Train, evaluate and record; the folder must have been initialised.

    Returns:
        The final status. A failure is recorded, not raised.

    Raises:
        KeyboardInterrupt: After the run was marked interrupted.
        LockLostError: Another process has taken the run over.
    """
    started, reading = time.time(), read_run(folder.path)
    adapter_code = describe_adapter_code(reading.content["adapter"])
    attempts = collect_attempts(reading)
    folder.clear()
    identity = describe_run_identity(prepared, adapter, adapter_code)
    attempt = _RunAttempt(prepared, adapter, folder, identity, started)
    outcome: dict[str, Any] = {"status": "failed"}
    with HeartbeatWriter(folder, lambda: attempt.steps):
        try:
            folder.reserve_space()
            if prepared.context.script:
                diff = adapter.diff_script(prepared.spec.algorithm, prepared.context)
                folder.write_script_diff(diff)
            _record_start(folder, started, attempts)
            outcome = attempt.carry_out()
        except KeyboardInterrupt as error:
            outcome = describe_interruption(getattr(error, "by", "user"))
            raise
        except (LockLostError, FolderDeletedError):
            raise
        except (Exception, SystemExit) as error:  # a task may end Python
            with contextlib.suppress(OSError):  # the log may be on a full disk
                traceback.print_exc()
            outcome = {"status": "failed", "failure": _describe_error(error)}
        finally:
            with ignore_stop_signals():
                failure = _close(attempt, outcome) | _finish_trace(folder)
                if outcome["status"] == "completed":
                    outcome |= failure
                outcome["provenance"] = collect_provenance() | {
                    "sources": _describe_sources(prepared, adapter),
                    "adapter": adapter_code,
                }
                _record_end(folder, attempt, outcome)
                if outcome["status"] == "completed":
                    folder.checkpoints.remove()
    return str(outcome["status"])


def _describe_sources(prepared: PreparedRun, adapter: Adapter) -> dict[str, str]:
    if script := prepared.spec.script:
        return {script.name: script.sha256}
    return dict(adapter.sources(prepared.spec.algorithm))


def _record_start(folder: RunFolder, started: float, attempts: list[dict[str, Any]]) -> None:
    me = LockOwner.of_this_process("")
    folder.update_run(
        status="running",
        failure=None,
        stopped_by=None,
        attempts=attempts,
        resumed_from=None,
        has_foreign_checkpoint=False,
        resume_notes=[],
        timings={"started": started},
        pid=me.pid,
        host=me.host,
        job=me.job or None,
    )


class _RunAttempt:
    """One attempt at a run: from a checkpoint, or from its start."""

    def __init__(
        self,
        prepared: PreparedRun,
        adapter: Adapter,
        folder: RunFolder,
        identity: dict[str, Any],
        started: float,
    ) -> None:
        self._prepared, self._adapter, self._folder = prepared, adapter, folder
        self._identity, self._is_own = identity, True
        self.started = started
        self._begun = time.monotonic()  # the wall clock may be changed during a run
        self._cpu_begun = time.process_time()
        self._earlier_seconds = self._earlier_cpu_seconds = 0.0
        self.monitor: TrainingMonitor | None = None
        self.diagnosis: RunDiagnosis | None = None
        self.logging: TrainingLogger | None = None
        self.notes: list[str] = []

    @property
    def steps(self) -> int:
        """Environment steps so far."""
        return self.monitor.steps if self.monitor else 0

    @property
    def seconds(self) -> float:
        """Seconds of training that led to the present state, over all attempts."""
        return self._earlier_seconds + time.monotonic() - self._begun

    @property
    def cpu_seconds(self) -> float:
        """The same of all cores; NaN after a checkpoint that lacks them."""
        return self._earlier_cpu_seconds + time.process_time() - self._cpu_begun

    def carry_out(self) -> dict[str, Any]:
        """Train to the end, from the best checkpoint that fits."""
        every, stop = self._prepared.spec.checkpoint_every, StopRequest()
        if not every:
            return self._train(None, 0, stop)
        checkpoints = self._folder.checkpoints
        rng_state, numbers = read_rng_state(), checkpoints.list_numbers()
        room = estimate_state_bytes(self._prepared.hyperparameters, self._prepared.context.task)
        for start in iterate_resume_points(checkpoints, self._identity, self._add_note, room):
            try:
                return self._train(start, every, stop)
            except Exception as error:
                # A value of another type or shape shows only where it is used; without the
                # checkpoint before it, every further attempt at the run would fail in the same way.
                if start is None or _is_unrelated(error, start):
                    raise
                reason: object = error
                if not isinstance(error, ResumeError):
                    is_loaded = self.steps >= start.about["step"]
                    has_saved = checkpoints.list_numbers() != numbers
                    # Numbers that are not finite may show only at the next evaluation.
                    if not is_loaded or (has_saved and not isinstance(error, TrainingError)):
                        raise  # it has nothing to do with the checkpoint, or has saved another one
                    when = "later" if has_saved else "soon after it"
                    reason = f"the training failed {when} ({summarize_error(error)})"
                self.close()
                self._add_note(f"Checkpoint {start.number} cannot be resumed from: {reason}.")
                self._folder.discard_results()
                load_rng_state(rng_state)
        raise AssertionError("a start always fits")

    def _train(
        self, start: LoadedCheckpoint | None, every: float, stop: StopRequest
    ) -> dict[str, Any]:
        monitor, prepared = self._watch_training(start, every, stop), self._prepared
        changes = make_replacement(prepared.interventions)
        with (
            silence_future_warnings(),
            changes.apply_replacement(),
            watch_libraries(monitor.events),
            stop.defer_stop_signals(),
        ):
            self._adapter.train(
                prepared.spec.algorithm,
                # A checkpoint that is refused halfway may have changed its lists.
                copy.deepcopy(prepared.native),
                prepared.context,
                monitor.make_env,
                monitor,
            )
        with silence_future_warnings(), changes.apply_replacement():
            # The last evaluation runs with the run's changes of code, like those before it.
            monitor.finish(prepared.native.total_steps)
            learned = monitor.get_stored_policy()
        _check_weights_finite(learned.weights)
        best = monitor.best
        saved = best.policy if best and best.policy else learned
        self._folder.save_policy(saved)
        return {
            "status": "completed",
            "final_score": monitor.evaluator.last_score,
            "references": _measure_references(monitor),
            "weights_sha256": hash_weights(saved.weights),
            **({"saved_evaluation": best.evaluation} if best else {}),
        }

    def _watch_training(
        self, start: LoadedCheckpoint | None, every: float, stop: StopRequest
    ) -> TrainingMonitor:
        """Create the monitor of a training, its diagnosis and its logger."""
        prepared, folder = self._prepared, self._folder
        self._is_own = start is None or start.is_own
        self._earlier_seconds = start.about["seconds"] if start else 0.0
        self._earlier_cpu_seconds = start.about.get("cpu_seconds", math.nan) if start else 0.0
        folder.update_run(
            resumed_from=start.about["step"] if start else None,
            has_foreign_checkpoint=not self._is_own,
        )
        manager = CheckpointManager(
            folder.checkpoints, self._describe_checkpoint, every, stop, start, self._add_note
        )
        self.monitor = monitor = TrainingMonitor(prepared, folder, manager)
        first_step = start.about["step"] if start else 0
        self.diagnosis = start_diagnosis(prepared, monitor, folder, first_step)
        self.logging = start_logging(
            prepared.spec.logger, folder, monitor.events, self._add_note, resumes=start is not None
        )
        if self.logging and self.diagnosis:
            self.diagnosis.engine.signals.on_value = self.logging.log_signal
        return monitor

    def close(self, failure: str = "") -> None:
        """Write the findings of the diagnosis, and close the logger's files."""
        finish_diagnosis(self.diagnosis, self._folder, failure)
        if self.logging:
            self.logging.close()

    def _describe_checkpoint(self) -> dict[str, Any]:
        cost = {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds}
        return {"identity": self._identity, "step": self.steps, "is_own": self._is_own, **cost}

    def _add_note(self, text: str) -> None:
        text = escape_unprintable(text[:_MAX_NOTE_LENGTH])  # may quote an untrusted file
        self.notes.append(text)
        with contextlib.suppress(OSError):  # the log may be on a full disk
            print(text, file=sys.stderr, flush=True)


def _is_unrelated(error: Exception, start: LoadedCheckpoint) -> bool:
    """Return whether an error says nothing against the checkpoint that the training began from."""
    if isinstance(error, TrainingError):  # diverged: as it would again, but from another's state
        return start.is_own
    return isinstance(error, _OTHER_ERRORS)


def _measure_references(monitor: TrainingMonitor) -> dict[str, Any]:
    try:
        return monitor.evaluator.measure_references()
    except (Exception, SystemExit) as error:  # of a user's task: the run is complete
        print(f"References not measured: {_describe_error(error)}", file=sys.stderr, flush=True)
        return {}


def _check_weights_finite(weights: Weights) -> None:
    # A greedy choice is finite even if the values are not, so that returns need not show it.
    broken = [name for name, value in weights.items() if not np.isfinite(value).all()]
    if broken:
        raise TrainingError(
            f"training ended in weights that are not finite ({broken[0]} and {len(broken) - 1} "
            "others): the policy or the environment has diverged"
        )


def _close(attempt: _RunAttempt, outcome: dict[str, Any]) -> dict[str, Any]:
    """Close the files beside the record; a full disk must not prevent writing the status."""
    try:
        attempt.close(outcome.get("failure", "") if outcome["status"] == "failed" else "")
    except (LockLostError, FolderDeletedError):
        raise
    except OSError as error:
        failure = f"the files beside the trace cannot be finished: {error}"
        return {"status": "failed", "failure": failure}
    return {}


def _finish_trace(folder: RunFolder) -> dict[str, Any]:
    try:
        folder.finish_trace()
    except (LockLostError, FolderDeletedError):
        raise
    except Exception as error:  # a full disk, or a value that is not a number
        return {"status": "failed", "failure": f"the trace cannot be written: {error}"}
    finally:
        folder.release_space()
    return {}


def _record_end(folder: RunFolder, attempt: _RunAttempt, outcome: dict[str, Any]) -> None:
    seconds, monitor = attempt.seconds, attempt.monitor
    training_cpu = attempt.cpu_seconds - (monitor.evaluator.cpu_seconds if monitor else 0.0)
    folder.update_run(
        **outcome,
        steps=folder.content["steps"] | {"taken": attempt.steps},
        resume_notes=attempt.notes,
        timings={
            "started": attempt.started,
            "ended": time.time(),
            "seconds": seconds,
            "evaluation_seconds": monitor.evaluator.seconds if monitor else 0.0,
            # NaN fails the comparison; JSON has no NaN.
            "training_cpu_seconds": training_cpu if abs(training_cpu) < 1e10 else None,
            **({"parts": monitor.costs} if monitor and monitor.costs else {}),
        },
    )


def _describe_error(error: BaseException) -> str:
    if isinstance(error, TrainingError | SpecError):
        return str(error)
    return f"{type(error).__name__}: {error}"
