"""The process that owns a lock: whether it exists, and whether it can be looked at."""

import math
import os
import subprocess
import sys

import pytest

from parallax.harness.record import lock_owner
from parallax.harness.record.lock_owner import BatchJob, LockOwner


def make_owner(**changes):
    values = {"token": "t", "host": "here", "machine": lock_owner._identify_machine()}
    return LockOwner(**(values | {"pid": os.getpid(), "born": "1"} | changes))


def test_current_process_owns_its_lock():
    owner = LockOwner.of_this_process("token")
    assert owner.token == "token" and owner.pid == os.getpid() and owner.time > 0
    assert owner.is_local and owner.is_running()
    assert owner.describe() == f"process {os.getpid()} on {owner.host}"
    assert not make_owner(born="another start").is_running()
    assert not make_owner(machine="another").is_local and not make_owner(machine="").is_local


@pytest.mark.parametrize("born", ["", "1"])
@pytest.mark.parametrize("pid", [0, -1, -os.getpid()], ids=["none", "all", "own"])
def test_process_group_is_not_an_owner(monkeypatch, pid, born):
    assert not make_owner(pid=pid, born=born).is_running()
    monkeypatch.setattr(lock_owner, "_read_start_time", lambda pid: None)
    monkeypatch.setattr(lock_owner.Path, "exists", lambda path: False)  # no /proc at all
    assert not make_owner(pid=pid, born=born).is_running()


def test_an_owner_without_a_name_is_described_without_one():
    assert LockOwner().describe() == "a process that left no readable name"
    assert make_owner(job="7").describe() == f"process {os.getpid()} on here in job 7"


@pytest.mark.parametrize(
    ("job", "restart", "other_job", "other_restart", "expected"),
    [
        ("7", 0, "7", 1, True),
        ("7", 1, "7", 1, False),
        ("7", 2, "7", 1, False),
        ("7", 0, "8", 1, False),
        ("", 0, "", 1, False),
    ],
)
def test_restarted_job_replaces_the_previous_one(job, restart, other_job, other_restart, expected):
    first = make_owner(job=job, restart=restart)
    other = make_owner(job=other_job, restart=other_restart)
    assert first.is_superseded_by(other) is expected


def test_a_process_that_has_ended_has_no_start_time():
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    assert lock_owner._read_start_time(process.pid).isdigit()
    assert lock_owner._read_start_time(process.pid) != lock_owner._read_start_time(1)
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert lock_owner._read_start_time(process.pid) is None  # a zombie
    process.wait()
    assert lock_owner._read_start_time(process.pid) is None


def test_start_time_is_the_22nd_field_for_all_names(monkeypatch):
    fields = b" ".join([b"S", *(b"%d" % number for number in range(4, 30))])
    monkeypatch.setattr(
        lock_owner.Path, "read_bytes", lambda path: b"5 (odd) name \xff)) " + fields
    )
    assert lock_owner._read_start_time(5) == "22"


def kill_with(error):
    def kill(pid, number):
        assert number == 0
        if error:
            raise error

    return kill


@pytest.mark.parametrize(
    ("error", "is_hidden", "is_signalable"),
    [
        (None, False, True),
        (PermissionError(), True, True),
        (ProcessLookupError(), False, False),
        (OverflowError(), False, False),
    ],
)
def test_signals_show_whether_a_process_exists(monkeypatch, error, is_hidden, is_signalable):
    monkeypatch.setattr(lock_owner.os, "access", lambda path, mode: False)
    monkeypatch.setattr(lock_owner.os, "kill", kill_with(error))
    assert lock_owner._is_hidden(5) is is_hidden
    assert lock_owner._is_signalable(5) is is_signalable
    assert lock_owner._is_hidden(0) is False and lock_owner._is_hidden(-5) is False
    assert lock_owner._is_signalable(0) is False and lock_owner._is_signalable(-1) is False
    monkeypatch.setattr(lock_owner.os, "access", lambda path, mode: True)
    assert lock_owner._is_hidden(5) is False


def test_signals_are_used_on_systems_without_proc(monkeypatch):
    monkeypatch.setattr(lock_owner, "_read_start_time", lambda pid: None)
    monkeypatch.setattr(lock_owner, "_is_signalable", lambda pid: True)
    assert not make_owner().is_running()
    monkeypatch.setattr(lock_owner.Path, "exists", lambda path: False)
    assert make_owner().is_running()


def test_machine_without_proc_is_identified_by_its_name(monkeypatch):
    assert len(lock_owner._identify_machine().split()) == 3

    def refuse(path):
        raise OSError

    monkeypatch.setattr(lock_owner.Path, "read_text", refuse)
    assert lock_owner._identify_machine() == f"{lock_owner.platform.node()} "


def test_a_job_reaches_the_processes_that_it_starts(monkeypatch):
    names = ("PARALLAX_JOB", "PARALLAX_RESTART", "PARALLAX_LIMIT", "PARALLAX_NOTICE")
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    assert BatchJob.from_environment() is None
    job = BatchJob("7_1", 2, 1000.5, 30.0)
    job.export_to_environment()
    assert BatchJob.from_environment() == job
    owner = LockOwner.of_this_process("t")
    assert (owner.job, owner.restart) == ("7_1", 2)
    for name in names[1:]:
        monkeypatch.delenv(name)
    assert BatchJob.from_environment() == BatchJob("7_1", 0, math.inf, 60.0)
