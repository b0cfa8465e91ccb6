"""When a job asks Slurm to queue it again, and when it is no use."""

import dataclasses

from harness.sweep.allocator import NONE

_EARLY = 60.0  # seconds by which Slurm may warn before it said it would


@dataclasses.dataclass(frozen=True)
class JobLimits:
    """What a job may use, and how often it may come back.

    Attributes:
        run_minutes: Time limit of one run.
        job_minutes: Time limit of the job.
        signal_seconds: How long before its end the job is warned.
        timeout_restarts: How often a run that had its whole time and kept nothing of it is
            started again.
        preemption_restarts: How often a preempted job whose run kept nothing is queued again.
        malloc: The runs' memory allocator; see `allocator_variables`.
    """

    run_minutes: int
    job_minutes: int
    signal_seconds: int
    timeout_restarts: int
    preemption_restarts: int
    malloc: str = NONE


def comes_back(restarts: int, limits: JobLimits) -> bool:
    """Whether a job that is about to be preempted is queued again.

    Args:
        restarts: How often it was already.
        limits: How often it may be.
    """
    return restarts < limits.preemption_restarts


def is_hopeless(seconds: float, stops: int, limits: JobLimits) -> bool:
    """Whether a run has had its time so often that another start would end the same way.

    Args:
        seconds: How long it has been running.
        stops: How often it was stopped by its time limit, this time included.
        limits: How often it may be started again.
    """
    limit = limits.run_minutes * 60
    enough = min(0.8 * limit, _surely(limit - limits.signal_seconds))
    return seconds >= enough and stops > limits.timeout_restarts


def seconds_to_warning(limits: JobLimits) -> float:
    """How long after a job's start a warning can be about its time limit, and not preemption."""
    return _surely(limits.job_minutes * 60 - limits.signal_seconds)


def _surely(warning: float) -> float:
    """When a warning may come at the earliest."""
    return warning - min(_EARLY, warning / 2)
