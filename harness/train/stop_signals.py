"""Reasons to stop a run from outside, and their signals."""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from parallax.harness.record.lock_owner import BatchJob

STOP_REASONS = {
    "user": "interrupted by the user",
    "cancellation": "stopped by the batch system: cancelled, preempted or the node is needed",
    "preemption": "stopped by the batch system: preempted",
    "time limit": "stopped at the job's time limit",
    "sweep": "stopped because the sweep that started it ended with an error or was killed",
}
EXIT_INTERRUPTED = 128
"""Exit code of a process that was stopped from outside, less the number of the signal."""

SWEEP_FAILED_SIGNAL = signal.SIGUSR1
"""Signals to a run that its sweep was ended by an error, not by the user."""

JOB_WARNING_SIGNAL = signal.SIGUSR2
"""Signals to a batch system's job, and each process of it, that it will end soon."""

STOP_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    JOB_WARNING_SIGNAL,
    SWEEP_FAILED_SIGNAL,
)


class RunInterrupt(KeyboardInterrupt):
    """Raised in the training, at any place, to stop it.

    Attributes:
        by: A key of `STOP_REASONS`.
        number: The signal.
    """

    def __init__(self, by: str, number: int = signal.SIGINT) -> None:
        super().__init__(STOP_REASONS[by])
        self.by, self.number = by, number


def stop_on_signals() -> None:
    """Let the main thread raise `RunInterrupt` on the signals of users and batch systems."""
    for number in STOP_SIGNALS:
        signal.signal(number, _raise_on_signal)
    # Those that came before, see `hold_stop_signals`, are delivered now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextlib.contextmanager
def hold_stop_signals() -> Iterator[None]:
    """Let processes that this thread starts receive stop signals only in `stop_on_signals`.

    A process inherits ignored signals, and a launcher ignores them once it has been stopped: a
    signal that it sends to a new process would be lost. A signal that is blocked waits, even if it
    is ignored.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_without_parent(lifeline: int, parent: int | None = None) -> None:
    """Stop this run once the process that started it is gone, however it ended.

    A killed sweep sends no signal to its runs, which would continue for hours although nobody
    waits for them. They are stopped as if the sweep had ended with an error, so that a resumable
    run saves its state first.

    Args:
        lifeline: The reading end of a pipe whose writing end only that process has.
        parent: Its process id if it is the parent of this one; it is checked as well, since a
            process that it has forked may have the writing end, too.
    """
    watch = threading.Thread(target=_watch_parent, args=(lifeline, parent), daemon=True)
    watch.start()


def _watch_parent(lifeline: int, parent: int | None) -> None:
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    while not poll.poll(1000 * _PARENT_SECONDS):
        if parent is not None and os.getppid() != parent:
            break
    os.kill(os.getpid(), SWEEP_FAILED_SIGNAL)


_PARENT_SECONDS = 2


def stop_launcher_on_signals() -> None:
    """Let a launcher and its runs end on SIGTERM and on a closed terminal as on Ctrl-C.

    Ignored signals stay ignored: `nohup` keeps a sweep alive.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _raise_on_signal)


@contextlib.contextmanager
def ignore_stop_signals() -> Iterator[None]:
    """Ignore the signals of users and batch systems while a final status is written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def get_stop_reason(number: int) -> str:
    """Return the key of `STOP_REASONS` for a signal."""
    if number == SWEEP_FAILED_SIGNAL:
        return "sweep"
    job = BatchJob.from_environment()
    if job is None or number == signal.SIGINT:
        return "user"
    if number == signal.SIGTERM:
        return "cancellation"
    # Slurm gives the same warning before the time limit and before a preemption.
    return "time limit" if time.monotonic() >= job.limit_from else "preemption"


GRACE_SECONDS = 20.0
"""Seconds for which a stop waits for the next safe point, outside a job."""


def compute_grace_seconds(number: int) -> float:
    """Return the seconds for which a stop by a signal waits for the next safe point."""
    job = BatchJob.from_environment()
    if job is None or number == signal.SIGINT:
        return GRACE_SECONDS
    # The same time is left to write the state, and the same to queue the job again. A job that
    # receives a signal to end has 30 s by Slurm's default.
    return job.notice / 3 if number == JOB_WARNING_SIGNAL else GRACE_SECONDS / 2


class StopRequest:
    """A stop that waits, once that is allowed, for the training to reach a safe point.

    A second signal other than another warning, or the end of the wait, stops the training wherever
    it is.
    """

    def __init__(self) -> None:
        self._may_wait = False
        self._wanted: RunInterrupt | None = None

    @property
    def is_wanted(self) -> bool:
        """Return whether the run has been requested to end."""
        return self._wanted is not None

    def allow_waiting(self) -> None:
        """Declare that safe points will follow."""
        self._may_wait = True

    def cancel_deadline(self) -> None:
        """Cancel the deadline at a safe point, where saving the state may take longer."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def carry_out(self) -> None:
        """End the training here.

        Raises:
            RunInterrupt: Always.
        """
        _ignore_signals()
        assert self._wanted is not None
        raise self._wanted

    @contextlib.contextmanager
    def defer_stop_signals(self) -> Iterator[None]:
        """Let signals that would stop the process request a stop first, within the context."""
        deferred: list[signal.Signals] = []
        if threading.current_thread() is threading.main_thread():
            deferred = [n for n in STOP_SIGNALS if signal.getsignal(n) is _raise_on_signal]
        alarm = signal.getsignal(signal.SIGALRM)
        for number in deferred:
            signal.signal(number, self._handle_signal)
        try:
            yield
        finally:
            if deferred:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, alarm)
            for number in deferred:
                if signal.getsignal(number) == self._handle_signal:
                    signal.signal(number, _raise_on_signal)

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if self._wanted is not None and number == JOB_WARNING_SIGNAL:
            return  # Slurm warns every process of a job, and the job warns its run
        if self._wanted is not None or not self._may_wait:
            _raise_on_signal(number, frame)
        self._wanted = RunInterrupt(get_stop_reason(number), number)
        signal.signal(signal.SIGALRM, lambda *_: self.carry_out())
        signal.setitimer(signal.ITIMER_REAL, compute_grace_seconds(number))


def _ignore_signals() -> None:
    # Once only: a second signal must not cut off the writing of the status.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _raise_on_signal(number: int, frame: FrameType | None) -> None:
    _ignore_signals()
    raise RunInterrupt(get_stop_reason(number), number)


def describe_interruption(by: str) -> dict[str, Any]:
    """Return the `run.json` entry of a run that was stopped from outside."""
    return {"status": "interrupted", "failure": STOP_REASONS[by], "stopped_by": by}
