"""Order in which files reach the disk, files that grow, and limits of what is read."""

import dataclasses
import errno
import io
import json
import os
import types
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet
import pytest

from parallax.harness.imports import run_import
from parallax.harness.imports.run_import import find_imported_folder, write_imported_run
from parallax.harness.imports.run_names import hash_evaluations
from parallax.harness.record import files, layout, lock, packed, provenance, reading, trace
from parallax.harness.record.completeness import (
    CHECKSUM_MISMATCH,
    DivergedError,
    NewerSchemaError,
    RunReading,
    UnreadableError,
    check_complete,
    describe_nonfinite,
    judge_run,
    why_unfinished,
)
from parallax.harness.record.files import UnusableError
from parallax.harness.record.folder import CheckpointExtras
from parallax.harness.record.layout import FoundRunFolders, RunPath
from parallax.harness.record.lock_owner import LockOwner
from parallax.harness.record.npz_files import RunEvaluations
from parallax.harness.record.run_json import CHECKSUM_FIELD, ImportSource, compute_checksum


@pytest.fixture
def synced(monkeypatch):
    """Names of the files and folders whose content was brought to the disk, in order."""
    found, fsync = [], os.fsync

    def sync(descriptor):
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(files.os, "fsync", sync)
    return found


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def test_file_is_synced_before_its_name(folder, synced):
    files.write_text(folder / "a.json", "a")
    assert [name.startswith(".a.json.") for name in synced] == [True, False]
    assert synced[1] == folder.name
    synced.clear()
    files.write_path_atomically(folder / "b.npz", lambda path: path.write_text("b"))
    assert [name.startswith(".b.") and name.endswith(".npz") for name in synced] == [True, False]
    assert synced[1] == folder.name
    assert sorted(file.name for file in folder.iterdir()) == ["a.json", "b.npz"]


def test_file_systems_without_folder_sync_are_supported(tmp_path, monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr(files.os, "fsync", refuse)
    before = len(list(Path("/proc/self/fd").iterdir()))
    files.sync_folder(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_write_that_fails_leaves_no_temporary_file(folder):
    def fail(file):
        file.write(b"half")
        raise ValueError("no")

    path = folder / "a"
    for write in (
        lambda: files.write_atomically(path, fail),
        lambda: files.write_path_atomically(path, lambda temporary: fail(temporary.open("wb"))),
    ):
        with pytest.raises(ValueError, match="no"):
            write()
        assert list(folder.iterdir()) == []

    def vanish(file):
        for entry in folder.iterdir():
            entry.unlink()
        raise ValueError("the disk was cleaned")

    with pytest.raises(ValueError, match="the disk was cleaned"):
        files.write_atomically(path, vanish)


@pytest.mark.parametrize("size", [0, 5, 6])
def test_file_of_the_maximum_size_is_read_and_a_larger_one_refused(tmp_path, size):
    path = tmp_path / "a"
    path.write_bytes(b"x" * size)
    if size > 5:
        with pytest.raises(UnusableError, match="is too large: 6 bytes where 5 are allowed"):
            files.read_bounded(path, 5)
    else:
        assert files.read_bounded(path, 5) == b"x" * size


def test_links_and_folders_are_not_opened(tmp_path):
    (tmp_path / "link").symlink_to("there")
    with pytest.raises(UnusableError, match="is a link, which is not followed"):
        files.read_bounded(tmp_path / "link", 5)
    with pytest.raises(UnusableError, match="is not a regular file"):
        files.read_bounded(tmp_path, 5)


def test_an_error_is_summarized_by_its_most_informative_line():
    assert files.summarize_error("first\nsecond") == "first"
    assert files.summarize_error("Traceback (most recent)\n  line\nValueError: no\n") == (
        "ValueError: no"
    )
    assert files.summarize_error(ValueError()) == "ValueError"
    assert files.summarize_error(" \n") == "no reason recorded"
    assert files.summarize_error("a\x1b" + "b" * 300) == "a" + "b" * 199


class Lock:
    """The lock of a folder, in which files may be made."""

    def __init__(self, folder):
        self.folder, self.made = folder, []

    def make_folder(self, name):
        self.made.append(name)
        (self.folder / name).mkdir(exist_ok=True)

    def open_append(self, name, begin):
        (self.folder / name).write_bytes(begin)
        return (self.folder / name).open("ab")


def test_a_file_that_grows_is_seen_by_readers_after_five_seconds(tmp_path, monkeypatch):
    now = types.SimpleNamespace(value=100.0)
    monkeypatch.setattr(trace.time, "monotonic", lambda: now.value)
    file = trace.AppendFile(Lock(tmp_path), "log/a", resumes=False)
    seen = (tmp_path / "log" / "a").read_bytes
    file.write(b"1")
    now.value += 4.9
    file.write(b"2")
    assert seen() == b""
    now.value += 0.1
    file.write(b"3")
    assert seen() == b"123"
    now.value += 4.9
    file.write(b"4")
    assert seen() == b"123"
    assert file.state() == 4 and seen() == b"1234"
    now.value += 4.9
    file.write(b"5")
    assert seen() == b"1234"
    file.close()
    assert seen() == b"12345" and list_open_files(tmp_path) == []


def test_resumed_file_continues_at_its_checkpoint(tmp_path):
    path = tmp_path / "log" / "a"
    path.parent.mkdir()
    path.write_bytes(b"12345")
    file = trace.AppendFile(Lock(tmp_path), "log/a", resumes=True)
    file.write(b"waiting")
    assert file.state() == 0
    file.load_state(3)
    file.write(b"!")
    file.load_state(2)
    file.write(b"3!")
    assert len(list_open_files(tmp_path)) == 1  # the one before is closed
    file.close()
    assert path.read_bytes() == b"123!" and list_open_files(tmp_path) == []
    other = trace.AppendFile(Lock(tmp_path), "log/a", resumes=True)
    other.write(b"?")
    other.close()  # it failed before its checkpoint was loaded
    assert path.read_bytes() == b"123!?"
    with path.open("r+b") as sparse:
        sparse.truncate(2**33)
    for size in (None, 2**32, 2**62):
        with pytest.raises(UnusableError, match=r"^a is too large to be continued: "):
            trace._read_beginning(path, size)
    assert trace._read_beginning(path, 5) == b"123!?"
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert trace._read_beginning(path, None) == b""
    assert trace._read_beginning(None, 3) == b""


def test_checkpoints_have_the_state_of_each_part_that_they_know():
    class Part:
        def __init__(self, state):
            self.value = state

        def state(self):
            return self.value

        def load_state(self, state):
            self.value = state

    extras, first, second = CheckpointExtras(), Part(1), Part(2)
    extras.add("first", Part(0))
    extras.add("first", first)
    extras.add("second", second)
    assert extras.state() == {"first": 1, "second": 2}
    extras.load_state({"first": 5, "unknown": 7})
    assert (first.value, second.value) == (5, 2)


def write_trace(tmp_path, steps):
    writer = trace.TraceWriter(tmp_path)
    for step in range(steps):
        writer.record(step, {"loss": step / 2, "return": -1.0})
        writer.append()
    path = tmp_path / "trace.parquet"
    with path.open("wb") as file:
        writer.write_parquet(file)
    writer.close()
    return path


def test_a_trace_has_every_value_in_row_groups_of_a_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "_ROW_GROUP_ROWS", 4)
    path = write_trace(tmp_path, 5)
    read = pyarrow.parquet.ParquetFile(path)
    groups = [read.metadata.row_group(i).num_rows for i in range(read.metadata.num_row_groups)]
    assert groups == [4, 4, 2]
    steps, values = trace.read_metric(path, "loss")
    assert steps.tolist() == [0, 1, 2, 3, 4] and values.tolist() == [0, 0.5, 1, 1.5, 2]
    assert trace.read_metric(path, "unknown")[0].tolist() == []
    trace.check_trace_file(path)


@pytest.mark.parametrize(
    ("name", "least", "message"),
    [("_MAX_TRACE_ROWS", 6, "is too large: 6 values"), ("_MAX_TRACE_BYTES", None, "is too large")],
)
def test_trace_of_the_maximum_size_is_read_and_a_larger_one_refused(
    tmp_path, monkeypatch, name, least, message
):
    path = write_trace(tmp_path, 3)
    least = least or path.stat().st_size
    monkeypatch.setattr(trace, name, least)
    trace.check_trace_file(path)
    monkeypatch.setattr(trace, name, least - 1)
    with pytest.raises(UnusableError, match=message):
        trace.check_trace_file(path)


def test_a_group_of_rows_has_all_of_its_columns_within_the_limit(monkeypatch):
    monkeypatch.setattr(trace, "_MAX_GROUP_BYTES", 10)
    column = types.SimpleNamespace(uncompressed=5, values=1)
    trace._check_group_sizes([[column, column], [column]])
    with pytest.raises(UnusableError, match="is too large: 15 bytes in a group of rows"):
        trace._check_group_sizes([[column] * 3])


def test_a_missing_trace_is_named(tmp_path):
    with pytest.raises(UnusableError, match=r"missing trace\.parquet"):
        trace.check_trace_file(tmp_path / "trace.parquet")


@pytest.mark.parametrize(
    ("links", "text"),
    [
        ((), ""),
        ((Path("a"),), "Links are not followed: a. Name their targets instead."),
        (
            (Path("a"), Path("b")),
            "Links are not followed: a and 1 more. Name their targets instead.",
        ),
        ((Path("a"),) * 4, "Links are not followed: a and 3 more. Name their targets instead."),
    ],
)
def test_skipped_links_are_counted(links, text):
    assert FoundRunFolders((), (), links).describe_skipped_links() == text


def make_row(**changes):
    names = dict.fromkeys(packed._NAMES, "name")
    return {**names, "seed": 0, "folder": "a/b", **changes}


def test_names_in_packed_rows_have_a_length_and_seeds_no_sign():
    packed.check_columns(make_row(study="x" * packed._LONGEST_NAME, seed=None))
    packed.check_columns(make_row(seed=0))
    with pytest.raises(UnusableError, match=r"column study has .* characters, and names have at"):
        packed.check_columns(make_row(study="x" * (packed._LONGEST_NAME + 1)))
    with pytest.raises(UnusableError, match="column study is empty"):
        packed.check_columns(make_row(study=None))
    with pytest.raises(UnusableError, match="column seed is -1"):
        packed.check_columns(make_row(seed=-1))


@pytest.mark.parametrize("folder", [None, "", "/a", "a/../b", "a\0b", "."])
def test_folders_of_packed_rows_are_below_the_file(folder):
    with pytest.raises(UnusableError, match="column folder is "):
        packed.check_folder(folder)
    longest = "x" * packed._LONGEST_FOLDER
    packed.check_folder(longest)
    with pytest.raises(UnusableError, match="too long for a path"):
        packed.check_folder(longest + "x")


@pytest.mark.parametrize(("found", "fits"), [(-1, False), (0, True), (5, True), (6, False)])
def test_sizes_are_allowed_up_to_their_limit(found, fits):
    if fits:
        packed.check_size(found, 5, "rows")
    else:
        with pytest.raises(UnusableError, match=f"{found} rows where 5 are allowed"):
            packed.check_size(found, 5, "rows")


def test_git_has_a_timeout_of_ten_seconds_and_output_is_stripped(monkeypatch):
    requested = []

    def run(command, **options):
        requested.append((command, options["timeout"], options["check"]))
        return types.SimpleNamespace(stdout=" abc\n")

    monkeypatch.setattr(provenance.subprocess, "run", run)
    assert provenance._run_git(Path("/a"), "status") == "abc"
    assert requested == [(["git", "-C", "/a", "status"], 10, True)]


EVALUATIONS = RunEvaluations(
    np.array([100, 200, 300]), np.array([[1.0, 3.0], [5.0, 6.0], [9.0, 9.0]]), np.ones((3, 2))
)
SPEC = {"study": "s", "env": "Hopper-v4", "algorithm": "ppo", "hps": "own", "steps": 500}
SPEC |= {"framework": "sb3", "seed": 0}


def write_run(tmp_path, failure="", settings=None):
    folder = tmp_path.joinpath("s", "Hopper-v4", "ppo", "own", "sb3", "default", "seed=0")
    write_imported_run(folder, EVALUATIONS, SPEC, settings or {}, ImportSource("log"), failure)
    return folder, json.loads((folder / "run.json").read_text())


def test_an_imported_run_ends_at_its_last_evaluation(tmp_path, synced):
    folder, record = write_run(tmp_path)
    steps = {"requested": 500, "scheduled": 300, "framework": 300, "taken": 300}
    assert record["steps"] == steps and record["final_score"] == 9.0
    assert (record["status"], record["failure"]) == ("completed", None)
    assert record["sizes"]["evaluations.npz"] == (folder / "evaluations.npz").stat().st_size
    assert record[CHECKSUM_FIELD] == compute_checksum(record)
    with np.load(folder / "evaluations.npz") as stored:
        assert stored["timesteps"].tolist() == [100, 200, 300]
    assert synced[-1] == folder.parent.name


def test_imported_failed_run_has_the_requested_steps(tmp_path):
    _, record = write_run(tmp_path, failure="it broke")
    steps = {"requested": 500, "scheduled": 500, "framework": 300, "taken": 300}
    assert record["steps"] == steps
    assert (record["status"], record["failure"], record["final_score"]) == (
        "failed",
        "it broke",
        None,
    )


def test_settings_of_imported_runs_have_a_depth_and_a_size(tmp_path, monkeypatch):
    monkeypatch.setattr(run_import, "MAX_DEPTH", 3)
    with pytest.raises(UnusableError, match="nested too deeply"):
        write_run(tmp_path, settings={"a": {"b": {"c": 1}}})
    write_run(tmp_path, settings={"a": {"b": 1}})
    content = {"a": "b"}
    size = len(run_import._encode_record(content))
    monkeypatch.setattr(run_import, "MAX_JSON_BYTES", size)
    run_import._encode_record(content)
    monkeypatch.setattr(run_import, "MAX_JSON_BYTES", size - 1)
    with pytest.raises(UnusableError, match=f"{size} bytes; {size - 1} are allowed"):
        run_import._encode_record(content)


def test_imported_runs_without_a_seed_are_named_after_their_evaluations(tmp_path):
    values = {field.name: "a" for field in dataclasses.fields(RunPath)}
    known, unknown = (RunPath(**(values | {"seed": seed})) for seed in (3, None))
    assert find_imported_folder(tmp_path, known, "0" * 64) == known.to_folder(tmp_path)
    assert (
        find_imported_folder(tmp_path, unknown, "0123456789abcdef").name == "unknown-0123456789ab"
    )
    copy = dataclasses.replace(EVALUATIONS, results=EVALUATIONS.results.copy())
    assert hash_evaluations(copy) == hash_evaluations(EVALUATIONS)
    for changed in (
        dataclasses.replace(EVALUATIONS, results=EVALUATIONS.results.reshape(2, 3)),
        dataclasses.replace(EVALUATIONS, results=EVALUATIONS.results + 1),
        dataclasses.replace(EVALUATIONS, timesteps=EVALUATIONS.timesteps + 1),
    ):
        assert hash_evaluations(changed) != hash_evaluations(EVALUATIONS)


def test_evaluations_end_at_the_scheduled_step_with_finite_returns():
    check_complete(EVALUATIONS, 300)
    with pytest.raises(UnusableError, match="too short: last evaluation at step 300 of 301"):
        check_complete(EVALUATIONS, 301)
    with pytest.raises(UnusableError, match="too long: last evaluation at step 300 of 299"):
        check_complete(EVALUATIONS, 299)
    bad = dataclasses.replace(
        EVALUATIONS, results=np.array([[1.0, 3.0], [np.inf, 6.0], [np.nan, 9.0]])
    )
    assert describe_nonfinite(bad) == "non-finite returns: 2 of 6, first at step 200"
    assert describe_nonfinite(EVALUATIONS) == ""
    with pytest.raises(DivergedError):
        check_complete(bad, 300)


@pytest.mark.parametrize(
    ("status", "failure", "reason"),
    [
        ("completed", "ignored", ""),
        ("failed", "it\nbroke", "failed: it"),
        ("failed", None, "failed: no reason recorded"),
        ("running", None, "running"),
    ],
)
def test_status_states_why_a_run_is_incomplete(status, failure, reason):
    assert why_unfinished(status, failure) == reason


class Source:
    """A record and evaluations, with what is wrong with them."""

    def __init__(
        self,
        *,
        same=True,
        error=None,
        status="completed",
        valid=True,
        checksum=True,
        requested=300,
        hyperparameters=None,
        imported=None,
        every=100,
        untrained=False,
        episodes=2,
        alignment="common",
        requested_values=None,
        weights=None,
        failed=None,
        adapter="",
    ):
        self.same, self.error, self.reads = same, error, 0
        self.record = types.SimpleNamespace(
            status=status,
            adapter=adapter,
            failure="it broke" if failed is None and status == "failed" else failed,
            steps=types.SimpleNamespace(scheduled=300),
            spec=types.SimpleNamespace(
                framework="sb3",
                steps=requested,
                eval_every=every,
                eval_episodes=episodes,
                evaluate_untrained=untrained,
                alignment=alignment,
                n_envs=1,
                hyperparameters=requested_values or {},
            ),
            weights_sha256=weights,
            update_schedule={},
            hyperparameters=hyperparameters or {},
            imported=imported,
        )
        self.content = {"a": 1}
        if checksum:
            self.content[CHECKSUM_FIELD] = compute_checksum(self.content) if valid else "0"

    def read_record(self):
        if self.error:
            raise self.error
        return self.record, self.content

    def check_content(self, record):
        if isinstance(self.same, Exception):
            raise self.same
        return self.same

    def read_evaluations(self):
        self.reads += 1
        return EVALUATIONS

    def explain_change(self):
        return "it was changed"


MISSING = "%d evaluations, and eval_every=%s in 300 steps means %d"
OTHER_ADAPTER = "adapter=parallax.adapters.sbx:SbxAdapter, and spec.framework=sb3"
MOVED = "an evaluation is at step 100, not 0"


def judge(with_evaluations=False, **options):
    source = Source(**options)
    found = judge_run(Path("run"), source, with_evaluations)
    flags = {name for name in ("damaged", "newer", "unreadable", "failed") if getattr(found, name)}
    return found, (found.reason, flags, source.reads)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("", set(), 0)),  # the hashes hold, so the evaluations are those that were judged
        ({"same": None}, ("", set(), 1)),
        ({"checksum": False}, ("", set(), 1)),
        ({"same": False}, ("it was changed", {"damaged"}, 1)),
        ({"valid": False}, (CHECKSUM_MISMATCH, {"damaged"}, 1)),
        ({"status": "failed"}, ("failed: it broke", {"failed"}, 0)),
        ({"status": "running"}, ("running", set(), 0)),
        ({"error": NewerSchemaError("new")}, ("new", {"newer"}, 0)),
        ({"error": UnreadableError("no")}, ("no", {"unreadable"}, 0)),
        ({"error": UnusableError("bad")}, ("bad", {"damaged"}, 0)),
        ({"same": UnreadableError("no")}, ("no", {"unreadable"}, 0)),
        ({"same": DivergedError("nan")}, ("nan", {"damaged", "failed"}, 0)),
        ({"requested": 301}, ("steps.scheduled=300 is less than spec.steps=301", {"damaged"}, 0)),
        # 300 steps are the whole rollouts of 399 steps.
        ({"requested": 399, "hyperparameters": {"rollout_steps": 100}}, ("", set(), 0)),
        (
            {"requested": 399, "hyperparameters": {"rollout_steps": 100}, "alignment": "exact"},
            ("steps.scheduled=300 is less than spec.steps=399", {"damaged"}, 0),
        ),
        (
            {
                "requested": 399,
                "hyperparameters": {"rollout_steps": 100},
                "requested_values": {"rollout_steps": 100},
                "alignment": "exact",
            },
            ("", set(), 0),
        ),
        (
            {"requested": 399, "hyperparameters": {"rollout_steps": 0}},
            ("steps.scheduled=300 is less than spec.steps=399", {"damaged"}, 0),
        ),
        (
            {"requested": 350, "hyperparameters": {"rollout_steps": 80}},
            ("steps.scheduled=300 is less than spec.steps=350", {"damaged"}, 0),
        ),
        (
            {"requested": 307, "hyperparameters": {"train_freq": 8}},
            ("steps.scheduled=300 is less than spec.steps=307", {"damaged"}, 0),
        ),
        (
            {"requested": 400, "hyperparameters": {"rollout_steps": 100, "train_freq": None}},
            ("steps.scheduled=300 is less than spec.steps=400", {"damaged"}, 0),
        ),
        (
            {"requested": 600, "hyperparameters": {"rollout_steps": 10**9}},
            ("steps.scheduled=300 is less than spec.steps=600", {"damaged"}, 0),
        ),
        ({"requested": 9999, "imported": "eval.npz"}, ("", set(), 0)),
        ({"failed": "nan"}, ("run.json says `completed` and has a failure", {"damaged"}, 0)),
        ({"adapter": "adapters.sb3:SB3Adapter"}, ("", set(), 0)),
        ({"adapter": "mine:Adapter"}, ("", set(), 0)),
        ({"adapter": "parallax.adapters.sbx:SbxAdapter"}, (OTHER_ADAPTER, {"damaged"}, 0)),
        (
            {"adapter": "parallax.adapters.sbx:SbxAdapter\n\x1b[2J" + "x" * 1000},
            (OTHER_ADAPTER.replace(",", f"\\n\\x1b[2J{'x' * 163},"), {"damaged"}, 0),
        ),
        ({"requested": 284, "requested_values": {"train_freq": 8}}, ("", set(), 0)),
        (
            {"requested": 283, "requested_values": {"train_freq": 8}},
            ("steps.scheduled=300 is more than spec.steps=283", {"damaged"}, 0),
        ),
        (
            {"imported": "eval.npz", "weights": "0"},
            ("run.json has weights of a training and says `imported`", {"damaged"}, 0),
        ),
        (
            {"same": None, "episodes": 3},
            ("evaluations have 2 episodes, and eval_episodes=3", {"damaged"}, 1),
        ),
        ({"same": None, "every": 250}, (MISSING % (3, "250", 2), {"damaged"}, 1)),
        ({"same": None, "every": 75}, (MISSING % (3, "75", 4), {"damaged"}, 1)),
        ({"same": None, "untrained": True}, (MISSING % (3, "100", 4), {"damaged"}, 1)),
        ({"same": None, "every": 150, "untrained": True}, (MOVED, {"damaged"}, 1)),
        ({"same": None, "every": 250, "imported": "eval.npz"}, ("", set(), 1)),
    ],
)
def test_completeness_of_a_run_has_one_rule(options, expected):
    found, described = judge(**options)
    assert described == expected
    assert found.complete == (not expected[0]) and found.evaluations is None


def test_evaluations_of_a_complete_run_are_returned_on_request_only():
    assert judge(with_evaluations=True)[0].evaluations is EVALUATIONS
    assert judge(with_evaluations=False, same=None)[0].evaluations is None
    assert RunReading(Path("run")).complete


def make_lock(tmp_path):
    return lock.RunLock.acquire(tmp_path)


def test_subfolder_is_created_once_and_synced(tmp_path, synced):
    with make_lock(tmp_path) as own:
        synced.clear()
        own.make_folder("log")
        assert (tmp_path / "log").is_dir() and synced == [tmp_path.name]
        own.make_folder("log")
        assert synced == [tmp_path.name]
        assert list(own.staging.glob("log")) == []


def test_live_lock_is_respected_and_dead_lock_is_taken(tmp_path):
    with make_lock(tmp_path) as own:
        with pytest.raises(lock.LockHeldError, match="is running it"):
            make_lock(tmp_path)
        owner = lock.read_lock_owner(tmp_path)
        assert owner.token == own.staging.name and owner.is_local
    assert lock.read_lock_owner(tmp_path) is None
    assert not (tmp_path / lock.LOCK_FOLDER).exists()


def test_an_owner_elsewhere_is_alive_unless_its_token_is_silent(tmp_path):
    elsewhere = LockOwner("token", host="far", machine="another", pid=1, born="0", job="")
    assert lock._is_owner_alive(tmp_path, elsewhere, ["other"])
    assert not lock._is_owner_alive(tmp_path, elsewhere, ["token"])


@pytest.mark.parametrize(
    ("beat", "period"),
    [(None, lock.MAX_HEARTBEAT_PERIOD), (5.0, 5.0), (1e9, lock.MAX_HEARTBEAT_PERIOD)],
)
def test_silent_owner_is_given_three_periods(tmp_path, beat, period):
    if beat is not None:
        content = {"step": 1, "time": 1.0, "period": beat}
        (tmp_path / "progress.json").write_text(json.dumps(content))
    assert lock._read_period(tmp_path) == period
    assert lock._compute_patience(tmp_path) == 3 * period + lock._SLACK


def test_abandoned_lock_is_removed_with_its_files(tmp_path):
    left = tmp_path / f"{lock.LOCK_FOLDER}-old"
    (left / "inner").mkdir(parents=True)
    with make_lock(tmp_path):
        assert not left.exists()


def test_resumptions_are_described_by_step_and_number():
    assert lock.describe_resumption(None, 3) == ""
    assert lock.describe_resumption(1000, 1) == "resumed from step 1,000"
    assert lock.describe_resumption(0, 2) == "resumed from step 0, 2 times so far"


def test_names_of_tasks_have_their_arguments_and_wrappers():
    assert layout.format_task_name("A-v0", {}, ()) == "A-v0"
    assert layout.format_task_name("A-v0", {"b": 2}, ("m:C",)) != "A-v0"


def test_text_of_a_file_may_have_characters_that_utf_8_lacks(tmp_path):
    files.write_text(tmp_path / "a", "x\udcff")
    assert (tmp_path / "a").read_text() == "x?"
    assert files.to_plain_json({1: (float("inf"), 2.5, "\udcff")}) == {"1": ["inf", 2.5, "?"]}
    file = io.BytesIO()
    files.make_bytes_writer(b"abc")(file)
    assert file.getvalue() == b"abc"


def list_open_files(folder):
    paths = list(Path("/proc/self/fd").iterdir())
    return [path for path in paths if path.exists() and path.resolve().is_relative_to(folder)]


def test_file_replaced_by_a_special_file_during_opening_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    with files.open_regular_file(tmp_path / "file") as file:
        assert file.read() == b"abc"
    honest = os.lstat(tmp_path / "file")
    monkeypatch.setattr(files.os, "lstat", lambda path: honest)  # as it was a moment ago
    for name in ("link", "pipe"):
        with pytest.raises(UnusableError), files.open_regular_file(tmp_path / name):
            pass
    with pytest.raises(FileNotFoundError), files.open_regular_file(tmp_path / "gone"):
        pass
    assert list_open_files(tmp_path) == []


def test_a_file_that_cannot_be_moved_into_place_is_closed(tmp_path):
    with make_lock(tmp_path) as own:
        before = list_open_files(tmp_path)
        with pytest.raises(OSError, match="directory"):
            own.open_append("none/a.csv", b"begin")
        assert list_open_files(tmp_path) == before
        with own.open_append("a.csv", b"begin") as file:
            file.write(b", more")
    assert (tmp_path / "a.csv").read_bytes() == b"begin, more"


def test_heartbeats_state_the_step_a_run_resumed_from():
    beat = lock.Heartbeat(7, 1.0, 2.0, 1000, 2)
    assert beat.resumption == "resumed from step 1,000, 2 times so far"
    assert lock.Heartbeat(7, 1.0, 2.0).resumption == ""


def test_a_lock_that_cannot_be_read_has_an_unknown_owner(tmp_path, monkeypatch):
    assert lock.read_lock_owner(tmp_path) is None
    assert lock.read_lock_owner(tmp_path / ("a" * 300)) is None
    with make_lock(tmp_path):
        known = lock.read_lock_owner(tmp_path)
        place = tmp_path / lock.LOCK_FOLDER
        (place / known.token / "owner.json").write_text("[")
        assert lock.read_lock_owner(tmp_path) == LockOwner(token=known.token)
        # A lock that is released while it is listed, and none besides.
        monkeypatch.setattr(lock.Path, "iterdir", lambda path: iter([place / "0-gone"]))
        assert lock.read_lock_owner(tmp_path) is None

        def refuse(path):
            raise PermissionError(errno.EACCES, "denied")

        monkeypatch.setattr(lock.Path, "iterdir", refuse)
        assert lock.read_lock_owner(tmp_path) == LockOwner()


@pytest.mark.parametrize("number", [errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EACCES])
def test_lock_taken_by_a_faster_process_is_not_created(folder, monkeypatch, number):
    def fail(path, target):
        raise OSError(number, "too late")

    monkeypatch.setattr(lock.Path, "rename", fail)
    if number == errno.EACCES:
        with pytest.raises(OSError, match="too late"):
            lock._create_lock(folder, "t")
    else:
        assert lock._create_lock(folder, "t") is False
    assert list(folder.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        lock._create_lock(folder / "gone", "t")


def test_an_owner_elsewhere_is_dead_if_it_is_silent_or_has_gone(tmp_path, monkeypatch):
    owner = LockOwner(token="t", machine="elsewhere")
    silent = {"t"}
    monkeypatch.setattr(lock, "watch_heartbeats", lambda folders: (silent, {}))
    assert not lock._is_owner_alive(tmp_path, owner, None)  # released meanwhile
    monkeypatch.setattr(lock, "read_lock_owner", lambda folder: owner)
    assert not lock._is_owner_alive(tmp_path, owner, None)
    silent.clear()
    assert lock._is_owner_alive(tmp_path, owner, None)
    assert not lock._is_owner_alive(tmp_path, owner, {"t"})


@pytest.fixture(scope="module")
def row():
    return next(packed.read_rows(Path(__file__).parents[3] / "docs" / "clipping.parquet"))


def replace_part(text, name, value):
    return ",".join(f"{name}={value}" if p.startswith(f"{name}=") else p for p in text.split(","))


@pytest.mark.parametrize(
    ("column", "change", "words"),
    [
        ("folder", lambda text: "/etc", "column folder is /etc"),
        ("folder", lambda text: "", "column folder is empty"),
        ("env", lambda text: None, "column env is empty"),
        ("hps", lambda text: "a" * 10_000, "column hps has 10,000 characters"),
        ("seed", lambda number: -1, "column seed is -1"),
        ("seed", lambda number: number + 1, "column seed is 1, and run_json says 0"),
        ("algorithm", lambda text: "sac", "column algorithm is sac, and run_json says ppo"),
        ("seconds", lambda number: number * 2, "column seconds is"),
        ("final_score", lambda number: number + 1, "column final_score is 226.2"),
        ("variant", lambda text: replace_part(text, "steps", 5), "run_json says steps=20480"),
        ("variant", lambda text: replace_part(text, "eval_episodes", 1), "eval_episodes=10"),
        ("returns", lambda values: [line[:1] for line in values], "shapes do not agree"),
    ],
)
def test_columns_of_a_packed_run_agree_with_its_record(row, column, change, words):
    whole = packed.judge_row(row, Path("study.parquet"))
    assert (whole.complete, whole.damaged, whole.reason) == (True, False, "")
    assert whole.folder == Path("study.parquet") / row["folder"]
    found = packed.judge_row(row | {column: change(row[column])}, Path("study.parquet"))
    assert (found.complete, found.damaged, found.evaluations) == (False, True, None)
    assert found.reason.startswith("corrupted") and words in found.reason


@pytest.mark.parametrize(("recorded", "packed_seconds"), [(0.5, 0.5), (0.0, 0.0), (-0.5, None)])
def test_packed_seconds_match_the_record_unless_a_clock_went_back(row, recorded, packed_seconds):
    found = packed.judge_row(row, Path("study.parquet"))
    timings = msgspec.structs.replace(found.record.timings, seconds=recorded)
    record, present = (
        msgspec.structs.replace(found.record, timings=timings),
        packed.translate_row(row),
    )
    for seconds, agrees in ((packed_seconds, True), (7.0, False)):
        words = packed.find_contradiction(present | {"seconds": seconds}, record, found.evaluations)
        assert (words == "") is agrees


def test_packed_names_with_invisible_characters_match_the_record_with_and_without_escapes(row):
    found = packed.judge_row(row, Path("study.parquet"))
    spec = msgspec.structs.replace(found.record.spec, hps="original\ufe0f")
    record = msgspec.structs.replace(found.record, spec=spec)
    for hps, agrees in ((spec.hps, True), (r"original\ufe0f", True), ("original", False)):
        present = packed.translate_row(row) | {"hps": hps}
        assert (packed.find_contradiction(present, record, found.evaluations) == "") is agrees


def test_packed_run_matches_its_hash_and_may_be_renamed(row):
    hashed = row | {"study": "renamed"}
    assert packed.check_hash(hashed) is None
    hashed["content_sha256"] = packed.hash_row(hashed)
    assert packed.check_hash(hashed) is True
    assert packed.judge_row(hashed, Path("s")).complete
    changed = hashed | {"seconds": row["seconds"] + 1e-12}
    assert packed.check_hash(changed) is False
    assert packed.CHANGED in packed.judge_row(changed, Path("s")).reason


@pytest.mark.parametrize(
    ("name", "limit", "read"),
    [
        ("evaluations.npz", 2**28, reading.read_evaluations),
        ("policy.npz", 2**29, reading.read_policy),
        ("policy.npz", 2**29, lambda path: reading._check_hash(path, "policy.npz", "", None)),
        ("policy.npz", 2**29, lambda path: reading._check_hash(path, "policy.npz", "", 2**29 + 1)),
        ("trace.parquet", 2**33, lambda path: reading._check_hash(path, "trace.parquet", "", None)),
    ],
)
def test_files_that_are_too_large_are_refused_by_their_size(folder, name, limit, read):
    with (folder / name).open("wb") as file:
        file.truncate(limit + 1)  # sparse: nothing of it is on the disk, or read
    words = rf"{limit + 1:,} bytes (where {limit:,} are allowed|are not what the run wrote)"
    with pytest.raises(UnusableError, match=words):
        read(folder)


@pytest.mark.parametrize("size", [2**16, 2**16 + 1])
def test_a_heartbeat_and_an_owner_may_have_64_kibibytes(tmp_path, size):
    beat = json.dumps({"step": 7, "time": 1.0, "period": 2.0}).ljust(size)
    (tmp_path / "progress.json").write_text(beat)
    assert (lock.read_heartbeat(tmp_path) is not None) == (size == 2**16)
    with make_lock(tmp_path):
        owner = lock.read_lock_owner(tmp_path)
        assert lock._read_pulse(tmp_path) == (owner.token, beat.encode() if size == 2**16 else b"")
        place = tmp_path / lock.LOCK_FOLDER / owner.token / "owner.json"
        place.write_text(place.read_text().ljust(size))
        assert (lock.read_lock_owner(tmp_path) == owner) == (size == 2**16)
