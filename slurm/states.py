"""What each run is doing: its folder first, then what Slurm says."""

import dataclasses
import math
from pathlib import Path

from harness.record.files import first_line
from harness.record.lease import Beat, Holder, read_beat, read_holder
from harness.record.reading import Reading, Record, read_run
from slurm.listings import Job

STATES = {
    "completed": "status, evaluations and returns are as they must be",
    "running": "a living process, or the process of a living job, holds the run",
    "queued": "Slurm has a job for it",
    "pending": "set up, but no job has it",
    "interrupted": "stopped from outside, and no job has it",
    "timeout": "stopped at the time limit, and no job has it",
    "failed": "ended with an error",
    "lost": "the folder says running, but its process or its job is gone",
    "broken": "a file is missing, truncated or not finite",
}
ALIVE = ("running", "queued")
OPEN = tuple(state for state in STATES if state not in (*ALIVE, "completed"))


@dataclasses.dataclass(frozen=True)
class RunState:
    """One run.

    Attributes:
        folder: Its folder.
        state: A key of `STATES`.
        study: Name of its study.
        framework: Name of its framework.
        algorithm: Name of its algorithm.
        env: Name of its task.
        hps: Name of its recipe.
        seed: Training seed; -1 where it is not known.
        step: Environment steps so far.
        steps: Environment steps that are due.
        rate: Steps per second of a run that is going on; None where it is not known.
        reason: Why it is not complete, in a line; empty where there is nothing to say.
        job: Slurm's job that has or had it last.
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

    @property
    def title(self) -> str:
        """Short name for people."""
        return f"{self.framework} {self.algorithm} {self.env} {self.hps} seed={self.seed}"


def assess(folder: Path, job: Job | None, asked: bool = False) -> RunState:
    """The state of one run.

    Args:
        folder: The run folder.
        job: What Slurm says of the job it was submitted with; None for nothing.
        asked: Whether Slurm answered, so that a job it does not name is over.
    """
    reading = read_run(folder)
    holder = None if reading.complete else read_holder(folder)
    state, reason = _judge(reading, holder, job, asked)
    place, record = reading.place, reading.record
    known = RunState(
        folder,
        state,
        place.study,
        place.framework,
        place.algorithm,
        place.env,
        place.hps,
        -1 if place.seed is None else place.seed,
        reason=reason,
        job=job.job_id if job else None,
    )
    if record is None:
        return known
    beat = read_beat(folder) if state == "running" or not record.steps.taken else None
    step = max(beat.step, 0) if beat else record.steps.taken
    known = dataclasses.replace(known, step=step, steps=record.steps.scheduled)
    if state != "running":
        return dataclasses.replace(known, job=known.job or record.job)
    # The job that has it is the holder's, and none where it is trained without one.
    own = holder.job or None if holder else None
    return dataclasses.replace(known, rate=_rate(record, beat), job=own)


def _judge(
    reading: Reading, holder: Holder | None, job: Job | None, asked: bool
) -> tuple[str, str]:
    if reading.complete:
        return "completed", ""
    record = reading.record
    if holder is not None and (doubt := _alive(holder, job, asked)) is not None:
        return "running", doubt
    if record is None or record.status == "completed":
        return "broken", reading.reason
    failure = first_line(record.failure) if record.failure else ""
    if record.status == "failed":
        return "failed", failure
    if job is not None and job.is_alive:
        return "queued", f"job {job.job_id} is {job.state}"
    end = f"Slurm says {job.state}" if job else ""
    if record.status == "running":
        if job is not None and job.state == "TIMEOUT":
            return "timeout", end
        last = f"it was {holder.describe()}" if holder else "no process holds it"
        return "lost", f"{last}; {end}" if end else last
    if record.status == "interrupted":
        return ("timeout" if record.stopped_by == "time limit" else "interrupted"), failure
    return "pending", end


def _alive(holder: Holder, job: Job | None, asked: bool) -> str | None:
    """None for a holder that is dead; else in words what is not certain, mostly nothing.

    Clocks of other machines tell nothing: there it is Slurm that knows.
    """
    if holder.is_local:
        return "" if holder.is_running() else None
    if not holder.job:
        return f"held by {holder.describe()}, which cannot be looked at from here"
    if job is not None and job.job_id == holder.job:
        return "" if job.is_alive else None
    if asked:
        return None
    return f"held by {holder.describe()}, about which Slurm was not asked"


def _rate(record: Record, beat: Beat | None) -> float | None:
    # Both times are of the clock of the machine that runs it.
    started = record.timings.started
    if beat is None or started is None or not 0 < beat.time - started < math.inf:
        return None
    return max(beat.step, 0) / (beat.time - started)
