"""States of runs: from their folders first, then from Slurm."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from parallax.harness.contract.fields import RunsFailedError
from parallax.harness.record.checkpoints import find_last_checkpoint
from parallax.harness.record.completeness import RunReading
from parallax.harness.record.files import UnusableError, read_bounded, summarize_error
from parallax.harness.record.layout import SLURM_FOLDER, find_runs, find_study_folder
from parallax.harness.record.lock import Heartbeat, read_heartbeat, read_lock_owner
from parallax.harness.record.lock_owner import LockOwner
from parallax.harness.record.reading import read_run
from parallax.harness.record.run_json import RunRecord
from parallax.slurm.arrays import read_records
from parallax.slurm.queue import SlurmJob, SlurmQueue, query_slurm

RUN_STATES = {
    "completed": "status, evaluations and returns are as they must be",
    "running": "a living process, or a process of a living job, owns the run",
    "queued": "Slurm has a job for it",
    "pending": "set up, but no job has it",
    "interrupted": "stopped from outside, and no job has it",
    "timeout": "stopped at the time limit, and no job has it",
    "failed": "ended with an error",
    "lost": "the folder says running, but its process or its job is gone",
    "broken": "a file is missing, truncated or not finite",
}
ACTIVE_STATES = ("running", "queued")
RESUBMITTABLE_STATES = tuple(
    state for state in RUN_STATES if state not in (*ACTIVE_STATES, "completed")
)

_MAX_READS = 3  # of a folder whose lock changes meanwhile
_MAX_STEPS = 2**53
_MAX_SECONDS = 1e12  # seconds; no run takes so long


@dataclasses.dataclass(frozen=True)
class RunState:
    """State of one run.

    Attributes:
        state: A key of `RUN_STATES`.
        seed: Training seed; -1 where it is not known.
        rate: Steps per second of a running run; None if it is not known.
        reason: Why it is not complete, in a line; empty if there is nothing to say.
        job: Slurm's job that runs it, or ran it last.
        resumed_from: Step of the checkpoint that its last attempt resumed from; None if that
            began at step 0.
        resumptions: Number of attempts that resumed from a checkpoint.
        resume_step: Step of the checkpoint that the next attempt will resume from; None if it
            will begin at step 0, or the run is running or complete.
    """

    folder: Path
    state: str
    study: str = "?"
    framework: str = "?"
    algorithm: str = "?"
    env: str = "?"
    hps: str = "?"
    seed: int = -1
    step: int = 0
    steps: int = 0
    rate: float | None = None
    reason: str = ""
    job: str | None = None
    resumed_from: int | None = None
    resumptions: int = 0
    resume_step: int | None = None

    @property
    def title(self) -> str:
        """Readable short name."""
        return f"{self.framework} {self.algorithm} {self.env} {self.hps} seed={self.seed}"


def assess_run(folder: Path, queue: SlurmQueue | None = None) -> RunState:
    """Return the state of one run.

    Args:
        folder: The run folder.
        queue: Slurm's states of its jobs; None where Slurm was not queried.
    """
    queue = queue or SlurmQueue({}, ())
    job = queue.jobs.get(folder)
    reading, holder = _read_run_and_holder(folder)
    doubt = _check_holder(holder, folder, queue) if holder else None
    state, reason = _determine_state(reading, holder, job, doubt)
    place, record = reading.place, reading.record
    beat, step = None, 0
    job_id = job.job_id if job else None
    if record is not None:
        if state == "running" or not record.steps.taken:
            beat = read_heartbeat(folder)
        step = _get_step(beat) if beat else record.steps.taken
        job_id = job_id or record.job
        if state == "running":
            # The job is that of the lock's owner; there is none if it is trained outside of jobs.
            job_id = holder.job or None if holder else None
    checkpoint = None if state in ("running", "completed") else find_last_checkpoint(folder)
    if checkpoint is not None:
        reason = "; ".join(filter(None, [reason, f"will resume from step {checkpoint.step:,}"]))
    return RunState(
        folder,
        state,
        study=place.study,
        framework=place.framework,
        algorithm=place.algorithm,
        env=place.env,
        hps=place.hps,
        seed=-1 if place.seed is None else place.seed,
        step=step,
        steps=record.steps.scheduled if record else 0,
        rate=_compute_rate(record, beat) if record and state == "running" else None,
        reason=reason,
        job=job_id,
        resumed_from=record.resumed_from if record else None,
        resumptions=record.resumptions if record else 0,
        resume_step=checkpoint.step if checkpoint else None,
    )


def _read_run_and_holder(folder: Path) -> tuple[RunReading, LockOwner | None]:
    """Return the content of a run folder together with the lock owner at that time.

    Between two separate reads a run may begin or end.
    """
    reading = read_run(folder)
    if reading.complete:
        return reading, None
    holder = read_lock_owner(folder)
    for _ in range(_MAX_READS):
        before, reading = holder, read_run(folder)
        if reading.complete:
            return reading, None
        holder = read_lock_owner(folder)
        if holder == before:
            break
    return reading, before


def _determine_state(
    reading: RunReading, holder: LockOwner | None, job: SlurmJob | None, doubt: str | None
) -> tuple[str, str]:
    """Return state and reason; `doubt` is the result of `_check_holder`."""
    if reading.complete:
        return "completed", "imported" if reading.record and reading.record.imported else ""
    record = reading.record
    if doubt is not None:
        return "running", doubt
    if record is None or record.status == "completed":
        return "broken", reading.reason
    failure = summarize_error(record.failure) if record.failure else ""
    if record.status == "failed":
        return "failed", failure
    if job is not None and job.is_alive:
        return "queued", "; ".join(filter(None, [f"job {job.job_id} is {job.state}", failure]))
    end = f"Slurm says {job.state}" if job else ""
    if record.status == "running":
        if job is not None and job.state == "TIMEOUT":
            return "timeout", end
        last = f"it was {holder.describe()}" if holder else "no process holds it"
        return "lost", f"{last}; {end}" if end else last
    if record.status == "interrupted":
        return ("timeout" if record.stopped_by == "time limit" else "interrupted"), failure
    return "pending", end


def _check_holder(holder: LockOwner, folder: Path, queue: SlurmQueue) -> str | None:
    """Return None for a lock owner that is dead; else a remark on what is uncertain, or "".

    Clocks of other machines are not comparable: there Slurm decides. Its states of other jobs of
    the run say nothing about the lock owner either.
    """
    if holder.is_local:
        return "" if holder.is_running() else None
    if not holder.job:
        return f"locked by {holder.describe()}, which cannot be checked from here"
    if any(job.job_id == holder.job for job in queue.alive.get(folder, ())):
        return ""
    if holder.job in queue.over.get(folder, ()):
        return None
    if queue.answered:
        return f"locked by {holder.describe()}, about whose job Slurm says nothing"
    return f"locked by {holder.describe()}; Slurm was not queried"


def _compute_rate(record: RunRecord, beat: Heartbeat | None) -> float | None:
    # Both times are by the clock of the machine that runs it.
    started = record.timings.started
    if beat is None or started is None or not 0 < beat.time - started < _MAX_SECONDS:
        return None
    rate = max(_get_step(beat) - (beat.resumed_from or 0), 0) / (beat.time - started)
    return rate if math.isfinite(rate) else None


def _get_step(beat: Heartbeat) -> int:
    return min(max(beat.step, 0), _MAX_STEPS)


PREFLIGHT_FILE = "preflight.json"
PREFLIGHT_PASSED, PREFLIGHT_FAILED = "passed", "failed"
"""File with the outcome of a preflight job, and the words that its text begins with."""

_MAX_BYTES = 2**20


def survey_runs(
    root: Path, say: Callable[[str], object] = lambda text: None
) -> tuple[list[RunState], SlurmQueue]:
    """Return the states of all runs at or below a folder; query Slurm about those submitted."""
    found = find_runs(root)
    if found.links:
        say(found.describe_skipped_links())
    folders = found.runs
    queue = query_runs(folders)
    return [assess_run(folder, queue) for folder in folders], queue


def query_runs(folders: Iterable[Path]) -> SlurmQueue:
    """Query Slurm about the studies that run folders belong to."""
    studies = find_study_folders(folders)
    return query_slurm([record for study in studies for record in read_records(study)])


def check_slurm_answered(folders: Iterable[Path], queue: SlurmQueue) -> None:
    """Check that Slurm has said which runs are queued, if some may be.

    Raises:
        RunsFailedError: None of Slurm's commands answered.
    """
    if not queue.answered and any(read_records(study) for study in find_study_folders(folders)):
        raise RunsFailedError(
            "Slurm does not answer here (squeue, scontrol, sacct), so it is unknown which runs "
            "are queued. Try again later, or on the machine that submitted."
        )


def find_study_folders(folders: Iterable[Path]) -> list[Path]:
    """Return the folders of the studies that run folders belong to."""
    studies = {find_study_folder(folder) for folder in folders}
    return sorted(study for study in studies if study is not None)


class PreflightOutcome(msgspec.Struct, frozen=True):
    """Outcome of a preflight that was submitted as a job.

    Attributes:
        state: `queued`, `under way`, `passed` or `failed`.
    """

    state: str
    said: str


def read_last_preflight(study: Path) -> tuple[Path, PreflightOutcome] | None:
    """Return file and content of the outcome of a study's last preflight that was a job."""
    found = []
    for file in study.glob(f"{SLURM_FOLDER}/*/{PREFLIGHT_FILE}"):
        with contextlib.suppress(OSError, UnusableError, msgspec.MsgspecError, UnicodeDecodeError):
            content = msgspec.json.decode(read_bounded(file, _MAX_BYTES), type=PreflightOutcome)
            found.append((file.stat().st_mtime, file, content))
    return max(found, key=lambda item: item[:2])[1:] if found else None
