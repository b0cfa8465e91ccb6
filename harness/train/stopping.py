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

WARNING = signal.SIGUSR2
"""Tells a batch system's job, and each process of it, that it will end soon."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, WARNING, SWEEP_ENDED)


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


GRACE = 20.0
"""Seconds for which a stop waits for a state that can be kept, outside a job."""


def patience(number: int) -> float:
    """Seconds for which the stop that a signal asks for waits for a state that can be kept."""
    job = BatchJob.current()
    if job is None or number == signal.SIGINT:
        return GRACE
    # As much again is left to write the state, and as much to queue the job again. A job that
    # is told to end has 30 s by Slurm's default.
    return job.notice / 3 if number == WARNING else GRACE / 2


class StopRequest:
    """A stop that waits, once it may, for the training to reach a place to go on from.

    A second signal but another warning, or the end of the patience, stops the training wherever
    it is.
    """

    def __init__(self) -> None:
        self._may_wait = False
        self._wanted: Stopped | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether somebody has asked the run to end."""
        return self._wanted is not None

    def may_wait(self) -> None:
        """From now on there will be such places."""
        self._may_wait = True

    def take_time(self) -> None:
        """There is one: what is done here may take longer."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def carry_out(self) -> None:
        """Ends the training here.

        Raises:
            Stopped: Always.
        """
        _ignore_signals()
        assert self._wanted is not None
        raise self._wanted

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Within, signals that would stop the process ask for it first."""
        mine = threading.current_thread() is threading.main_thread()
        heard = [number for number in SIGNALS if mine and signal.getsignal(number) is _stop]
        alarm = signal.getsignal(signal.SIGALRM)
        for number in heard:
            signal.signal(number, self._hear)
        try:
            yield
        finally:
            if heard:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, alarm)
            for number in heard:
                if signal.getsignal(number) == self._hear:
                    signal.signal(number, _stop)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._wanted is not None and number == WARNING:
            return  # Slurm warns every process of a job, and the job warns its run
        if self._wanted is not None or not self._may_wait:
            _stop(number, frame)
        self._wanted = Stopped(reason_of(number))
        signal.signal(signal.SIGALRM, lambda *_: self.carry_out())
        signal.setitimer(signal.ITIMER_REAL, patience(number))


def _ignore_signals() -> None:
    # Once only: a second signal must not cut off the writing of the status.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _stop(number: int, frame: FrameType | None) -> None:
    _ignore_signals()
    raise Stopped(reason_of(number))


def interruption(by: str) -> dict[str, Any]:
    """What `run.json` says of a run that was stopped from outside."""
    return {"status": "interrupted", "failure": REASONS[by], "stopped_by": by}
