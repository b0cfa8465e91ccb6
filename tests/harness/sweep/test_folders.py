"""A sweep's folders are all set up or all left as they were."""

import pytest
import recorded
import support

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import spec_from_dict
from parallax.harness.record.files import write_json
from parallax.harness.record.lock import RunLock
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import initialize_runs
from parallax.harness.train.prepare import prepare_run


def runs(results, *specs):
    return [(spec.folder(results), prepare_run(spec, load_adapter("sb3"))) for spec in specs]


def contents(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def take_folder(root):
    """A file stands where the run's study would be."""
    root.mkdir(exist_ok=True)
    (root / "taken").write_text("of the user")
    return support.spec(study="taken")


def test_all_new_folders_are_pending(tmp_path):
    requested = runs(tmp_path, support.spec(seed=0), support.spec(seed=1))
    assert initialize_runs(requested) == (dict(requested), {})
    assert [read_run(folder).content["status"] for folder, _ in requested] == ["pending", "pending"]


def test_running_run_is_reported_and_not_changed(tmp_path):
    requested = runs(tmp_path, support.spec(seed=0), support.spec(seed=1))
    locked = requested[0][0]
    locked.mkdir(parents=True)
    with RunLock.acquire(locked):
        pending, others = initialize_runs(requested)
    assert list(pending) == [requested[1][0]]
    assert list(others) == [locked] and "is running it" in others[locked]
    assert not (locked / "run.json").exists()


@pytest.mark.parametrize("first", [True, False])
def test_failed_folder_creation_leaves_nothing(first, tmp_path):
    specs = [support.spec(seed=0), support.spec(seed=1)]
    specs.insert(0 if first else 2, take_folder(tmp_path / "results"))
    before = contents(tmp_path)
    with pytest.raises(SpecError, match="cannot be written"):
        initialize_runs(runs(tmp_path / "results", *specs))
    assert contents(tmp_path) == before


def test_earlier_attempt_is_restored_if_another_folder_cannot_be_created(tmp_path):
    requested = runs(tmp_path, support.spec(seed=0), support.spec(seed=1))
    initialize_runs(requested)
    failed = requested[0][0]
    recorded.edit(failed, status="failed", failure="x")
    other = take_folder(tmp_path)
    before = contents(tmp_path)
    for _ in range(2):
        with pytest.raises(SpecError, match="cannot be written"):
            initialize_runs([*requested, *runs(tmp_path, other)])
        assert contents(tmp_path) == before


@pytest.mark.parametrize("content", [[], {"spec": []}, {"status": "completed", "spec": None}])
def test_damaged_record_is_replaced(content, tmp_path):
    ((folder, run),) = runs(tmp_path, support.spec())
    folder.mkdir(parents=True)
    write_json(folder / "run.json", content)
    assert initialize_runs([(folder, run)]) == ({folder: run}, {})
    assert read_run(folder).content["status"] == "pending"


def test_leftovers_of_killed_processes_are_removed_from_a_complete_run(tmp_path):
    folder = recorded.complete_run(tmp_path)
    (folder / "notes.md").write_text("of the user")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    for name in (".log-12345678", ".reserve", "progress.json"):
        (folder / name).write_bytes(b"")
    (folder / ".lease").mkdir()
    again = prepare_run(spec_from_dict(read_run(folder).spec), load_adapter("sb3"))
    assert initialize_runs([(folder, again)]) == ({}, {folder: None})
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert after == before


def test_files_of_a_live_process_are_not_removed(tmp_path):
    folder = recorded.complete_run(tmp_path)
    again = prepare_run(spec_from_dict(read_run(folder).spec), load_adapter("sb3"))
    with RunLock.acquire(folder):
        (folder / "progress.json").write_bytes(b"")
        before = contents(folder)
        assert initialize_runs([(folder, again)]) == ({}, {folder: None})
        assert contents(folder) == before


def test_run_with_other_settings_reuses_nothing(tmp_path):
    requested = runs(tmp_path, support.spec(seed=0), support.spec(seed=1))
    initialize_runs(requested[1:])
    path = requested[1][0] / "run.json"
    run = read_run(requested[1][0]).content
    write_json(path, run | {"spec": run["spec"] | {"steps": 7}})
    before = contents(tmp_path)
    with pytest.raises(SpecError, match="holds a run with other settings"):
        initialize_runs(requested)
    assert contents(tmp_path) == before
