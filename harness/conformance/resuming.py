"""A run that is killed goes on from what it kept, and ends as if nobody had killed it."""

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

from harness.conformance.exits import prepared_run
from harness.conformance.trainings import libraries
from harness.contract.adapter import Adapter, Resumable, load_adapter
from harness.record.folder import RunFolder
from harness.record.layout import CHECKPOINT_FOLDER, EVALUATIONS_FILE, TRACE_FILE
from harness.record.lease import Lease
from harness.record.reading import read_run
from harness.sweep.folders import initialize
from harness.train.monitor import TrainingMonitor
from harness.train.prepare import Prepared
from harness.train.run import execute

STEPS = 192
KILLS = (70, 131)
"""Environment steps in the middle of which a run is killed."""
BEFORE = 20
"""Environment steps from the one on which a state is to be kept to the one that kills."""


class ResumingConformance:
    """Runs that are killed twice, by a signal that no process can catch."""

    framework: str

    @pytest.mark.parametrize("wrappers", ["none", "normalized"])
    def test_run_that_is_killed_ends_as_one_that_is_not(
        self, algorithm: str, wrappers: str, tmp_path: Path
    ) -> None:
        """Weights, evaluations and trace are the same to the last byte."""
        check_killed_run(self.framework, algorithm, tmp_path / "run", wrappers=wrappers)


def check_killed_run(framework: str, algorithm: str, folder: Path, **asked: Any) -> None:
    """Makes a run, kills it twice, and compares what it ends in with one that nobody killed.

    Args:
        framework: Name of the adapter.
        algorithm: Name of the algorithm.
        folder: Of the run.
        asked: Further values of its spec.
    """
    undisturbed = _undisturbed(framework, algorithm, **asked)
    if not undisturbed.hands_out:
        pytest.skip(f"the adapter of {framework} does not hand out its state")
    prepared = _initialized(framework, algorithm, folder, every=60, **asked)
    process = _in_a_new_process if _has_own_threads(framework) else _in_a_copy
    process(lambda: _execute(prepared, folder, KILLS[:1]))
    process(lambda: _execute(prepared, folder, KILLS[1:]))
    assert process(lambda: _execute(prepared, folder, ())) == 0
    reading = read_run(folder)
    assert reading.complete, reading.reason
    content = reading.content
    came_from = [attempt["resumed_from"] for attempt in content["attempts"]]
    came_from.append(content["resumed_from"])
    assert content["resumption"] == []
    assert came_from[0] is None and all(step for step in came_from[1:]), came_from
    assert content["weights_sha256"] == undisturbed.digest
    for name, raw in undisturbed.files.items():
        assert (folder / name).read_bytes() == raw, f"{name} differs"
    assert not (folder / CHECKPOINT_FOLDER).exists()


@dataclasses.dataclass(frozen=True)
class _Undisturbed:
    """What a run that nobody killed left.

    Attributes:
        digest: Hash of its weights.
        files: Evaluations and trace.
        hands_out: Whether the adapter says what a training goes on from.
    """

    digest: str
    files: dict[str, bytes]
    hands_out: bool


@functools.lru_cache(maxsize=16)
def _undisturbed(framework: str, algorithm: str, **asked: Any) -> _Undisturbed:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        prepared = _initialized(framework, algorithm, folder, every=0, **asked)
        adapter, told = _listening(load_adapter(framework))
        with Lease.acquire(folder) as lease:
            execute(prepared, adapter, RunFolder(lease))
        reading = read_run(folder)
        assert reading.complete, reading.reason
        files = {name: (folder / name).read_bytes() for name in (EVALUATIONS_FILE, TRACE_FILE)}
        return _Undisturbed(reading.content["weights_sha256"], files, told[0] is not None)


def _listening(adapter: Any) -> tuple[Adapter, list[Resumable | None]]:
    """The adapter, and what it will have handed over to go on from."""
    told: list[Resumable | None] = []

    class Listening(type(adapter)):  # type: ignore[misc]
        def train(self, *arguments: Any) -> None:
            *others, monitor = arguments
            attach = monitor.attach

            def listen(*parts: Any, **named: Any) -> None:
                told.append(named.get("resumable", (*parts, None, None)[3]))
                attach(*parts, **named)

            monitor.attach = listen
            super().train(*others, monitor)

    return Listening(), told


def _initialized(
    framework: str, algorithm: str, folder: Path, every: float, **asked: Any
) -> Prepared:
    usual = {"steps": STEPS, "eval_every": 48, "checkpoint_every": every}
    prepared = prepared_run(framework, algorithm, **usual | asked)
    initialize(prepared, folder)
    return prepared


def _execute(prepared: Prepared, folder: Path, kills: tuple[int, ...]) -> None:
    """Carries the run out, and kills this process in the middle of some environment steps."""
    make_env = TrainingMonitor.make_env

    def deadly(monitor: TrainingMonitor) -> Any:
        env = make_env(monitor)
        task: Any = env.unwrapped
        step = task.step

        def dying(action: Any) -> Any:
            if monitor.steps + BEFORE in kills and monitor.keeper:
                monitor.keeper.hurry()
            if monitor.steps in kills:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(action)

        task.step = dying
        return env

    patched: Any = TrainingMonitor  # in this process, which ends with it
    patched.make_env = deadly if kills else make_env
    with Lease.acquire(folder) as lease:
        execute(prepared, load_adapter(prepared.spec.framework), RunFolder(lease))


def _has_own_threads(framework: str) -> bool:
    """Whether its library keeps threads, which a copy of the process would lack."""
    return libraries(framework) != ("torch",)


def _in_a_new_process(work: Callable[[], None]) -> int:
    """Does it in a process that imports everything anew, and returns how that ended."""
    code = "import cloudpickle, sys; cloudpickle.load(sys.stdin.buffer)()"
    return subprocess.run([sys.executable, "-c", code], input=cloudpickle.dumps(work)).returncode


def _in_a_copy(work: Callable[[], None]) -> int:
    """Does it in a copy of this process, and returns how that ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
