"""Why a run is stopped from outside, and the signals that say so."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from harness.record.batch_job import BatchJob

REASONS = {
    "user": "interrupted by the user",
    "cancellation": "stopped by the batch system: cancelled, preempted or the node is wanted",
    "preemption": "stopped by the batch system: preempted",
    "time limit": "stopped at the job's time limit",
    "sweep": "stopped because the sweep that started it ended with an error",
}
EXIT_INTERRUPTED = 130
"""Exit code of a process that was stopped from outside."""

SWEEP_ENDED = signal.SIGUSR1
"""Tells a run that not the user but an error ended its sweep."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2, SWEEP_ENDED)


class Stopped(KeyboardInterrupt):
    """Raised wherever the training is when it is stopped.

    Attributes:
        by: A key of `REASONS`.
    """

    def __init__(self, by: str) -> None:
        super().__init__(REASONS[by])
        self.by = by


def stop_on_signals() -> None:
    """Lets the main thread raise `Stopped` on the signals of users and batch systems."""
    for number in SIGNALS:
        signal.signal(number, _stop)


def stop_launcher_on_signals() -> None:
    """Lets a launcher end on SIGTERM and on a closed terminal as on Ctrl-C, its runs with it.

    What is ignored stays so: `nohup` keeps a sweep alive.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignores the signals of users and batch systems, for as long as a last word takes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def reason_of(number: int) -> str:
    """The key of `REASONS` that a signal stands for."""
    if number == SWEEP_ENDED:
        return "sweep"
    job = BatchJob.current()
    if job is None or number == signal.SIGINT:
        return "user"
    if number == signal.SIGTERM:
        return "cancellation"
    # Slurm gives the same warning before the time limit and before a preemption.
    return "time limit" if time.time() >= job.limit_from else "preemption"


def _stop(number: int, frame: FrameType | None) -> None:
    # Once only: a second signal must not cut off the writing of the status.
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Stopped(reason_of(number))


def interruption(by: str) -> dict[str, Any]:
    """What `run.json` says of a run that was stopped from outside."""
    return {"status": "interrupted", "failure": REASONS[by], "stopped_by": by}
