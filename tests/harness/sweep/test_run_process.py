"""The process of a run, as a sweep waits for it."""

import re
import shutil
import signal
import subprocess
import sys
import time
import types
from typing import ClassVar

import pytest
import recorded
import support

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.record.lock import (
    EXIT_COMPLETE,
    EXIT_LOCKED,
    EXIT_NO_SPACE,
    LockHeldError,
    LockLostError,
    RunLock,
)
from parallax.harness.record.reading import read_run
from parallax.harness.sweep import run_process
from parallax.harness.sweep.forked_process import EXIT_UNKNOWN
from parallax.harness.sweep.run_process import RunOutcome, RunProcess
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.prepare import prepare_run
from parallax.harness.train.stop_signals import STOP_SIGNALS, describe_interruption, get_stop_reason


def start(code):
    process = object.__new__(RunProcess)
    process._process = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE)
    return process


def test_wait_returns_whether_the_process_has_ended():
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
    0: "its process exited with 0, but the run is not complete: no evaluations",
    1: "the process ended with exit code 1: last",
    EXIT_UNKNOWN: "the process ended after the process that started it was killed",
    -signal.SIGKILL: "the process was killed by SIGKILL",
    -40: "the process was killed by signal 40",
}


@pytest.mark.parametrize("code", ENDS)
def test_silent_process_failed_with_the_reason_of_its_end(tmp_path, code):
    changes = make_ended(tmp_path, code)._make_end_status(code, make_reading())
    assert changes == {"status": "failed", "failure": ENDS[code]}
    gone = make_ended(tmp_path / "gone", code, None)._make_end_status(code, make_reading())
    assert gone["status"] == "failed" and "was deleted or moved" in gone["failure"]


@pytest.mark.parametrize(("code", "number"), [(-2, 2), (-15, 15), (130, 2), (138, 10)])
def test_a_process_that_was_stopped_is_interrupted(tmp_path, code, number):
    changes = make_ended(tmp_path, code)._make_end_status(code, make_reading())
    assert changes == describe_interruption(get_stop_reason(number))


@pytest.mark.parametrize(
    ("code", "free", "log", "words"),
    [
        (1, 2**18, None, "the process ended with exit code 1"),
        (1, None, "last", "the process ended with exit code 1: last"),
        (1, 2**18 - 1, "last", "has 255 KiB left. *Free some space.*; its last output was: last"),
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


def test_last_line_is_that_of_the_current_or_previous_log(tmp_path):
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


class Popen:
    """A process that is started in name only."""

    made: ClassVar[list] = []
    error = None

    def __init__(self, command, **options):
        if self.error:
            raise self.error
        self.given, self.calls = (command, options), []
        self.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.made.append(self)

    def send_signal(self, number):
        self.calls.append(number)

    def wait(self, timeout=None):
        self.calls.append("wait")
        return 0


@pytest.fixture
def popen(monkeypatch):
    monkeypatch.setattr(Popen, "made", [])
    monkeypatch.setattr(run_process.subprocess, "Popen", Popen)
    for name in ("add_project_to_path", "leave_out_folder"):
        monkeypatch.setattr(run_process, name, lambda given, name=name: given | {"BY": name})
    return Popen.made


@pytest.mark.parametrize("python", [None, "/other/python"])
@pytest.mark.parametrize("lifeline", [None, 9])
def test_a_run_is_started_in_its_own_session_with_its_log(
    tmp_path, monkeypatch, popen, python, lifeline
):
    monkeypatch.setattr(run_process, "_get_lifeline", lambda: lifeline)
    spec, folder = support.spec(threads=3, python=python), tmp_path / "run"
    folder.mkdir()
    process = RunProcess(spec, folder, variables={"A": "1", "OMP_NUM_THREADS": "9"})
    ((command, options),) = [one.given for one in popen]
    # Until the run can stop; a script that starts its interpreter would hold them for good.
    assert popen[0].blocked & set(STOP_SIGNALS) == (set() if python else set(STOP_SIGNALS))
    (log,) = folder.iterdir()
    files = [] if lifeline is None else [9]
    start = [python or sys.executable, "-m", "parallax.harness.worker", str(folder), log.name]
    assert command == [*start, *map(str, files)] and re.fullmatch(r"\.log-[0-9a-f]{8}", log.name)
    environment = options.pop("env")
    assert options.pop("stdout").name == str(log)
    assert options == {
        **{"pass_fds": files, "stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT},
        "start_new_session": True,
    }
    threads = dict.fromkeys(run_process.THREAD_VARIABLES, "3")
    by = "add_project_to_path" if python else "leave_out_folder"
    assert environment.items() >= {"A": "1", "BY": by, **threads}.items()
    process.stop()
    process.stop(9)
    assert popen[0].calls == [signal.SIGTERM, "wait", 9, "wait"]


def test_a_run_is_forked_where_a_server_can(tmp_path, monkeypatch, popen):
    monkeypatch.setattr(run_process, "_get_lifeline", lambda: 9)
    given, answers = [], ["forked", None]

    def start(spec, environment, arguments, log, lifeline):
        given.append((spec, environment["BY"], arguments[0], lifeline))
        return answers.pop(0)

    servers = types.SimpleNamespace(start=start)
    assert RunProcess(support.spec(), tmp_path, servers)._process == "forked" and not popen
    assert isinstance(RunProcess(support.spec(), tmp_path, servers)._process, Popen)
    assert given == [(support.spec(), "leave_out_folder", str(tmp_path), 9)] * 2


def test_a_run_that_cannot_be_started_leaves_no_log(tmp_path, monkeypatch, popen):
    monkeypatch.setattr(Popen, "error", OSError(24, "Too many open files"))
    with pytest.raises(OSError, match="Too many open files"):
        RunProcess(support.spec(), tmp_path)
    assert not list(tmp_path.glob(".log*"))


def test_process_has_one_parent_pipe_and_none_in_a_job(monkeypatch):
    monkeypatch.setattr(run_process, "_lifelines", {})
    batch = types.SimpleNamespace(from_environment=lambda: None)
    monkeypatch.setattr(run_process, "BatchJob", batch)
    ids = iter([5, 5, 5, 5, 5, 7, 7, 7])
    monkeypatch.setattr(run_process.os, "getpid", lambda: next(ids))
    pipes = iter([(11, 12), (13, 14)])
    monkeypatch.setattr(run_process.os, "pipe", lambda: next(pipes))
    assert [run_process._get_lifeline() for _ in range(3)] == [11, 11, 13]
    batch.from_environment = lambda: "job"
    assert run_process._get_lifeline() is None


CHANGES = {"status": "failed", "failure": "it broke"}


def test_the_end_of_a_run_is_recorded_with_its_log(tmp_path):
    prepared = prepare_run(support.spec(), load_adapter("sb3"))
    folder = prepared.spec.folder(tmp_path)
    initialize_run(prepared, folder)
    for name, content in ((".log-1", "last"), ("progress.json", "{}"), (".reserve", "x")):
        (folder / name).write_text(content)
    run_process.mark_run_ended(folder, CHANGES, ".log-1")
    record = read_run(folder).record
    assert (record.status, record.failure) == ("failed", "it broke")
    assert sorted(path.name for path in folder.iterdir()) == ["log.txt", "run.json"]
    assert (folder / "log.txt").read_text() == "last"
    for log in (None, ".log-2"):
        run_process.mark_run_ended(folder, {"status": "interrupted"}, log)
        assert (folder / "log.txt").read_text() == "last"
    assert read_run(folder).record.status == "interrupted"
    with RunLock.acquire(folder), pytest.raises(LockHeldError):
        run_process.mark_run_ended(folder, CHANGES)
    assert run_process.mark_run_ended(tmp_path / "gone", CHANGES) is None


def test_complete_or_changed_records_are_not_modified(tmp_path):
    folder = recorded.complete_run(tmp_path)
    before = (folder / "run.json").read_bytes()
    run_process.mark_run_ended(folder, CHANGES)
    assert (folder / "run.json").read_bytes() == before
    recorded.edit(folder, guarded=True, status="running")
    before = (folder / "run.json").read_bytes()
    run_process.mark_run_ended(folder, CHANGES)
    assert (folder / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("value", "errors", "others", "found"),
    [
        ("none", [], "", {}),
        ("tcmalloc", [""], "", {"LD_PRELOAD": "libtcmalloc_minimal.so.4"}),
        ("tcmalloc", ["no", ""], "/x.so", {"LD_PRELOAD": "libtcmalloc.so.4:/x.so"}),
        ("/own.so", [""], "", {"LD_PRELOAD": "/own.so"}),
        ("/own.so", ["no file"], "", "malloc=/own.so cannot be loaded on this machine (no file). "),
        ("tcmalloc", ["a", "b", "c"], "", "malloc=tcmalloc cannot be loaded on this machine (c)."),
        ("jemalloc", [], "", "malloc='jemalloc' is not an allocator: use none, tcmalloc or the "),
    ],
)
def test_an_allocator_is_the_first_library_that_can_be_loaded(
    monkeypatch, value, errors, others, found
):
    monkeypatch.setenv("LD_PRELOAD", others)
    answers = list(errors)
    monkeypatch.setattr(run_process, "_find_load_error", lambda variables: answers.pop(0))
    if isinstance(found, dict):
        assert run_process.get_allocator_variables("malloc", value) == found and not answers
        return
    with pytest.raises(SpecError) as error:
        run_process.get_allocator_variables("malloc", value)
    assert str(error.value).startswith(found)
    if value != "none" and "/" in value:
        monkeypatch.setattr(run_process.sys, "platform", "darwin")
        with pytest.raises(SpecError, match="allocators can be chosen on Linux only; use none"):
            run_process.get_allocator_variables("malloc", value)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("", "", ""),
        ("", "ERROR: ld.so: object 'x': ignored.\nmore", "ld.so: object 'x'"),
        ("ERROR: y: ignored.", "ERROR: y: ignored.", ""),
        ("ERROR: y: ignored.", "ERROR: y: ignored.\nERROR: x", "x"),
    ],
)
def test_only_loader_messages_about_the_library_count(monkeypatch, before, after, words):
    monkeypatch.setenv("LD_PRELOAD", "/old.so")
    said = {"/old.so": before, "/new.so": after}

    def run(command, env, timeout, **options):
        assert timeout == 30.0
        return types.SimpleNamespace(stderr=said[env["LD_PRELOAD"]].encode())

    monkeypatch.setattr(run_process.subprocess, "run", run)
    assert run_process._find_load_error({"LD_PRELOAD": "/new.so"}) == words
