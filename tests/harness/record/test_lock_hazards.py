"""Locks among hosts, users, clocks, reused process ids, network file systems and power cuts."""

import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

from parallax.harness.record import lock, lock_owner
from parallax.harness.record.checkpoints import CheckpointStore
from parallax.harness.record.files import make_bytes_writer, make_json_writer, write_path_atomically
from parallax.harness.record.lock import LockHeldError, RunLock, read_lock_owner, watch_heartbeats
from parallax.harness.record.lock_owner import LockOwner

FIRST, SECOND, GROUP = 54321, 54322, 54400


def owner_file(folder):
    (found,) = folder.glob(".lease/*/owner.json")
    return found


def change_owner(folder, **changes):
    """Lets the lock in a folder be one of another process; it is never given back."""
    run_lock = RunLock.acquire(folder)
    file = owner_file(folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return run_lock


@pytest.fixture
def clock(monkeypatch):
    """Time that only passes while the watcher of heartbeats sleeps."""
    now = types.SimpleNamespace(seconds=0.0)

    def sleep(seconds):
        now.seconds += seconds

    fake = types.SimpleNamespace(monotonic=lambda: now.seconds, sleep=sleep)
    monkeypatch.setattr(lock, "time", fake)
    return now


# Process ids


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_reused_process_id_is_not_the_owner(sleeper, tmp_path):
    born = lock_owner._read_start_time(sleeper.pid)
    change_owner(tmp_path, pid=sleeper.pid, born=born)
    with pytest.raises(LockHeldError, match=f"process {sleeper.pid} on"):
        RunLock.acquire(tmp_path)
    file = owner_file(tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"born": str(int(born) - 1)}))
    began = time.monotonic()
    with RunLock.acquire(tmp_path):
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("pid", [0, -1, -4321, 2**22 + 1, 2**40])
def test_impossible_process_id_is_not_an_owner(pid, tmp_path):
    change_owner(tmp_path, pid=pid)
    with RunLock.acquire(tmp_path):
        assert json.loads(owner_file(tmp_path).read_text())["pid"] == os.getpid()


def test_hidden_process_is_watched_and_not_taken_for_dead(tmp_path, monkeypatch):
    access, kill = os.access, os.kill

    def refuse(pid, number):
        if pid == 4_000_000:
            raise PermissionError(1, "Operation not permitted")
        kill(pid, number)

    monkeypatch.setattr(os, "kill", refuse)
    hidden = LockOwner(machine=lock_owner._identify_machine(), pid=4_000_000, born="1")
    assert not hidden.is_local
    # Whatever can be looked at is not hidden, though it may not be signalled.
    monkeypatch.setattr(os, "access", lambda path, mode: "4000000" in path or access(path, mode))
    assert hidden.is_local


HIDDEN = """
import os, subprocess, sys
from parallax.harness.record.lock_owner import LockOwner, _identify_machine
command = ["mount", "-t", "proc", "-o", "hidepid=" + sys.argv[1], "proc", "/proc"]
if subprocess.run(command).returncode:
    sys.exit(5)
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
def tell(pid):
    owner = LockOwner(machine=_identify_machine(), pid=pid, born="1")
    return "watched" if not owner.is_local else "alive" if owner.is_running() else "dead"
print(tell(int(sys.argv[3])), tell(2**22 - 3), tell(os.getpid()))
"""


@pytest.mark.parametrize("hidepid", [1, 2])
def test_hidden_processes_are_not_taken_for_dead(hidepid):
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("only root can hide processes")
    command = ["unshare", "--mount", sys.executable, "-c", HIDDEN, hidepid, FIRST, os.getpid()]
    result = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if result.returncode == 5 or "unshare" in result.stderr:
        pytest.skip("this system does not permit mounting /proc")
    assert result.stdout.split() == ["watched", "dead", "dead"], result.stderr


# Hosts and starts of hosts


@pytest.mark.parametrize("part", [0, 1, 2], ids=["host", "boot_id", "namespace"])
def test_process_of_another_host_start_or_namespace_is_watched(part, clock, sleeper, tmp_path):
    """The same process id lives here, which says nothing: only heartbeats decide."""
    parts = lock_owner._identify_machine().split(" ")
    parts[part] = f"other-{part}"
    born = lock_owner._read_start_time(sleeper.pid)
    run_lock = change_owner(tmp_path, machine=" ".join(parts), pid=sleeper.pid, born=born)
    run_lock.write("progress.json", make_json_writer({"step": 1, "time": 0.0, "period": 1.0}))
    with RunLock.acquire(tmp_path):
        pass
    assert 63 <= clock.seconds < 70  # three periods and the slack of network file systems
    with pytest.raises(lock.LockLostError):
        run_lock.write("run.json", make_bytes_writer(b"{}"))


def test_owner_keeps_the_lock_although_the_boot_id_changes(tmp_path, monkeypatch):
    """As when a virtual machine is resumed, or a sandbox makes the number up."""
    with RunLock.acquire(tmp_path) as run_lock:
        monkeypatch.setattr(lock_owner, "_identify_machine", lambda: "here another-start pid:[1]")
        run_lock.write("run.json", make_bytes_writer(b"{}"))
        owner = read_lock_owner(tmp_path)
        assert not owner.is_local  # so that others watch its heartbeat
    assert read_lock_owner(tmp_path) is None


# Network file systems: what a reader sees may be up to a minute old.


def show_late(monkeypatch, clock, seconds):
    """Reads files as they were when they were last looked at, for so many seconds."""
    read, seen = lock.read_bounded, {}

    def read_stale(path, limit):
        if path not in seen or clock.seconds - seen[path][0] >= seconds:
            seen[path] = (clock.seconds, read(path, limit))
        return seen[path][1]

    monkeypatch.setattr(lock, "read_bounded", read_stale)


@pytest.mark.parametrize("period", [1.0, 5.0, 30.0])
@pytest.mark.parametrize("stale", [3.0, 30.0, 60.0])
@pytest.mark.parametrize("skew", [-7 * 3600.0, 0.0, 7 * 3600.0])
def test_live_remote_owner_keeps_the_lock_despite_delayed_heartbeats(
    period, stale, skew, clock, monkeypatch, tmp_path
):
    run_lock = change_owner(tmp_path, machine="elsewhere", time=skew)
    sleep, beats = lock.time.sleep, itertools.count()

    def beat_and_sleep(seconds):
        sleep(seconds)
        if clock.seconds // period > (clock.seconds - seconds) // period:
            beat = {"step": next(beats), "time": skew + clock.seconds, "period": period}
            run_lock.write("progress.json", make_json_writer(beat))

    lock.time.sleep = beat_and_sleep
    beat_and_sleep(period)
    show_late(monkeypatch, clock, stale)
    with pytest.raises(LockHeldError):
        RunLock.acquire(tmp_path)
    run_lock.write("result", make_bytes_writer(b"mine"))


@pytest.mark.parametrize("stale", [0.0, 60.0])
def test_silent_remote_owner_is_succeeded_despite_delays(stale, clock, monkeypatch, tmp_path):
    run_lock = change_owner(tmp_path, machine="elsewhere", time=9e11)
    run_lock.write("progress.json", make_json_writer({"step": 1, "time": 9e11, "period": 30.0}))
    show_late(monkeypatch, clock, stale)
    with RunLock.acquire(tmp_path) as new:
        new.write("result", make_bytes_writer(b"new"))
    assert 150 <= clock.seconds < 160


def test_removed_owner_still_listed_is_not_succeeded_twice(clock, monkeypatch, tmp_path):
    """Two hosts watch the same dead owner; the second one's list of the folder is old."""
    change_owner(tmp_path, machine="elsewhere")
    old = read_lock_owner(tmp_path)
    silent, _ = watch_heartbeats([tmp_path])
    with RunLock.acquire(tmp_path, silent) as first:
        monkeypatch.setattr(lock, "read_lock_owner", lambda folder: next(late))
        late = iter([old, None])
        with pytest.raises(LockHeldError, match="just started"):
            RunLock.acquire(tmp_path, silent)
        first.write("result", make_bytes_writer(b"mine"))


# Users


HOLD = """
import os, sys, time
from pathlib import Path
from parallax.harness.record.files import make_bytes_writer
from parallax.harness.record.lock import LockHeldError, RunLock
folder, word, seconds, user, group, umask = sys.argv[1:]
os.setgroups([]); os.setgid(int(group)); os.setuid(int(user)); os.umask(int(umask))
try:
    run_lock = RunLock.acquire(Path(folder))
    run_lock.write("run.json", make_bytes_writer(word.encode()))
    run_lock.make_folder("checkpoint")
    print("locked", flush=True)
    time.sleep(float(seconds))
except LockHeldError as error:
    print(error, flush=True)
except OSError as error:
    print(error.strerror, flush=True)
"""


class Users:
    """Folders and processes of two users who share a group."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def start(self, user, word, seconds, umask):
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                HOLD,
                *map(str, (self.folder, word, seconds, user, GROUP, umask)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def make(self, mode):
        self.folder.mkdir()
        os.chown(self.folder, FIRST, GROUP)
        self.folder.chmod(mode)


@pytest.fixture
def users():
    if os.geteuid():
        pytest.skip("only root can be two users")
    top = Path("/tmp", f"users-{os.getpid()}")  # pytest's own folders are closed to others
    top.mkdir()
    try:
        yield (made := Users(top / "run"))
    finally:
        for process in made.processes:
            process.kill()
            process.wait()
        shutil.rmtree(top)


def test_group_member_takes_the_lock_if_the_group_may_write(users):
    users.make(0o2775)
    first = users.start(FIRST, "first", 60, 0o002)
    assert first.stdout.readline() == "locked\n", first.stderr.read()
    second = users.start(SECOND, "second", 0, 0o002)
    assert f"process {first.pid} on" in second.communicate(timeout=30)[0]  # while it is alive
    first.kill()
    first.wait()
    second = users.start(SECOND, "second", 0, 0o002)
    assert second.communicate(timeout=30) == ("locked\n", "")
    file = users.folder / "run.json"
    assert file.read_text() == "second" and file.stat().st_uid == SECOND
    assert stat.S_IMODE(file.stat().st_mode) == 0o664


@pytest.mark.parametrize("mode", [0o755, 0o2775])
def test_user_without_write_permission_gets_an_error_and_changes_nothing(mode, users):
    """The folder is closed to the other one, or open with a lock that is closed."""
    users.make(mode)
    first = users.start(FIRST, "first", 60, 0o022)
    assert first.stdout.readline() == "locked\n", first.stderr.read()
    first.kill()
    first.wait()
    before = sorted(users.folder.rglob("*"))
    second = users.start(SECOND, "second", 0, 0o022)
    assert second.communicate(timeout=30) == ("Permission denied\n", "")
    assert sorted(users.folder.rglob("*")) == before
    third = users.start(FIRST, "again", 0, 0o022)  # the owner of the run resumes
    assert third.communicate(timeout=30) == ("locked\n", "")
    assert (users.folder / "run.json").read_text() == "again"


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_files_have_the_permissions_that_the_umask_leaves(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        with RunLock.acquire(tmp_path) as run_lock:
            run_lock.write("run.json", make_bytes_writer(b"{}"))
        write_path_atomically(tmp_path / "page", lambda path: path.write_text("page"))
    finally:
        os.umask(before)
    for name in ("run.json", "page"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


# Loss of power: what is renamed is on the disk before, and its name before anything follows.


@pytest.fixture
def calls(monkeypatch):
    """Syncs, renames and removals as they are made, by the inodes that they are about."""
    made = []

    def record(name):
        real = getattr(os, name)

        def call(first, *others, **options):
            file = os.fstat(first) if isinstance(first, int) else os.lstat(first)
            kind = "sync" if name == "fsync" else name
            target = os.fspath(others[0]) if others else os.fspath(first)
            made.append((kind, file.st_ino, stat.S_ISDIR(file.st_mode), str(target)))
            return real(first, *others, **options)

        monkeypatch.setattr(os, name, call)

    def sync(descriptor, real=os.fsync):
        file = os.fstat(descriptor)
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        made.append(("sync", file.st_ino, stat.S_ISDIR(file.st_mode), path))
        real(descriptor)

    for name in ("replace", "rename", "unlink"):
        record(name)
    monkeypatch.setattr(os, "fsync", sync)
    return made


def check_order(calls, folder):
    """Every file that gets its name in `folder` is synced before, and the name right after."""
    named = [
        (i, call)
        for i, call in enumerate(calls)
        if call[0] == "replace" and Path(call[3]).parent == folder
    ]
    assert named
    for i, (_, inode, is_folder, target) in named:
        assert not is_folder
        assert any(call[:2] == ("sync", inode) for call in calls[:i]), f"{target} is not synced"
        assert calls[i + 1][0] == "sync" and calls[i + 1][3] == str(folder), f"name of {target}"
    return [Path(call[3]).name for _, call in named]


def test_content_is_synced_before_its_name_and_later_files(tmp_path, calls):
    with RunLock.acquire(tmp_path) as run_lock:
        run_lock.write("evaluations.npz", make_bytes_writer(b"arrays"))
        run_lock.write("run.json", make_bytes_writer(b"completed"))
        assert check_order(calls, tmp_path) == ["evaluations.npz", "run.json"]
        write_path_atomically(tmp_path / "page", lambda path: path.write_text("page"))
    assert check_order(calls, tmp_path)[-1] == "page"


def test_checkpoint_is_synced_before_the_previous_one_is_removed(tmp_path, calls):
    with RunLock.acquire(tmp_path) as run_lock:
        store = CheckpointStore(run_lock)
        for number in range(4):
            store.save({"step": number}, {"weights": np.full(1000, float(number))})
        folder = tmp_path / "checkpoint"
        names = check_order(calls, folder)
        assert names == [f"{n}.{kind}" for n in (1, 2, 3, 4) for kind in ("pieces", "state")]
        paths = [(kind, path) for kind, _, _, path in calls]
        third = paths.index(("replace", str(folder / "3.state")))
        gone = next(
            i for i, (kind, path) in enumerate(paths) if path.endswith("/1.state") and i > 9
        )
        assert gone > third + 1
        made = paths.index(("rename", str(folder)))
        assert paths[made + 1] == ("sync", str(tmp_path))
