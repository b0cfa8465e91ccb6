"""Slurm job that executes its runs in turn and, at a warning, is requeued to resume them."""

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from submitit.helpers import DelayedSubmission

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec, spec_from_dict
from parallax.harness.record.checkpoints import LastCheckpoint, find_last_checkpoint
from parallax.harness.record.folder import collect_attempts
from parallax.harness.record.lock import LockHeldError, LockLostError, read_lock_owner
from parallax.harness.record.lock_owner import BatchJob
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.forked_process import ForkServerPool
from parallax.harness.sweep.run_process import (
    SYSTEM_ALLOCATOR,
    RunProcess,
    get_allocator_variables,
    mark_run_ended,
)
from parallax.harness.train.stop_signals import get_stop_reason

_WARNING_TOLERANCE = 60.0  # seconds by which Slurm's warning may be early
_KILL_WAIT = 300.0  # seconds to wait for the end that a SIGTERM announces


@dataclasses.dataclass(frozen=True)
class JobLimits:
    """Time limits of a job, and the number of its restarts.

    Attributes:
        run_minutes: Time limit of one run.
        job_minutes: Time limit of the job.
        signal_seconds: Seconds between the warning and the job's end.
        timeout_restarts: Restarts of a run that used its whole time and saved no checkpoint.
        preemption_restarts: Restarts of a preempted job whose run saved no checkpoint.
        malloc: The runs' memory allocator; see `get_allocator_variables`.
    """

    run_minutes: int
    job_minutes: int
    signal_seconds: int
    timeout_restarts: int
    preemption_restarts: int
    malloc: str = SYSTEM_ALLOCATOR


def can_be_requeued(restarts: int, limits: JobLimits) -> bool:
    """Return whether a job that is about to be preempted is queued again."""
    return restarts < limits.preemption_restarts


def has_exhausted_restarts(seconds: float, stops: int, limits: JobLimits) -> bool:
    """Return whether a run used its whole time so often that another start would end the same way.

    Args:
        seconds: Seconds that it has been running.
        stops: Number of times that its time limit stopped it, this time included.
        limits: Largest number of restarts.
    """
    limit = limits.run_minutes * 60
    enough = min(0.8 * limit, _compute_earliest_warning(limit - limits.signal_seconds))
    return seconds >= enough and stops > limits.timeout_restarts


def compute_seconds_to_warning(limits: JobLimits) -> float:
    """Return the seconds after a job's start from which a warning is about its time limit.

    An earlier warning is about preemption.
    """
    return _compute_earliest_warning(limits.job_minutes * 60 - limits.signal_seconds)


def _compute_earliest_warning(warning: float) -> float:
    """Return the seconds after a job's start before which no warning comes."""
    return warning - min(_WARNING_TOLERANCE, warning / 2)


class JobFailedError(Exception):
    """Some runs of a job did not complete; makes Slurm report the job as failed, too."""


class RunJob:
    """Job that submitit calls on a node; pickled when it is submitted and queued again."""

    def __init__(self, limits: JobLimits) -> None:
        self._limits = limits
        self._current = ""
        self._run_started = 0.0
        self._last_checkpoint: LastCheckpoint | None = None

    def __call__(self, folders: list[str]) -> None:
        """Execute the runs that are not complete.

        Args:
            folders: Run folders, in order.

        Raises:
            JobFailedError: Some did not complete.
        """
        _make_batch_job(self._limits).export_to_environment()
        with ForkServerPool(_read_specs(folders)) as fork_servers:
            failures = {folder: self._run_folder(Path(folder), fork_servers) for folder in folders}
        failed = [f"{folder}: {failure}" for folder, failure in failures.items() if failure]
        if failed:
            words = "; ".join(failed)
            raise JobFailedError(f"{len(failed)} of {len(failures)} runs are not complete: {words}")

    def checkpoint(self, folders: list[str]) -> DelayedSubmission | None:
        """Return the job that is queued again after a warning, or None; called by submitit.

        A run with a checkpoint beyond the one it started from is always queued again and resumes
        there; any other starts from the beginning, as often as the limits allow.
        """
        if self._current:
            self._stop_run(Path(self._current))
        left = [folder for folder in folders if _is_runnable(Path(folder))]
        if self._current in left and self._has_new_checkpoint(Path(self._current)):
            return DelayedSubmission(RunJob(self._limits), left)
        if get_stop_reason(signal.SIGUSR2) == "preemption":
            job = BatchJob.from_environment()
            if job is None or not can_be_requeued(job.restart, self._limits):
                return None
        elif self._current in left and self._has_exhausted_time(Path(self._current)):
            left.remove(self._current)
        return DelayedSubmission(RunJob(self._limits), left) if left else None

    def _run_folder(self, folder: Path, fork_servers: ForkServerPool) -> str | None:
        """Execute the run of a folder; return why it is not complete after that, or None."""
        reading = read_run(folder)
        if not _is_runnable(folder):
            print(f"{folder}: {reading.reason or 'complete already'}", flush=True)
            return None
        try:
            spec = spec_from_dict(reading.spec)
        except SpecError as error:
            return _mark_failed(folder, f"what it asks for cannot be used: {error}")
        try:
            variables = get_allocator_variables("malloc", self._limits.malloc)
        except SpecError as error:
            return _mark_failed(folder, str(error))
        self._current, self._run_started = str(folder), time.monotonic()
        self._last_checkpoint = find_last_checkpoint(folder)
        try:
            process = RunProcess(spec, folder, fork_servers, variables)
        except OSError as error:
            self._current = ""
            print(f"{folder}: it cannot be started: {error}", flush=True)
            return f"it cannot be started: {error}"
        while not process.wait(1.0):
            continue
        outcome = process.outcome()
        print(f"{folder}: {outcome.status} {outcome.failure or ''}", flush=True)
        if outcome.status == "interrupted":
            # Cancelled or about to be preempted. Ending now would keep Slurm from queueing a
            # preempted job again, so wait for the kill.
            time.sleep(_KILL_WAIT)
        self._current = ""
        return outcome.failure

    def _stop_run(self, folder: Path) -> None:
        """Stop the current run and wait until it has recorded why; Slurm has warned it, too."""
        deadline = time.monotonic() + self._limits.signal_seconds * 2 / 3
        holder = read_lock_owner(folder)
        job = BatchJob.from_environment()
        if holder is None or job is None or holder.job != job.id:
            return
        # Anybody who can write the folder can name any process in it; 0 and -id, groups, never run.
        if not (holder.is_local and holder.is_running()):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(holder.pid, signal.SIGUSR2)
        # Not by waiting for the process: this runs inside a wait that was interrupted.
        while read_lock_owner(folder) == holder and time.monotonic() < deadline:
            time.sleep(0.1)

    def _has_new_checkpoint(self, folder: Path) -> bool:
        """Return whether the current run has saved a checkpoint beyond the one it started from."""
        checkpoint, record = find_last_checkpoint(folder), read_run(folder).record
        if checkpoint is None or checkpoint == self._last_checkpoint or record is None:
            return False
        return checkpoint.step > (record.resumed_from or 0)

    def _has_exhausted_time(self, folder: Path) -> bool:
        stops = [attempt["stopped_by"] for attempt in collect_attempts(read_run(folder))]
        return has_exhausted_restarts(
            time.monotonic() - self._run_started, stops.count("time limit"), self._limits
        )


def _make_batch_job(limits: JobLimits) -> BatchJob:
    """Return the job that starts now."""
    array, index = (os.environ.get(f"SLURM_ARRAY_{n}") for n in ("JOB_ID", "TASK_ID"))
    return BatchJob(
        id=f"{array}_{index}" if array else os.environ["SLURM_JOB_ID"],
        restart=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        limit_from=time.monotonic() + compute_seconds_to_warning(limits),
        notice=limits.signal_seconds,
    )


def _read_specs(folders: Iterable[str]) -> Iterator[RunSpec]:
    """Return the specifications of the runs, as far as they can be read."""
    for folder in folders:
        if _is_runnable(Path(folder)):
            with contextlib.suppress(SpecError):
                yield spec_from_dict(read_run(Path(folder)).spec)


def _is_runnable(folder: Path) -> bool:
    """Return whether a run still has to be run; those that failed would fail again."""
    reading = read_run(folder)
    return not reading.complete and reading.record is not None and reading.record.status != "failed"


def _mark_failed(folder: Path, failure: str) -> str:
    """Record that a run failed before it began, and return why; the job's other runs go on."""
    print(f"{folder}: {failure}", flush=True)
    with contextlib.suppress(LockHeldError, LockLostError):
        mark_run_ended(folder, {"status": "failed", "failure": failure})
    return failure
