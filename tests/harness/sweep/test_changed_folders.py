"""Changes to one folder during a sweep affect only its run."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import recorded
import support
from sweep_testbed import SWEEP, SweepTestbed, wait_until

from parallax.harness import worker
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.record.lock import EXIT_COMPLETE
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.prepare import prepare_run
from parallax.harness.train.stop_signals import EXIT_INTERRUPTED, SWEEP_FAILED_SIGNAL, RunInterrupt

KEYS = [f"ppo-{seed}" for seed in range(4)]


@pytest.fixture
def testbed(tmp_path):
    return SweepTestbed(tmp_path)


def start(testbed, *arguments):
    where = f"results_dir={testbed.results}"
    return testbed.start("parallax", "train", "--multirun", *SWEEP, where, *arguments, merged=True)


def files(folder):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.mark.long
def test_runs_completed_by_another_sweep_are_not_changed(testbed):
    testbed.order("go", *KEYS[1:])
    slow = start(testbed, "algorithm=ppo", "seed=0,1,2,3", "hydra.launcher.n_jobs=1")
    wait_until(lambda: testbed.beats(KEYS[0]))  # it waits for its order
    testbed.sweep("algorithm=ppo", "seed=1,2,3")
    before = {key: files(testbed.folder(key)) for key in KEYS[1:]}
    testbed.order("go", KEYS[0])
    said, _ = slow.communicate(timeout=120)
    assert slow.returncode == 0, said
    assert "1 completed, 3 skipped" in said
    assert {key: files(testbed.folder(key)) for key in KEYS[1:]} == before
    assert {len(testbed.beats(key)) for key in KEYS} == {1}


def remove(folder):
    """In one step: a live run renews its lock meanwhile."""
    shutil.rmtree(folder.rename(folder.with_name("removed")), ignore_errors=True)


def truncate(folder):
    (folder / "run.json").write_text('{"schema": 2, "sta')


def make_a_file(folder):
    remove(folder)
    folder.write_text("in the way")


def failures(said, testbed, keys):
    """Return the message of each failed run without spaces, as lines may have been wrapped."""
    text, found = "".join(said.split()), {}
    for key in keys:
        before, _, _ = text.partition(f"see{testbed.folder(key)}/log.txt")
        found[key] = before.rpartition("/log.txt")[2]
    return found


def test_folders_deleted_before_their_start_fail_alone(testbed):
    keys = [f"ppo-{seed}" for seed in range(5)]
    testbed.order("go", *keys[4:])
    sweep = start(testbed, "algorithm=ppo", "seed=0,1,2,3,4", "hydra.launcher.n_jobs=1")
    wait_until(lambda: testbed.beats(keys[0]))
    for trouble, key in zip((remove, truncate, make_a_file), keys[1:4], strict=True):
        trouble(testbed.folder(key))
    testbed.order("go", *keys[:4])
    said, _ = sweep.communicate(timeout=120)
    assert sweep.returncode == 1 and "Traceback" not in said, said
    assert "2 completed, 3 failed" in said
    for key, words in failures(said, testbed, keys[1:4]).items():
        expected = ["cannotbestarted", "corruptedrun.json" if key == keys[2] else "gone"]
        assert any(word in words for word in expected), words
    assert [read_run(testbed.folder(key)).complete for key in keys] == [True, *[False] * 3, True]


def test_changes_to_a_running_run_do_not_affect_others(testbed):
    removed, replaced, cut, ended, left = (f"ppo-{seed}" for seed in range(5))
    testbed.order("go", left)
    sweep = start(testbed, "algorithm=ppo", "seed=0,1,2,3,4", "hydra.launcher.n_jobs=5")
    others = (removed, replaced, cut, ended)
    wait_until(lambda: all(map(testbed.beats, others)) and read_run(testbed.folder(left)).complete)
    remove(testbed.folder(removed))
    make_a_file(testbed.folder(replaced))
    truncate(testbed.folder(cut))
    os.kill(testbed.record(ended)["pid"], SWEEP_FAILED_SIGNAL)
    testbed.order("go", cut)  # the heartbeats of the first two notice; they need no order
    said, _ = sweep.communicate(timeout=120)
    assert sweep.returncode == 1 and "Traceback" not in said, said
    assert "2 completed, 2 failed" in said and "1 interrupted" in said
    messages = failures(said, testbed, (removed, replaced))
    assert all("gone" in words for words in messages.values()), messages
    assert read_run(testbed.folder(cut)).complete  # its record was written again
    record = testbed.record(ended)
    assert (record["status"], record["stopped_by"]) == ("interrupted", "sweep"), said
    assert "user" not in record["failure"]


def test_worker_of_a_complete_run_changes_nothing(tmp_path):
    folder = recorded.complete_run(tmp_path)
    before = files(folder)
    (folder / ".log-12345678").touch()  # its own, which nothing else would remove
    code = [sys.executable, "-m", "parallax.harness.worker", str(folder), ".log-12345678"]
    assert subprocess.run(code).returncode == EXIT_COMPLETE
    assert files(folder) == before


@pytest.mark.parametrize("step", ["stop_on_signals", "stop_without_parent"])
def test_run_stopped_before_it_has_its_lock_is_interrupted(tmp_path, monkeypatch, step):
    def stop(*_):
        raise RunInterrupt("sweep", SWEEP_FAILED_SIGNAL)

    monkeypatch.setattr(worker, "stop_on_signals", lambda: None)
    monkeypatch.setattr(worker, step, stop)
    assert worker.main(tmp_path, None, "0") == EXIT_INTERRUPTED + SWEEP_FAILED_SIGNAL


def test_run_without_an_adapter_in_its_record_names_the_reason(tmp_path, monkeypatch):
    spec = support.spec()
    folder = spec.folder(tmp_path)
    initialize_run(prepare_run(spec, load_adapter("sb3")), folder)
    recorded.edit(folder, adapter="")
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)
    assert worker.main(folder) == 1
    assert read_run(folder).reason == (
        "failed: run.json does not name the adapter: train the run again"
    )


def test_run_is_not_trained_with_other_settings_than_it_records(tmp_path, monkeypatch):
    spec = support.spec()
    folder = spec.folder(tmp_path)
    initialize_run(prepare_run(spec, load_adapter("sb3")), folder)
    run = json.loads((folder / "run.json").read_text())
    recorded.edit(folder, native=run["native"] | {"n_steps": 7})
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)
    assert worker.main(folder) == 1
    after = read_run(folder)
    assert after.reason.startswith("failed: ") and "n_steps=7 then, 576 now" in after.reason
    assert not (folder / "evaluations.npz").exists()
