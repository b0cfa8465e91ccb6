"""A stop waits for a place to go on from, and how long depends on who asks."""

import math
import os
import signal

import pytest

from harness.record.batch_job import BatchJob
from harness.train.checkpointing import seconds_between
from harness.train.stopping import GRACE, Stopped, StopRequest, patience, stop_on_signals

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture
def listening(monkeypatch):
    monkeypatch.delenv("PARALLAX_JOB", raising=False)
    before = {number: signal.getsignal(number) for number in HEARD}
    stop_on_signals()
    request = StopRequest()
    try:
        with request.listening():
            request.may_wait()
            yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_warnings_that_come_twice_are_one(listening):
    # Slurm warns every process of a job, and the job warns its run.
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGUSR2)
    assert listening.is_wanted


def test_second_order_to_end_is_obeyed_at_once(listening):
    os.kill(os.getpid(), signal.SIGUSR2)
    with pytest.raises(Stopped):
        os.kill(os.getpid(), signal.SIGTERM)


def test_patience_leaves_time_to_write_and_to_come_back(monkeypatch):
    monkeypatch.delenv("PARALLAX_JOB", raising=False)
    assert patience(signal.SIGTERM) == patience(signal.SIGUSR2) == GRACE
    for name in ("JOB", "RESTART", "LIMIT", "NOTICE"):
        monkeypatch.setenv(f"PARALLAX_{name}", "0")
    BatchJob("7", limit_from=0.0, notice=120).announce()
    assert patience(signal.SIGUSR2) == 40 and patience(signal.SIGTERM) == 10


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
def test_limit_shorter_than_the_interval_makes_it_shorter(every, job, seconds):
    assert seconds_between(every, job, now=1000) == pytest.approx(seconds)
