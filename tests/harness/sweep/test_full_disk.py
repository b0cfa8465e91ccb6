"""On a full disk the reason reaches the user although it cannot be written."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import recorded
import support

from parallax.harness import worker
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.record.lock import EXIT_NO_SPACE, RunLock
from parallax.harness.sweep import run_process as process
from parallax.harness.sweep.run_process import RunProcess
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.prepare import prepare_run

ALONE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")
MOUNT = "mount -t tmpfs -o size=512k none {disk}; "
SCRIPT = """
import os, sys
from pathlib import Path
import support
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.sweep.run_process import RunProcess
from parallax.harness.train.prepare import prepare_run

spec = support.spec(steps=2048, eval_every=2048)
folder = spec.folder(Path(sys.argv[1]))
initialize_run(prepare_run(spec, load_adapter("sb3")), folder)
left, disk = 1024 * int(sys.argv[2]), os.statvfs(folder)
Path(sys.argv[1], "filler").write_bytes(bytes(max(0, disk.f_bavail * disk.f_frsize - left)))
process = RunProcess(spec, folder)
while not process.wait(1):
    pass
print(process.outcome().status, process.outcome().failure)
"""


@pytest.mark.parametrize("left", [0, 8, 40])
def test_run_on_a_nearly_full_disk_reports_it(tmp_path, left):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = MOUNT.format(disk=disk)
    if not shutil.which("unshare") or subprocess.run([*ALONE, mount]).returncode:
        pytest.skip("this system lets no process mount a small disk for itself")
    paths = os.pathsep.join([str(support.ROOT), str(support.ROOT / "tests")])
    done = subprocess.run(
        [*ALONE, f"{mount}exec {sys.executable} -c '{SCRIPT}' {disk} {left}"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("failed ") and "No space left on device" in done.stdout


def full(*_, **__):
    raise OSError(28, "No space left on device")


def test_worker_reports_a_full_disk_by_its_exit_code(tmp_path, monkeypatch):
    folder = recorded.complete_run(tmp_path)
    monkeypatch.setattr(worker, "stop_on_signals", lambda: None)
    monkeypatch.setattr(RunLock, "acquire", full)
    monkeypatch.setattr("sys.stderr", SimpleNamespace(write=full, flush=full))
    assert worker.main(folder) == EXIT_NO_SPACE


@pytest.mark.parametrize(("code", "free"), [(EXIT_NO_SPACE, 2**30), (1, 40 * 1024), (120, 0)])
def test_sweep_states_why_a_silent_run_ended(tmp_path, monkeypatch, code, free):
    spec = support.spec()
    folder = spec.folder(tmp_path)
    initialize_run(prepare_run(spec, load_adapter("sb3")), folder)
    ended = SimpleNamespace(wait=lambda: code)
    monkeypatch.setattr(process.subprocess, "Popen", lambda *_, **__: ended)
    monkeypatch.setattr(process.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    outcome = RunProcess(spec, folder).outcome()
    assert outcome.status == "failed"
    assert outcome.failure.startswith("No space left on device: the disk of ")
    assert f"has {free // 1024:,} KiB left. Free some space" in outcome.failure


def test_process_failure_without_a_full_disk_names_the_exit_code(tmp_path, monkeypatch):
    spec = support.spec()
    folder = spec.folder(tmp_path)
    initialize_run(prepare_run(spec, load_adapter("sb3")), folder)
    monkeypatch.setattr(
        process.subprocess, "Popen", lambda *_, **__: SimpleNamespace(wait=lambda: 1)
    )
    assert RunProcess(spec, folder).outcome().failure == "the process ended with exit code 1"
