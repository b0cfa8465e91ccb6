"""What a Slurm job does: its runs, one after another, and what it answers to warnings."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from submitit.helpers import DelayedSubmission

from harness.contract.fields import SpecError
from harness.contract.run_spec import RunSpec, spec_from_dict
from harness.record.batch_job import BatchJob
from harness.record.checkpoints import Kept, last_kept
from harness.record.folder import past_attempts
from harness.record.lease import LeaseHeld, LeaseLost, read_holder
from harness.record.reading import read_run
from harness.sweep.allocator import allocator_variables
from harness.sweep.preloaded import Preloaded
from harness.sweep.process import RunProcess, mark
from harness.train.stopping import reason_of
from slurm.requeue import JobLimits, comes_back, is_hopeless, seconds_to_warning

_KILL_WAIT = 300.0  # seconds to wait for the end that a SIGTERM announces


__all__ = ["JobFailed", "JobLimits", "RunJob"]


class JobFailed(Exception):  # noqa: N818
    """Some runs of a job did not complete; makes Slurm say so, too."""


class RunJob:
    """Called by submitit on a node; pickled to get there and when the job is queued again."""

    def __init__(self, limits: JobLimits) -> None:
        self._limits = limits
        self._current = ""
        self._run_started = 0.0
        self._kept: Kept | None = None

    def __call__(self, folders: list[str]) -> None:
        """Runs what is not complete.

        Args:
            folders: Run folders, in order.

        Raises:
            JobFailed: Something did not complete.
        """
        _slurm_job(self._limits).announce()
        with Preloaded(_specs(folders)) as preloaded:
            failures = {folder: self._run(Path(folder), preloaded) for folder in folders}
        failed = [f"{folder}: {failure}" for folder, failure in failures.items() if failure]
        if failed:
            words = "; ".join(failed)
            raise JobFailed(f"{len(failed)} of {len(failures)} runs are not complete: {words}")

    def checkpoint(self, folders: list[str]) -> DelayedSubmission | None:
        """Called by submitit on a warning; returns what comes back, None for nothing.

        A run that has kept its state in a place further than it began from always comes back,
        and goes on there; any other starts anew, as often as the limits allow.
        """
        if self._current:
            self._stop(Path(self._current))
        left = [folder for folder in folders if _is_open(Path(folder))]
        if self._current in left and self._has_got_on(Path(self._current)):
            return DelayedSubmission(RunJob(self._limits), left)
        if reason_of(signal.SIGUSR2) == "preemption":
            job = BatchJob.current()
            if job is None or not comes_back(job.restart, self._limits):
                return None
        elif self._current in left and self._has_had_its_time(Path(self._current)):
            left.remove(self._current)
        return DelayedSubmission(RunJob(self._limits), left) if left else None

    def _run(self, folder: Path, preloaded: Preloaded) -> str | None:
        """Runs what is in a folder; returns why it is not complete after that, if so."""
        reading = read_run(folder)
        if not _is_open(folder):
            print(f"{folder}: {reading.reason or 'complete already'}", flush=True)
            return None
        try:
            spec = spec_from_dict(reading.spec)
        except SpecError as error:
            return _refuse(folder, f"what it asks for cannot be used: {error}")
        try:
            variables = allocator_variables("malloc", self._limits.malloc)
        except SpecError as error:
            return _refuse(folder, str(error))
        self._current, self._run_started = str(folder), time.time()
        self._kept = last_kept(folder)
        try:
            process = RunProcess(spec, folder, preloaded, variables)
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

    def _stop(self, folder: Path) -> None:
        """Waits until the run under way has said why it ends; Slurm has warned it, too."""
        deadline = time.monotonic() + self._limits.signal_seconds * 2 / 3
        holder = read_holder(folder)
        job = BatchJob.current()
        if holder is None or job is None or holder.job != job.id:
            return
        # Anybody who writes the folder can name a process there, and a group by its negative.
        if holder.pid <= 0 or not (holder.is_local and holder.is_running()):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(holder.pid, signal.SIGUSR2)
        # Not by waiting for the process: this runs inside a wait that was interrupted.
        while read_holder(folder) == holder and time.monotonic() < deadline:
            time.sleep(0.1)

    def _has_got_on(self, folder: Path) -> bool:
        """Whether the run under way has kept a state that is further than where it began."""
        kept, record = last_kept(folder), read_run(folder).record
        if kept is None or kept == self._kept or record is None:
            return False
        return kept.step > (record.resumed_from or 0)

    def _has_had_its_time(self, folder: Path) -> bool:
        stops = [attempt["stopped_by"] for attempt in past_attempts(read_run(folder))]
        return is_hopeless(time.time() - self._run_started, stops.count("time limit"), self._limits)


def _slurm_job(limits: JobLimits) -> BatchJob:
    """The job that starts now."""
    array, index = (os.environ.get(f"SLURM_ARRAY_{n}") for n in ("JOB_ID", "TASK_ID"))
    return BatchJob(
        id=f"{array}_{index}" if array else os.environ["SLURM_JOB_ID"],
        restart=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        limit_from=time.time() + seconds_to_warning(limits),
        notice=limits.signal_seconds,
    )


def _specs(folders: Iterable[str]) -> Iterator[RunSpec]:
    """What is to be run, as far as it can be read."""
    for folder in folders:
        if _is_open(Path(folder)):
            with contextlib.suppress(SpecError):
                yield spec_from_dict(read_run(Path(folder)).spec)


def _is_open(folder: Path) -> bool:
    """Whether a run has still to be run: those that failed by themselves would fail again."""
    reading = read_run(folder)
    return not reading.complete and reading.record is not None and reading.record.status != "failed"


def _refuse(folder: Path, failure: str) -> str:
    """Writes that a run failed before it began; the others of the job go on. Returns why."""
    print(f"{folder}: {failure}", flush=True)
    with contextlib.suppress(LeaseHeld, LeaseLost):
        mark(folder, {"status": "failed", "failure": failure})
    return failure
