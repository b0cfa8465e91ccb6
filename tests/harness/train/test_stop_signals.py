"""Signals that stop a run."""

import signal
import subprocess
import sys
import threading

import pytest

from parallax.harness.train import stop_signals
from parallax.harness.train.stop_signals import (
    EXIT_INTERRUPTED,
    JOB_WARNING_SIGNAL,
    STOP_SIGNALS,
    SWEEP_FAILED_SIGNAL,
    RunInterrupt,
    hold_stop_signals,
    ignore_stop_signals,
    stop_launcher_on_signals,
    stop_on_signals,
)


@pytest.fixture(autouse=True)
def restore_handlers():
    saved = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in saved.items():
        signal.signal(number, handler)


def test_an_interrupted_process_ends_as_after_ctrl_c():
    assert EXIT_INTERRUPTED + RunInterrupt("user").number == 130


def test_every_stop_signal_interrupts_the_training():
    assert len(set(STOP_SIGNALS)) == 5
    assert {JOB_WARNING_SIGNAL, SWEEP_FAILED_SIGNAL} <= set(STOP_SIGNALS)
    for number in STOP_SIGNALS:
        stop_on_signals()
        with pytest.raises(RunInterrupt) as stopped:
            signal.raise_signal(number)
        assert stopped.value.number == number
        for other in STOP_SIGNALS:  # ignored while the run ends
            signal.raise_signal(other)


def test_a_status_is_written_without_interruption():
    stop_on_signals()
    with ignore_stop_signals():
        for number in STOP_SIGNALS:
            signal.raise_signal(number)
    with pytest.raises(RunInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_another_thread_blocks_no_signals():
    seen = []

    def read_handler():
        with ignore_stop_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    stop_on_signals()
    thread = threading.Thread(target=read_handler)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)] and callable(seen[0])


_CHILD = """
import time
from parallax.harness.train.stop_signals import RunInterrupt, stop_on_signals
try:
    input()
    stop_on_signals()
    time.sleep(20)
except RunInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_signal_of_a_stopped_launcher_waits_until_its_run_can_stop(number):
    signal.signal(number, signal.SIG_IGN)  # as in a launcher that was stopped
    with hold_stop_signals():
        pipe = subprocess.PIPE
        child = subprocess.Popen([sys.executable, "-c", _CHILD], stdin=pipe, stdout=pipe, text=True)
    assert number not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    child.send_signal(number)  # before the child has its handlers
    assert child.communicate("\n", timeout=60)[0] == "stopped\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_launcher_stops_unless_a_signal_is_ignored(number):
    signal.signal(number, signal.SIG_DFL)
    stop_launcher_on_signals()
    with pytest.raises(RunInterrupt):
        signal.raise_signal(number)
    signal.signal(number, signal.SIG_IGN)
    stop_launcher_on_signals()
    signal.raise_signal(number)


class Poll:
    def __init__(self, answers):
        self.answers, self.waited, self.registered = list(answers), [], []

    def register(self, *arguments):
        self.registered.append(arguments)

    def poll(self, milliseconds):
        self.waited.append(milliseconds)
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("answers", "parents", "parent", "polls"),
    [
        ([[], [], [1]], [7, 7, 7], 7, 3),
        ([[], [], [1]], [7, 8, 8], 7, 2),  # the parent is another one at the second check
        ([[], [], [1]], [7, 8, 8], None, 3),
    ],
)
def test_run_stops_after_its_sweep_has_ended(monkeypatch, answers, parents, parent, polls):
    poll, killed, ids = Poll(answers), [], iter(parents)
    monkeypatch.setattr(stop_signals.select, "poll", lambda: poll)
    monkeypatch.setattr(stop_signals.os, "getppid", lambda: next(ids))
    monkeypatch.setattr(stop_signals.os, "getpid", lambda: 5)
    monkeypatch.setattr(stop_signals.os, "kill", lambda *arguments: killed.append(arguments))
    stop_signals._watch_parent(9, parent)
    assert poll.registered == [(9, stop_signals.select.POLLIN)]
    assert poll.waited == [2000] * polls and killed == [(5, SWEEP_FAILED_SIGNAL)]


def test_parent_watch_runs_in_a_daemon_thread(monkeypatch):
    seen = threading.Event()

    def watch(*arguments):  # it must not keep a process alive whose training has ended
        if arguments == (9, 5) and threading.current_thread().daemon:
            seen.set()

    monkeypatch.setattr(stop_signals, "_watch_parent", watch)
    stop_signals.stop_without_parent(9, 5)
    assert seen.wait(10)
