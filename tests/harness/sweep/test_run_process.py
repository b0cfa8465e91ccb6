"""The process of a run, as a sweep waits for it."""

import re
import shutil
import signal
import subprocess
import sys
import time
import types

import pytest

from parallax.harness.record.lock import (
    EXIT_COMPLETE,
    EXIT_LOCKED,
    EXIT_NO_SPACE,
    LockHeldError,
    LockLostError,
)
from parallax.harness.sweep import run_process
from parallax.harness.sweep.forked_process import EXIT_UNKNOWN
from parallax.harness.sweep.run_process import RunOutcome, RunProcess
from parallax.harness.train.stop_signals import describe_interruption, get_stop_reason


def start(code):
    process = object.__new__(RunProcess)
    process._process = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE)
    return process


def test_waiting_says_whether_the_process_has_ended():
    process = start("input()")
    began = time.monotonic()
    assert process.wait(0.05) is False
    assert time.monotonic() - began >= 0.05
    process._process.communicate(b"\n")
    assert process.wait(30) is True


def make_ended(folder, code, log="first\nlast\n"):
    process = object.__new__(RunProcess)
    process._spec, process._folder, process._log = "spec", folder, folder / "log-1"
    process._process = types.SimpleNamespace(wait=lambda: code)
    if log is not None:
        process._log.write_text(log)
    return process


def make_reading(status=None, complete=False):
    record = status and types.SimpleNamespace(status=status, failure="why")
    return types.SimpleNamespace(complete=complete, record=record, reason="no evaluations")


ENDS = {
    0: "its process ended well, but the run is not complete: no evaluations",
    1: "the process ended with exit code 1: last",
    EXIT_UNKNOWN: "the process ended, and the one that had started it was killed before",
    -signal.SIGKILL: "the process was killed by SIGKILL",
    -40: "the process was killed by signal 40",
}


@pytest.mark.parametrize("code", ENDS)
def test_a_process_that_says_nothing_failed_with_what_is_known_of_its_end(tmp_path, code):
    changes = make_ended(tmp_path, code)._make_end_status(code, make_reading())
    assert changes == {"status": "failed", "failure": ENDS[code]}
    gone = make_ended(tmp_path / "gone", code, None)._make_end_status(code, make_reading())
    assert gone["status"] == "failed" and "was deleted or moved" in gone["failure"]


@pytest.mark.parametrize(("code", "number"), [(-2, 2), (-15, 15), (130, 15)])
def test_a_process_that_was_stopped_is_interrupted(tmp_path, code, number):
    changes = make_ended(tmp_path, code)._make_end_status(code, make_reading())
    assert changes == describe_interruption(get_stop_reason(number))


@pytest.mark.parametrize(
    ("code", "free", "log", "words"),
    [
        (1, 2**18, None, "the process ended with exit code 1"),
        (1, None, "last", "the process ended with exit code 1: last"),
        (1, 2**18 - 1, "last", "has 255 KiB left. *Make room.*; its last words were: last"),
        (EXIT_NO_SPACE, 2**30, None, r"has 1,048,576 KiB left\..* again$"),
        (EXIT_NO_SPACE, None, None, "has 0 KiB left"),
        (1, 0, "No space left: x", "the process ended with exit code 1: No space left: x"),
    ],
)
def test_a_full_disk_is_named_where_the_run_could_not(
    tmp_path, monkeypatch, code, free, log, words
):
    def measure(folder):
        if free is None:
            raise OSError
        return types.SimpleNamespace(free=free)

    monkeypatch.setattr(shutil, "disk_usage", measure)
    failure = make_ended(tmp_path, code, log)._describe_exit(code)
    assert re.search(words, failure)


def test_the_last_line_is_that_of_the_log_or_of_the_one_before(tmp_path):
    process = make_ended(tmp_path, 1, "a" * 5000)
    assert process._read_last_log_line() == "a" * 4096
    process._log.write_text(" \n")
    assert process._read_last_log_line() == ""
    process._remove_log()
    assert process._read_last_log_line() == ""
    (tmp_path / "log.txt").write_text("one\ntwo\n")
    assert process._read_last_log_line() == "two"


@pytest.mark.parametrize(
    ("code", "log", "reading", "status", "failure", "has_log"),
    [
        (EXIT_LOCKED, "last", make_reading(), "running", "last", False),
        (EXIT_LOCKED, None, make_reading(), "running", "another process runs it", False),
        (EXIT_COMPLETE, "last", make_reading(complete=True), "skipped", None, False),
        (0, "last", make_reading(complete=True), "completed", None, False),
        (1, None, make_reading("failed"), "failed", "why", False),
        (1, None, make_reading("interrupted"), "interrupted", "why", False),
        (1, None, make_reading("pending"), "failed", "the process ended with exit code 1", False),
        (1, "last", make_reading("failed"), "failed", ENDS[1], True),
    ],
)
def test_the_outcome_is_that_of_the_record_or_else_of_the_process(
    tmp_path, monkeypatch, code, log, reading, status, failure, has_log
):
    process, marked = make_ended(tmp_path, code, log), []
    monkeypatch.setattr(run_process, "read_run", lambda folder: reading)
    monkeypatch.setattr(run_process, "mark_run_ended", lambda *known: marked.append(known))
    assert process.outcome() == RunOutcome("spec", tmp_path, status, failure)
    assert process._log.exists() == has_log
    is_marked = bool(failure) and failure.startswith("the process")
    changes = {"status": status, "failure": failure}
    assert marked == ([(tmp_path, changes, "log-1")] if is_marked else [])


@pytest.mark.parametrize("error", [LockHeldError, LockLostError])
def test_a_run_that_another_process_took_over_is_running(tmp_path, monkeypatch, error):
    def refuse(*known):
        raise error("process 7 runs it")

    monkeypatch.setattr(run_process, "mark_run_ended", refuse)
    found = make_ended(tmp_path, 1).outcome()
    assert (found.status, "process 7" in found.failure) == ("running", True)
