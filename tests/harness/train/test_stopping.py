"""A stop waits for a safe point, and the sender of the signal decides how long."""

import math
import os
import signal
import threading
import time

import pytest

from parallax.harness.record.lock_owner import BatchJob
from parallax.harness.train import stop_signals
from parallax.harness.train.checkpointing import compute_checkpoint_interval
from parallax.harness.train.run import _RunAttempt
from parallax.harness.train.stop_signals import (
    GRACE_SECONDS,
    STOP_REASONS,
    RunInterrupt,
    StopRequest,
    compute_grace_seconds,
    describe_interruption,
    get_stop_reason,
    stop_on_signals,
)

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture
def listening(monkeypatch):
    monkeypatch.delenv("PARALLAX_JOB", raising=False)
    before = {number: signal.getsignal(number) for number in HEARD}
    stop_on_signals()
    request = StopRequest()
    try:
        with request.defer_stop_signals():
            request.allow_waiting()
            yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_repeated_warnings_are_shown_once(listening):
    # Slurm warns every process of a job, and the job warns its run.
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGUSR2)
    assert listening.is_wanted


def test_second_stop_signal_ends_immediately(listening):
    os.kill(os.getpid(), signal.SIGUSR2)
    with pytest.raises(RunInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)


def test_training_without_a_safe_point_ends_after_the_grace_period(listening, monkeypatch):
    monkeypatch.setattr(stop_signals, "compute_grace_seconds", lambda number: 0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(RunInterrupt, match=get_stop_reason(signal.SIGTERM)):
        time.sleep(5)


def test_cancelled_deadline_interrupts_nothing(listening, monkeypatch):
    monkeypatch.setattr(stop_signals, "compute_grace_seconds", lambda number: 0.05)
    os.kill(os.getpid(), signal.SIGUSR2)
    listening.cancel_deadline()
    time.sleep(0.1)
    with pytest.raises(RunInterrupt):
        listening.carry_out()
    # Nothing cuts off what is written then, either.
    assert {signal.getsignal(number) for number in HEARD} == {signal.SIG_IGN}


def test_handlers_and_timer_are_restored_after_training(monkeypatch):
    monkeypatch.delenv("PARALLAX_JOB", raising=False)
    numbers = (*HEARD, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    stop_on_signals()
    try:
        outside = {number: signal.getsignal(number) for number in numbers}
        request = StopRequest()
        with request.defer_stop_signals():
            request.allow_waiting()
            os.kill(os.getpid(), signal.SIGTERM)
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
            assert {number: signal.getsignal(number) for number in numbers} != outside
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert {number: signal.getsignal(number) for number in numbers} == outside
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_grace_period_leaves_time_to_write_and_requeue(monkeypatch):
    monkeypatch.delenv("PARALLAX_JOB", raising=False)
    assert (
        compute_grace_seconds(signal.SIGTERM)
        == compute_grace_seconds(signal.SIGUSR2)
        == GRACE_SECONDS
    )
    for name in ("JOB", "RESTART", "LIMIT", "NOTICE"):
        monkeypatch.setenv(f"PARALLAX_{name}", "0")
    BatchJob("7", limit_from=0.0, notice=120).export_to_environment()
    assert (
        compute_grace_seconds(signal.SIGUSR2) == 40 and compute_grace_seconds(signal.SIGTERM) == 10
    )


@pytest.mark.parametrize(
    ("every", "job", "seconds"),
    [
        (0, None, math.inf),
        (0, BatchJob("7", limit_from=1400), math.inf),
        (20, None, 1200),
        (20, BatchJob("7"), 1200),
        (20, BatchJob("7", limit_from=1400), 100),
        (20, BatchJob("7", limit_from=1004), 10),
        (0.1, BatchJob("7", limit_from=1400), 6),
        (20, BatchJob("7", limit_from=900), 10),
    ],
)
def test_short_time_limit_shortens_the_interval(every, job, seconds):
    assert compute_checkpoint_interval(every, job, now=1000) == pytest.approx(seconds)


@pytest.mark.parametrize("leap", [-7 * 3600.0, 7 * 3600.0])
def test_clock_corrections_change_neither_reasons_nor_durations(monkeypatch, leap):
    """The clock of a node may be set by hours while a job is going on."""
    monkeypatch.setenv("PARALLAX_JOB", "7")
    for left, reason in ((100.0, "preemption"), (-1.0, "time limit")):
        BatchJob("7", limit_from=time.monotonic() + left).export_to_environment()
        attempt = _RunAttempt(None, None, None, {}, time.time())
        with monkeypatch.context() as changed:
            now = time.time() + leap
            changed.setattr(time, "time", lambda now=now: now)
            assert get_stop_reason(signal.SIGUSR2) == reason
            assert 0 <= attempt.seconds < 60


@pytest.mark.parametrize(
    ("number", "alone", "before_limit", "after_limit"),
    [
        (signal.SIGINT, "user", "user", "user"),
        (signal.SIGTERM, "user", "cancellation", "cancellation"),
        (signal.SIGHUP, "user", "preemption", "time limit"),
        (signal.SIGUSR2, "user", "preemption", "time limit"),
        (stop_signals.SWEEP_FAILED_SIGNAL, "sweep", "sweep", "sweep"),
    ],
)
def test_stop_reason_names_the_sender(monkeypatch, number, alone, before_limit, after_limit):
    for name in ("JOB", "RESTART", "LIMIT", "NOTICE"):
        monkeypatch.setenv(f"PARALLAX_{name}", "0")
    found = []
    for left in (100.0, -1.0):
        BatchJob("7", limit_from=time.monotonic() + left).export_to_environment()
        found.append(get_stop_reason(number))
    BatchJob("7", limit_from=1000.0).export_to_environment()
    monkeypatch.setattr(stop_signals.time, "monotonic", lambda: 1000.0)
    assert get_stop_reason(number) == after_limit  # at the limit itself
    monkeypatch.delenv("PARALLAX_JOB")
    assert (get_stop_reason(number), *found) == (alone, before_limit, after_limit)


@pytest.mark.parametrize("by", STOP_REASONS)
def test_a_stopped_run_records_who_stopped_it_and_why(by):
    error = RunInterrupt(by)
    assert (str(error), error.by) == (STOP_REASONS[by], by)
    stored = {"status": "interrupted", "failure": STOP_REASONS[by], "stopped_by": by}
    assert describe_interruption(by) == stored


@pytest.fixture
def handlers():
    numbers = (*HEARD, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield lambda: {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        signal.signal(number, handler)


def test_stop_before_the_first_safe_point_ends_immediately(monkeypatch, handlers):
    monkeypatch.delenv("PARALLAX_JOB", raising=False)
    stop_on_signals()
    request = StopRequest()
    with request.defer_stop_signals():
        assert not request.is_wanted
        with pytest.raises(RunInterrupt, match="interrupted by the user"):
            os.kill(os.getpid(), signal.SIGTERM)
        assert not request.is_wanted
        assert {handlers()[number] for number in HEARD} == {signal.SIG_IGN}
    assert {handlers()[number] for number in HEARD} == {signal.SIG_IGN}


def test_only_signals_that_would_stop_the_run_are_deferred(handlers):
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)
    before = handlers()
    with StopRequest().defer_stop_signals():
        assert handlers() == before
    assert handlers() == before
    stop_on_signals()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    before, request = handlers(), StopRequest()
    with request.defer_stop_signals():
        changed = {number for number, handler in handlers().items() if handler != before[number]}
        assert changed == {*HEARD} - {signal.SIGHUP}
    assert handlers() == before
    failures = []

    def defer_elsewhere():
        try:
            with request.defer_stop_signals():
                failures.append(handlers() != before)
        except ValueError as error:  # only the main thread may set a handler
            failures.append(error)

    thread = threading.Thread(target=defer_elsewhere)
    thread.start()
    thread.join()
    assert failures == [False]
