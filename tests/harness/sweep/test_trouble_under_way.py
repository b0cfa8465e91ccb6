"""What happens to one folder while a sweep runs is that run's affair, and no other's."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import recorded
import support
from slurm_lab import SWEEP, Lab, wait_until

from harness import worker
from harness.contract.adapter import load_adapter
from harness.record.lease import EXIT_COMPLETE
from harness.record.reading import read_run
from harness.sweep.folders import initialize
from harness.train.prepare import prepare
from harness.train.stopping import SWEEP_ENDED

KEYS = [f"ppo-{seed}" for seed in range(4)]


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def start(lab, *arguments):
    command = [sys.executable, "-m", "harness", "--multirun", *SWEEP, f"results_dir={lab.results}"]
    return subprocess.Popen(
        [*command, *arguments],
        env=lab.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def files(folder):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_what_another_sweep_completed_is_not_touched(lab):
    lab.order("go", *KEYS[1:])
    slow = start(lab, "algorithm=ppo", "seed=0,1,2,3", "hydra.launcher.n_jobs=1")
    wait_until(lambda: lab.beats(KEYS[0]))  # it waits for its order
    lab.sweep("algorithm=ppo", "seed=1,2,3")
    before = {key: files(lab.folder(key)) for key in KEYS[1:]}
    lab.order("go", KEYS[0])
    said, _ = slow.communicate(timeout=120)
    assert slow.returncode == 0, said
    assert "1 completed, 3 skipped" in said
    assert {key: files(lab.folder(key)) for key in KEYS[1:]} == before
    assert {len(lab.beats(key)) for key in KEYS} == {1}


def remove(folder):
    """In one step: a live run renews its lease meanwhile."""
    shutil.rmtree(folder.rename(folder.with_name("removed")), ignore_errors=True)


def truncate(folder):
    (folder / "run.json").write_text('{"schema": 2, "sta')


def make_a_file(folder):
    remove(folder)
    folder.write_text("in the way")


TROUBLES = [
    (remove, "gone"),
    (truncate, "corrupted run.json"),
    (make_a_file, "gone|cannot be started"),
]


@pytest.mark.parametrize(("trouble", "words"), TROUBLES)
def test_folder_that_is_lost_before_its_turn_fails_alone(trouble, words, lab):
    lab.order("go", *KEYS[2:])
    sweep = start(lab, "algorithm=ppo", "seed=0,1,2,3", "hydra.launcher.n_jobs=1")
    wait_until(lambda: lab.beats(KEYS[0]))
    trouble(lab.folder(KEYS[1]))
    lab.order("go", *KEYS[:2])
    said, _ = sweep.communicate(timeout=120)
    assert sweep.returncode == 1 and "Traceback" not in said, said
    assert "3 completed, 1 failed" in said
    assert any(word in said for word in (*words.split("|"), "cannot be started")), said
    assert [read_run(lab.folder(key)).complete for key in KEYS] == [True, False, True, True]


@pytest.mark.parametrize("trouble", [remove, make_a_file])
def test_folder_that_is_lost_while_it_trains_fails_alone(trouble, lab):
    lab.order("go", *KEYS[1:])
    sweep = start(lab, "algorithm=ppo", "seed=0,1", "hydra.launcher.n_jobs=2")
    wait_until(lambda: lab.beats(KEYS[0]) and read_run(lab.folder(KEYS[1])).complete)
    trouble(lab.folder(KEYS[0]))
    said, _ = sweep.communicate(timeout=120)  # its heartbeat notices; it needs no order
    assert sweep.returncode == 1 and "Traceback" not in said, said
    assert "1 completed, 1 failed" in said and "gone" in said


def test_record_that_is_cut_short_while_its_run_trains_is_written_again(lab):
    sweep = start(lab, "algorithm=ppo", "seed=0")
    wait_until(lambda: lab.beats(KEYS[0]))
    truncate(lab.folder(KEYS[0]))
    lab.order("go")
    said, _ = sweep.communicate(timeout=120)
    assert sweep.returncode == 0, said
    assert read_run(lab.folder(KEYS[0])).complete


def test_run_that_its_sweep_ends_is_not_said_to_be_the_users_doing(lab):
    sweep = start(lab, "algorithm=ppo", "seed=0")
    wait_until(lambda: lab.beats(KEYS[0]))
    os.kill(lab.record(KEYS[0])["pid"], SWEEP_ENDED)
    said, _ = sweep.communicate(timeout=60)
    record = lab.record(KEYS[0])
    assert (record["status"], record["stopped_by"]) == ("interrupted", "sweep"), said
    assert "user" not in record["failure"]


def test_worker_of_a_complete_run_touches_nothing(tmp_path):
    folder = recorded.complete_run(tmp_path)
    before = files(folder)
    (folder / ".log-12345678").touch()  # its own, which nobody would remove after it
    code = [sys.executable, "-m", "harness.worker", str(folder), ".log-12345678"]
    assert subprocess.run(code).returncode == EXIT_COMPLETE
    assert files(folder) == before


def test_run_is_not_trained_with_other_settings_than_it_records(tmp_path, monkeypatch):
    spec = support.spec()
    folder = spec.folder(tmp_path)
    initialize(prepare(spec, load_adapter("sb3")), folder)
    run = json.loads((folder / "run.json").read_text())
    recorded.edit(folder, native=run["native"] | {"n_steps": 7})
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)
    assert worker.main(folder) == 1
    after = read_run(folder)
    assert after.reason.startswith("failed: ") and "n_steps=7 then, 2048 now" in after.reason
    assert not (folder / "evaluations.npz").exists()
