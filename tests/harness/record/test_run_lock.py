"""One writer per run folder, with real processes that live and die."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import msgspec
import pytest
import recorded

from parallax.harness.record import lock
from parallax.harness.record.files import make_json_writer
from parallax.harness.record.lock import (
    FolderDeletedError,
    LockHeldError,
    LockLostError,
    RunLock,
    read_lock_owner,
    watch_heartbeats,
)
from parallax.harness.record.lock_owner import LockOwner

# Owns the lock of the folder in its argument and writes again and again.
HOLDER = """
import sys, time
from pathlib import Path
from parallax.harness.record.lock import RunLock
from parallax.harness.record.folder import HeartbeatWriter, RunFolder

with RunLock.acquire(Path(sys.argv[1])) as run_lock:
    with HeartbeatWriter(RunFolder(run_lock), lambda: 7):
        print("locked", flush=True)
        {act}
"""
WRITE_ON = "while True: time.sleep(0.01)"
# Is in the middle of a write until the file `go` appears.
STALL = """
        def write(file):
            file.write(b'stale')
            print('writing', flush=True)
            while not (run_lock.folder / 'go').exists():
                time.sleep(0.01)
        run_lock.write('result', write)
"""


@pytest.fixture
def start(tmp_path):
    processes = []

    def start(act, **environment):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER.replace("{act}", act.strip()), str(tmp_path)],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout.readline() == "locked\n", process.stderr.read()
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def restarted(monkeypatch):
    """This process stands for the second start of job 7_0."""
    monkeypatch.setenv("PARALLAX_JOB", "7_0")
    monkeypatch.setenv("PARALLAX_RESTART", "1")


FIRST = {"PARALLAX_JOB": "7_0", "PARALLAX_RESTART": "0"}


def text(content):
    return lambda file: file.write(content)


def test_lock_of_a_live_process_is_respected(start, tmp_path):
    process = start(WRITE_ON)
    with pytest.raises(LockHeldError, match=f"process {process.pid} on "):
        RunLock.acquire(tmp_path)
    assert process.poll() is None


def test_lock_of_a_dead_process_is_taken_immediately(start, tmp_path):
    process = start(WRITE_ON)
    process.kill()  # not yet waited for: a zombie counts as dead
    time.sleep(0.2)
    began = time.monotonic()
    with RunLock.acquire(tmp_path) as run_lock:
        run_lock.write("result", text(b"new"))
    assert time.monotonic() - began < 2
    assert read_lock_owner(tmp_path) is None


def test_restarted_job_takes_the_lock_and_the_previous_process_exits(start, restarted, tmp_path):
    process = start(WRITE_ON, **FIRST)
    with RunLock.acquire(tmp_path) as run_lock:
        # It was given the time to notice, so that two never train at once.
        assert process.wait(timeout=1) == 75
        assert "taken this run over" in process.stderr.read()
        run_lock.write("result", text(b"new"))
    assert (tmp_path / "result").read_bytes() == b"new"


def test_lock_of_a_more_often_restarted_job_is_respected(start, restarted, tmp_path, monkeypatch):
    start(WRITE_ON, **FIRST | {"PARALLAX_RESTART": "2"})
    with pytest.raises(LockHeldError, match="job 7_0"):
        RunLock.acquire(tmp_path)


def test_write_of_a_former_lock_owner_is_discarded(start, restarted, tmp_path):
    process = start(STALL, **FIRST)
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGSTOP)  # as on a machine that hangs
    with RunLock.acquire(tmp_path) as run_lock:
        run_lock.write("result", text(b"new"))
        before = sorted(path.name for path in tmp_path.iterdir())
        process.send_signal(signal.SIGCONT)
        (tmp_path / "go").touch()
        assert process.wait(timeout=10) != 0
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "go"])
    assert (tmp_path / "result").read_bytes() == b"new"


def test_stale_lock_changes_no_file(restarted, tmp_path, monkeypatch):
    monkeypatch.setenv("PARALLAX_RESTART", "0")
    old = RunLock.acquire(tmp_path)
    monkeypatch.setenv("PARALLAX_RESTART", "1")
    monkeypatch.setattr("parallax.harness.record.lock._wait_for_end", lambda owner, folder: None)
    with RunLock.acquire(tmp_path) as new:
        new.write("result", text(b"new"))
        for stale in (
            lambda: old.write("result", text(b"old")),
            lambda: old.remove("result"),
            lambda: old.move("result", "elsewhere"),
        ):
            with pytest.raises(LockLostError):
                stale()
        with old:
            pass  # giving back what is no longer one's own
        new.write("other", text(b"still mine"))
    assert {path.name for path in tmp_path.iterdir()} - {"cwd"} == {"result", "other"}


@pytest.mark.parametrize("dead_holder", [False, True])
def test_only_one_of_many_concurrent_processes_gets_the_lock(dead_holder, start, tmp_path):
    if dead_holder:
        process = start(WRITE_ON)
        process.kill()
        process.wait()
    code = """
import sys, time
from pathlib import Path
from parallax.harness.record.lock import LockHeldError, RunLock
folder = Path(sys.argv[1])
print("ready", flush=True)
while not (folder / "go").exists():
    pass
try:
    with RunLock.acquire(folder):
        print("won", flush=True)
        time.sleep(2)
except LockHeldError:
    print("lost")
"""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 6
    (tmp_path / "go").touch()
    assert sorted(racer.communicate(timeout=30)[0] for racer in racers) == [
        *["lost\n"] * 5,
        "won\n",
    ]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A lock of another machine, which is watched for two seconds."""
    monkeypatch.setattr("parallax.harness.record.lock._SLACK", 2.0)
    run_lock = RunLock.acquire(tmp_path)
    (owner,) = tmp_path.glob(".lease/*/owner.json")
    owner.write_text(json.dumps(json.loads(owner.read_text()) | {"machine": "elsewhere"}))
    run_lock.write("progress.json", make_json_writer({"step": 1, "time": 0.0, "period": 0.1}))
    return run_lock


HOUR = 3600.0
CLOCKS = {"right": 0.0, "slow": -HOUR, "fast": HOUR, "far": 9e11}


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_lock_of_a_silent_owner_is_taken_despite_wrong_clocks(elsewhere, tmp_path, clock):
    beat = {"step": 1, "time": time.time() + clock, "period": 0.1}
    elsewhere.write("progress.json", make_json_writer(beat))
    with RunLock.acquire(tmp_path), pytest.raises(LockLostError):
        elsewhere.write("result", text(b"old"))


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_lock_of_a_live_owner_is_respected_despite_wrong_clocks(elsewhere, tmp_path, clock):
    over = threading.Event()

    def beat():
        for step in itertools.count():
            now = {"step": step, "time": clock, "period": 0.1}  # a clock that stands still
            elsewhere.write("progress.json", make_json_writer(now))
            if over.wait(0.1):
                return

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(LockHeldError):
            RunLock.acquire(tmp_path)
    finally:
        over.set()
        thread.join()
    elsewhere.write("result", text(b"mine"))


def test_owners_on_other_machines_are_watched_concurrently(tmp_path, monkeypatch):
    monkeypatch.setattr("parallax.harness.record.lock._SLACK", 1.0)
    folders = [tmp_path / str(number) for number in range(4)]
    for folder in folders:
        folder.mkdir()
        recorded.lock_run(folder, machine="elsewhere")
        (folder / "progress.json").write_text('{"step": 1, "time": 1.0, "period": 0.1}')
    said = []
    began = time.monotonic()
    silent, alive = watch_heartbeats(folders, said.append)
    assert time.monotonic() - began < 3
    assert (len(silent), alive) == (4, {}) and "4 run folders are locked" in said[0]
    for folder in folders:
        with RunLock.acquire(folder, silent):
            pass


def test_owners_on_other_machines_are_watched_for_three_periods_and_a_minute(tmp_path, monkeypatch):
    clock, said, waits = [100.0], [], []
    beats = {"quiet": None, "alive": 103.5, "near": 100.0, "unwanted": None}
    folders = [tmp_path / name for name in [*beats, "free"]]
    for folder in folders:
        folder.mkdir()
        machine = "elsewhere" if folder.name != "near" else LockOwner.of_this_process("").machine
        if folder.name != "free":
            recorded.lock_run(folder, machine=machine)
    (tmp_path / "quiet" / "progress.json").write_text('{"step": 1, "time": 1.0, "period": 4.0}')

    def sleep(seconds):
        waits.append(seconds)
        clock[0] += seconds

    def read_pulse(folder):
        return beats[folder.name] is not None and clock[0] >= beats[folder.name]

    monkeypatch.setattr(lock.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(lock.time, "sleep", sleep)
    monkeypatch.setattr(lock, "_read_pulse", read_pulse)
    owners = {folder.name: lock.read_lock_owner(folder) for folder in folders}
    assert lock.watch_heartbeats(folders[2:3]) == (set(), {}) and waits == []
    is_wanted = lambda folder: folder.name != "unwanted"  # noqa: E731
    found = lock.watch_heartbeats(folders, said.append, is_wanted)
    assert found == ({owners["quiet"].token}, {tmp_path / "alive": owners["alive"]})
    assert said == [
        f"2 run folders are locked from other machines, such as by {owners['quiet'].describe()}: "
        "watching their heartbeats for up to 150 s."
    ]
    assert waits == [0.5] * 300  # until the longest patience, that of a run without a heartbeat
    waits.clear()
    beats["quiet"] = clock[0] + 0.7
    beats["alive"] = clock[0] + 1.2
    silent, alive = lock.watch_heartbeats(folders, is_wanted=is_wanted)
    assert (silent, set(alive)) == (set(), {tmp_path / "quiet", tmp_path / "alive"})
    assert waits == [0.5] * 3


def test_superseded_owner_has_one_and_a_half_periods_to_exit(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(lock.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(
        lock.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds)
    )
    (tmp_path / "progress.json").write_text('{"step": 1, "time": 1.0, "period": 4.0}')
    lock._wait_for_end(LockOwner(machine="elsewhere"), tmp_path)
    assert clock[0] == pytest.approx(108, abs=0.25)
    here = LockOwner.of_this_process("")
    lock._wait_for_end(here, tmp_path)
    assert clock[0] == pytest.approx(116, abs=0.25)
    before = clock[0]
    lock._wait_for_end(msgspec.structs.replace(here, born="another"), tmp_path)
    assert clock[0] == before


@pytest.mark.parametrize("name", ["tensorboard", "checkpoint"])
def test_link_or_file_in_place_of_a_folder_is_replaced(tmp_path, name):
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    with RunLock.acquire(folder) as run_lock:
        (folder / name).symlink_to(elsewhere)
        run_lock.make_folder(name)
        run_lock.open_append(f"{name}/events", b"1").close()
        assert list(elsewhere.iterdir()) == [] and (folder / name / "events").is_file()
        run_lock.make_folder(name)
        assert (folder / name / "events").is_file()
        run_lock.remove(name)
        (folder / name).write_text("")
        run_lock.make_folder(name)
        assert (folder / name).is_dir()


def test_files_and_folders_are_moved_and_removed_through_the_lock(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with RunLock.acquire(folder) as run_lock:
        for name in ("gone", "a/b"):
            run_lock.remove(name)
            run_lock.move(name, "new")
        run_lock.write("a", text(b"1"))
        run_lock.move("a", "b")
        assert (folder / "b").read_bytes() == b"1" and not (folder / "a").exists()
        (folder / "link").symlink_to("nowhere")
        run_lock.move("link", "other")
        assert (folder / "other").is_symlink()
        run_lock.remove("other")
        run_lock.remove("b")
        (folder / "folder" / "inner").mkdir(parents=True)
        run_lock.remove("folder")
        assert [path.name for path in folder.iterdir()] == [lock.LOCK_FOLDER]
        assert [path.name for path in run_lock.staging.iterdir()] == ["owner.json"]
    assert list(folder.iterdir()) == []


def test_deleted_folder_is_distinguished_from_a_lost_lock(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    run_lock = RunLock.acquire(folder)
    shutil.rmtree(folder)
    with pytest.raises(FolderDeletedError):
        run_lock.write("result", text(b"new"))


def test_disk_error_is_distinguished_from_a_lost_lock(tmp_path):
    def fill(file):
        raise OSError(28, "No space left on device")

    with RunLock.acquire(tmp_path) as run_lock:
        with pytest.raises(OSError, match="No space left"):
            run_lock.write("result", fill)
        run_lock.write("result", text(b"new"))
