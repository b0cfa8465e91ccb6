"""Tests that a killed run resumes from its checkpoint and ends as an uninterrupted run does."""

import dataclasses
import functools
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from parallax.harness.conformance.run_folders import prepare_scripted_run
from parallax.harness.conformance.trainings import get_libraries
from parallax.harness.contract.adapter import Adapter, Checkpointable, load_adapter
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.layout import CHECKPOINT_FOLDER, EVALUATIONS_FILE, TRACE_FILE
from parallax.harness.record.lock import RunLock
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.monitor import TrainingMonitor
from parallax.harness.train.prepare import PreparedRun
from parallax.harness.train.run import execute_run

STEPS = 192
KILL_STEPS = (70, 131)
"""Environment steps during which a run is killed."""
CHECKPOINT_LEAD_STEPS = 20
"""Environment steps between the request of a checkpoint and the kill."""


class ResumeConformance:
    """Tests of runs that are killed twice by SIGKILL, which no process can catch."""

    framework: str

    @pytest.mark.parametrize("wrappers", ["none", "normalized"])
    def test_run_that_is_killed_ends_as_one_that_is_not(
        self, algorithm: str, wrappers: str, tmp_path: Path
    ) -> None:
        """Weights, evaluations and trace are the same to the last byte."""
        check_killed_run(self.framework, algorithm, tmp_path / "run", wrappers=wrappers)


def check_killed_run(framework: str, algorithm: str, folder: Path, **asked: Any) -> None:
    """Execute a run, kill it twice, and compare its results with those of an uninterrupted run."""
    undisturbed = _run_uninterrupted(framework, algorithm, **asked)
    if not undisturbed.has_checkpointable:
        pytest.skip(f"the adapter of {framework} does not hand out its state")
    prepared = _initialize_resumable_run(framework, algorithm, folder, every=60, **asked)
    process = _run_in_new_process if _has_own_threads(framework) else _run_in_fork
    process(lambda: _execute_and_kill(prepared, folder, KILL_STEPS[:1]))
    process(lambda: _execute_and_kill(prepared, folder, KILL_STEPS[1:]))
    assert process(lambda: _execute_and_kill(prepared, folder, ())) == 0
    reading = read_run(folder)
    assert reading.complete, reading.reason
    content = reading.content
    came_from = [attempt["resumed_from"] for attempt in content["attempts"]]
    came_from.append(content["resumed_from"])
    assert content["resume_notes"] == []
    assert came_from[0] is None and all(step for step in came_from[1:]), came_from
    assert content["weights_sha256"] == undisturbed.digest
    for name, raw in undisturbed.files.items():
        assert (folder / name).read_bytes() == raw, f"{name} differs"
    assert not (folder / CHECKPOINT_FOLDER).exists()


@dataclasses.dataclass(frozen=True)
class _UninterruptedRun:
    """Results of a run that was never killed."""

    digest: str
    files: dict[str, bytes]
    has_checkpointable: bool


@functools.lru_cache(maxsize=16)
def _run_uninterrupted(framework: str, algorithm: str, **asked: Any) -> _UninterruptedRun:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        prepared = _initialize_resumable_run(framework, algorithm, folder, every=0, **asked)
        adapter, attached = _capture_checkpointable(load_adapter(framework))
        with RunLock.acquire(folder) as lease:
            execute_run(prepared, adapter, RunFolder(lease))
        reading = read_run(folder)
        assert reading.complete, reading.reason
        files = {name: (folder / name).read_bytes() for name in (EVALUATIONS_FILE, TRACE_FILE)}
        return _UninterruptedRun(reading.content["weights_sha256"], files, attached[0] is not None)


def _capture_checkpointable(adapter: Any) -> tuple[Adapter, list[Checkpointable | None]]:
    """Return an adapter, and the list to which it appends the state that it hands out."""
    attached: list[Checkpointable | None] = []

    class Listening(type(adapter)):  # type: ignore[misc]
        def train(self, *arguments: Any) -> None:
            *others, monitor = arguments
            attach = monitor.attach

            def listen(*parts: Any, **named: Any) -> None:
                attached.append(named.get("checkpointable", (*parts, None, None)[3]))
                attach(*parts, **named)

            monitor.attach = listen
            super().train(*others, monitor)

    return Listening(), attached


def _initialize_resumable_run(
    framework: str, algorithm: str, folder: Path, every: float, **asked: Any
) -> PreparedRun:
    usual = {"steps": STEPS, "eval_every": 48, "checkpoint_every": every}
    prepared = prepare_scripted_run(framework, algorithm, **usual | asked)
    initialize_run(prepared, folder)
    return prepared


def _execute_and_kill(prepared: PreparedRun, folder: Path, kills: tuple[int, ...]) -> None:
    """Execute the run, and kill this process during one of some environment steps."""
    make_env = TrainingMonitor.make_env

    def deadly(monitor: TrainingMonitor) -> Any:
        env = make_env(monitor)
        task: Any = env.unwrapped
        step = task.step

        def dying(action: Any) -> Any:
            if monitor.steps + CHECKPOINT_LEAD_STEPS in kills and monitor.checkpoint_manager:
                monitor.checkpoint_manager.request_checkpoint()
            if monitor.steps in kills:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(action)

        task.step = dying
        return env

    patched: Any = TrainingMonitor  # never restored: this process ends after the run
    patched.make_env = deadly if kills else make_env
    with RunLock.acquire(folder) as lease:
        execute_run(prepared, load_adapter(prepared.spec.framework), RunFolder(lease))


def _has_own_threads(framework: str) -> bool:
    """Return whether its library has threads, which a forked process would lack."""
    return get_libraries(framework) != ("torch",)


def _run_in_new_process(work: Callable[[], None]) -> int:
    """Run `work` in a new interpreter and return its exit code."""
    code = "import cloudpickle, sys; cloudpickle.load(sys.stdin.buffer)()"
    return subprocess.run([sys.executable, "-c", code], input=cloudpickle.dumps(work)).returncode


def _run_in_fork(work: Callable[[], None]) -> int:
    """Run `work` in a fork of this process and return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
