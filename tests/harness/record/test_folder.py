"""The files of a run folder, written without a training."""

import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import recorded

from parallax.harness.record.folder import (
    HeartbeatWriter,
    RunFolder,
    collect_attempts,
    list_leftovers,
)
from parallax.harness.record.lock import (
    LOCK_FOLDER,
    MAX_HEARTBEAT_PERIOD,
    FolderDeletedError,
    LockLostError,
    RunLock,
    read_heartbeat,
)
from parallax.harness.record.reading import read_run
from parallax.harness.record.run_json import CHECKSUM_FIELD, compute_checksum


@pytest.fixture
def run(tmp_path: Path):
    (tmp_path / "run").mkdir()
    with RunLock.acquire(tmp_path / "run") as run_lock:
        yield RunFolder(run_lock, {})


def list_public(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(LOCK_FOLDER)}


@pytest.mark.parametrize(
    ("resumed_from", "earlier", "expected"),
    [
        (None, [], (None, 0)),
        (None, [3], (None, 0)),
        (0, [], (0, 1)),
        (0, [None], (0, 1)),
        (9, [None, 0, 3, None], (9, 3)),
    ],
)
def test_heartbeats_count_resumptions(run, resumed_from, earlier, expected):
    attempts = [{"resumed_from": step} for step in earlier]
    run.content |= {"resumed_from": resumed_from, "attempts": attempts}
    before = time.time()
    run.write_heartbeat(40, 2.5)
    beat = read_heartbeat(run.path)
    assert (beat.resumed_from, beat.resumptions) == expected
    assert (beat.step, beat.period) == (40, 2.5) and before <= beat.time <= time.time()
    run.remove_heartbeat()
    assert read_heartbeat(run.path) is None


@pytest.mark.parametrize(
    ("age", "period"), [(0, 1.0), (49, 1.0), (51, 1.02), (200, 4.0), (1e9, MAX_HEARTBEAT_PERIOD)]
)
def test_heartbeats_are_dense_at_first_and_sparse_in_long_runs(run, monkeypatch, age, period):
    begun = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: begun)
    writer = HeartbeatWriter(run, lambda: 7)
    monkeypatch.setattr(time, "monotonic", lambda: begun + age)
    writer._beat()
    beat = read_heartbeat(run.path)
    assert (beat.step, beat.period) == (7, pytest.approx(period))


def test_heartbeat_survives_a_full_disk_and_stops_with_a_deleted_folder(run, monkeypatch):
    errors = iter([OSError(28, "No space left"), FolderDeletedError(2, "deleted")])

    def fail(*_):
        raise next(errors)

    monkeypatch.setattr(run, "write_heartbeat", fail)
    writer = HeartbeatWriter(run, lambda: 7)
    writer._beat()
    with pytest.raises(FolderDeletedError):
        writer._beat()


def test_a_heartbeat_is_there_only_while_its_writer_is(run):
    with HeartbeatWriter(run, lambda: 7) as writer:
        assert read_heartbeat(run.path).step == 7 and writer._thread.daemon
    assert read_heartbeat(run.path) is None and not writer._thread.is_alive()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (LockLostError("somebody else runs it"), 75, "Ended: somebody else runs it."),
        (FolderDeletedError(2, "the run folder is gone"), 1, "Ended: the run folder is gone."),
    ],
)
def test_process_that_lost_its_run_ends_immediately(run, monkeypatch, capsys, error, code, words):
    ended = []

    def end(code):
        ended.append(code)
        raise SystemExit(code)

    def fail(*_):
        raise error

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(run, "write_heartbeat", fail)
    writer = HeartbeatWriter(run, lambda: 7)
    monkeypatch.setattr(writer, "_period", lambda: 0.0)
    flushed = []
    monkeypatch.setattr(sys.stdout, "flush", lambda: flushed.append(True))
    with pytest.raises(SystemExit):
        writer._beat_until_over()
    assert ended == [code] and flushed and capsys.readouterr() == ("", f"{words}\n")


def test_logs_of_earlier_attempts_are_numbered(run):
    for text in ("first", "second", "third"):
        (run.path / ".log-new").write_text(text)
        run.begin_log(".log-new")
    (run.path / "log.10.txt").write_text("from elsewhere")
    (run.path / "log.copy.txt").write_text("of a user")
    (run.path / ".log-new").write_text("last")
    run.begin_log(".log-new")
    names = ("log.txt", "log.1.txt", "log.2.txt", "log.11.txt", "log.10.txt", "log.copy.txt")
    assert {name: (run.path / name).read_text() for name in names} == dict(
        zip(names, ("last", "first", "second", "third", "from elsewhere", "of a user"), strict=True)
    )
    assert list_public(run.path) == set(names)


def test_damaged_files_are_moved_to_unused_names(run):
    guarded = ("run.json", "evaluations.npz", "trace.parquet", "policy.npz")
    for text in ("a", "b", "c"):
        for name in (*guarded, "log.txt"):
            (run.path / name).write_text(text)
        run.rename_damaged_files()
    for name in guarded:
        found = {path.name: path.read_text() for path in run.path.glob(f"{name}*")}
        assert found == {
            f"{name}.damaged{i}": text for i, text in zip(("", 1, 2), "abc", strict=True)
        }
    assert (run.path / "log.txt").read_text() == "c"


def add_results(run: RunFolder, steps: range) -> None:
    for step in steps:
        run.record(step, {"loss/value": step / 2})
        run.add_evaluation(step, np.array([step, -step]), np.array([step, 1]))


def read_results(run: RunFolder) -> tuple[dict[str, list], dict[str, list]]:
    run.finish_trace()
    with np.load(run.path / "evaluations.npz") as file:
        evaluations = {name: file[name].tolist() for name in file}
        types = {name: file[name].dtype for name in file}
    assert types == {"timesteps": np.int64, "results": np.float32, "ep_lengths": np.int32}
    trace = pyarrow.parquet.read_table(run.path / "trace.parquet").to_pydict()
    return evaluations, trace


def test_results_resume_from_a_state_without_differences(run, tmp_path):
    add_results(run, range(1, 3))
    state = run.state()
    add_results(run, range(3, 5))
    assert run.evaluations == 4
    (tmp_path / "other").mkdir()
    with RunLock.acquire(tmp_path / "other") as run_lock:
        other = RunFolder(run_lock, {})
        other.load_state(state)
        assert other.evaluations == 2
        assert (other.path / "evaluations.npz").exists()
        add_results(other, range(3, 5))
        found = read_results(other)
    assert found == read_results(run)
    assert found[0] == {
        "timesteps": [1, 2, 3, 4],
        "results": [[1, -1], [2, -2], [3, -3], [4, -4]],
        "ep_lengths": [[1, 1], [2, 1], [3, 1], [4, 1]],
    }


def test_state_is_a_copy(run):
    add_results(run, range(1, 2))
    state = run.state()
    run._returns[0][:] = 9
    run._lengths[0][:] = 9
    add_results(run, range(2, 3))
    assert (state["timesteps"], state["returns"][0].tolist()) == ([1], [1, -1])
    assert state["lengths"][0].tolist() == [1, 1]


def test_discarding_results_removes_their_files(run):
    add_results(run, range(1, 3))
    run.finish_trace()
    run.discard_results()
    assert run.evaluations == 0 and not (run.path / "evaluations.npz").exists()
    run.update_run(status="failed")
    assert run.content["files"] == run.content["sizes"] == {}
    add_results(run, range(5, 6))
    evaluations, trace = read_results(run)
    assert evaluations["timesteps"] == [5] and 1 not in trace["step"]


def test_run_json_has_file_sizes_hashes_and_a_checksum(run):
    add_results(run, range(1, 2))
    run.update_run(status="running", value=math.inf, tuple=(1, 2))
    run.update_run(status="completed")
    content = json.loads((run.path / "run.json").read_text())
    assert content == run.content
    assert (content["status"], content["value"], content["tuple"]) == ("completed", "inf", [1, 2])
    checksum = content.pop(CHECKSUM_FIELD)
    assert checksum == compute_checksum(content)
    assert content["sizes"] == {"evaluations.npz": (run.path / "evaluations.npz").stat().st_size}
    assert content["files"].keys() == content["sizes"].keys()


def test_files_of_the_running_process_are_removed(run):
    left = {".reserve", "progress.json", "checkpoint", ".log-a"}
    for name in (".log-a", "run.json", "log.txt", "diagnosis.json", "policy.npz"):
        (run.path / name).write_text("a")
    (run.path / "checkpoint").mkdir()
    run.reserve_space()
    assert (run.path / ".reserve").stat().st_size == 2**16
    run.write_heartbeat(1, 1.0)
    assert {name for name in list_leftovers(run.path) if not name.startswith(LOCK_FOLDER)} == left
    run.clear()
    assert list_public(run.path) == {"run.json", "log.txt", "diagnosis.json", "checkpoint"}
    run.tidy()
    assert list_public(run.path) == {"run.json", "log.txt", "diagnosis.json"}
    run.reserve_space()
    run.release_space()
    run.remove_diagnosis()
    assert list_public(run.path) == {"run.json", "log.txt"}
    assert list_leftovers(run.path / "none") == []


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_links_in_place_of_folders_of_loggers_are_removed(run, tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    (run.path / name).symlink_to(tmp_path / "elsewhere")
    run.clear()
    assert list_public(run.path) == set() and (tmp_path / "elsewhere").is_dir()
    (run.path / name).mkdir()
    run.clear()
    assert list_public(run.path) == {name}


def test_started_last_attempt_is_listed_with_earlier_ones(tmp_path):
    folder = recorded.complete_run(tmp_path)
    content = json.loads((folder / "run.json").read_text())
    assert content["attempts"] == []
    recorded.edit(folder, timings=content["timings"] | {"started": None})
    assert collect_attempts(read_run(folder)) == []
    recorded.edit(folder, status="running", timings=content["timings"], resumed_from=4)
    recorded.edit(folder, steps=content["steps"] | {"taken": 0}, host="a", job="7")
    recorded.edit(folder, stopped_by="time limit", failure="x")
    expected = {
        **{"status": "lost", "failure": "x", "steps": 0, "started": 1e9, "ended": 1e9 + 5},
        **{"host": "a", "job": "7", "stopped_by": "time limit", "resumed_from": 4},
    }
    assert collect_attempts(read_run(folder)) == [expected]
    with RunLock.acquire(folder) as run_lock:
        RunFolder(run_lock).write_heartbeat(12, 1.0)
        assert collect_attempts(read_run(folder)) == [expected | {"steps": 12}]
        recorded.edit(folder, attempts=[expected | {"status": "failed"}], status="interrupted")
        found = collect_attempts(read_run(folder))
    assert [attempt["status"] for attempt in found] == ["failed", "interrupted"]
