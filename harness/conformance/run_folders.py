"""Tests of a run's files: after a run in a fresh process, after errors, and after it was killed."""

import contextlib
import dataclasses
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from parallax.envs.scripted import DISCRETE_FAULT_ENV_IDS, FAULT_ENV_IDS, FAULT_STEP
from parallax.harness.conformance.trainings import (
    STEPS,
    TrainingResult,
    get_libraries,
    get_scripted_task,
    make_base_hyperparameters,
    train_algorithm,
)
from parallax.harness.contract.adapter import Adapter, Checkpointable
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.interpreter import add_project_to_path
from parallax.harness.contract.run_spec import RUN_DEFAULTS, make_run_spec
from parallax.harness.policies.loading import NotLoadableError, load_policy
from parallax.harness.policies.worker import (
    EvaluationConditions,
    evaluate_loaded_policy,
    get_recorded_returns,
    has_same_returns,
)
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.layout import CHECKPOINT_FOLDER, EVALUATIONS_FILE, TRACE_FILE
from parallax.harness.record.lock import RunLock
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.forked_process import ForkServerPool
from parallax.harness.sweep.run_process import RunOutcome, RunProcess
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.monitor import TrainingMonitor
from parallax.harness.train.prepare import PreparedRun, prepare_run
from parallax.harness.train.run import execute_run

ALLOWED_FILES = {"run.json", "evaluations.npz", "trace.parquet", "policy.npz", "log.txt"}
ALLOWED_FILES |= {"diagnosis.json"}
RESUMED_STEPS = 192
KILL_STEPS = (70, 131)
"""Environment steps during which a run is killed."""
CHECKPOINT_LEAD_STEPS = 20
"""Environment steps between the request of a checkpoint and the kill."""
# Mounts a small disk for one process and its children only; this needs no root privileges.
_SMALL_DISK_COMMAND = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")
_SMALL_DISK_SCRIPT = "mount -t tmpfs -o size=512k none {folder}; cd {folder}; "


def check_last_evaluation_again(folder: Path) -> None:
    """Check that the saved policy of a run has the same returns as in its last evaluation."""
    try:
        policy = load_policy(folder)
    except NotLoadableError as reason:
        pytest.skip(str(reason))
    again = evaluate_loaded_policy(policy, EvaluationConditions())
    assert has_same_returns(again, get_recorded_returns(policy))


class RunFolderConformance:
    """Tests of run folders after success, errors, divergence, Ctrl-C and a full disk."""

    framework: str

    def test_recorded_run_in_a_fresh_process_ends_in_the_same_weights(self, algorithm: str) -> None:
        """Evaluation, recording, diagnosis and earlier work in this process change no weights."""
        done = record_run(self.framework, algorithm)
        reading = read_run(done.folder)
        run = reading.content
        assert done.outcome.status == "completed", done.outcome.failure
        assert run["weights_sha256"] == done.train_bare().digest
        assert reading.complete, reading.reason
        assert {file.name for file in done.folder.iterdir()} <= ALLOWED_FILES

    def test_diagnosis_watches_the_run(self, algorithm: str) -> None:
        """The diagnosis measures environment, policy and networks, and none of it fails."""
        done = record_run(self.framework, algorithm)
        assert done.outcome.status == "completed", done.outcome.failure
        report = json.loads((done.folder / "diagnosis.json").read_text())
        assert not report["problems"]
        wanted = {"return", "weight_size", "gradient_norm", "shift_round"}
        assert wanted <= report["signals"].keys()
        assert (
            report["evaluations"]["vanishing-or-exploding-gradients"]
            and report["evaluations"]["bad-weights"]
        )

    def test_learned_policy_plays_its_last_evaluation_again(self, algorithm: str) -> None:
        """A saved policy acts as before when it is loaded into the framework's own networks."""
        done = record_run(self.framework, algorithm)
        assert read_run(done.folder).complete, done.outcome.failure
        check_last_evaluation_again(done.folder)

    @pytest.mark.parametrize("fault", ["raises", "nan"])
    def test_accident_in_the_task_leaves_a_failed_run_that_says_so(
        self, algorithm: str, fault: str, tmp_path: Path
    ) -> None:
        """An exception's message is reported; a run with observations of nan never completes."""
        folder = tmp_path / "run"
        prepared = _initialize_run(
            self.framework, algorithm, _get_faulty_env_id(algorithm, fault), folder
        )
        status = execute_prepared_run(prepared, folder)
        run = _check_run_folder(folder, "failed")
        assert status == "failed"
        if fault == "raises":
            assert f"the task broke at step {FAULT_STEP}" in run["failure"]

    def test_ctrl_c_leaves_an_interrupted_run(self, algorithm: str, tmp_path: Path) -> None:
        """Upstream does not swallow a signal during a step."""
        folder = tmp_path / "run"
        prepared = _initialize_run(
            self.framework, algorithm, _get_faulty_env_id(algorithm, "interrupts"), folder
        )
        with pytest.raises(KeyboardInterrupt):
            execute_prepared_run(prepared, folder)
        run = _check_run_folder(folder, "interrupted")
        assert run["steps"]["taken"] == FAULT_STEP

    def test_full_disk_leaves_a_failed_run_that_says_so(self, tmp_path: Path) -> None:
        """The status can still be written to a disk that is full."""
        probe = [*_SMALL_DISK_COMMAND, _SMALL_DISK_SCRIPT.format(folder=tmp_path)]
        if not shutil.which("unshare") or subprocess.run(probe, capture_output=True).returncode:
            pytest.skip("this system lets no process mount a small disk for itself")
        algorithm = next(a for a in ALGORITHMS if load_adapter(self.framework).supports(a))
        run, disk = tmp_path / "run", tmp_path / "disk"
        disk.mkdir()
        _initialize_run(self.framework, algorithm, _get_faulty_env_id(algorithm, "fills"), run)
        script = (
            _SMALL_DISK_SCRIPT.format(folder=disk) + f"cp {run}/run.json .; "
            f"{sys.executable} -m parallax.harness.worker . >log.txt 2>&1 || true; "
            f"rm filler; cp -a . {run}"
        )
        done = subprocess.run(
            [*_SMALL_DISK_COMMAND, script],
            env=add_project_to_path(dict(os.environ)),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        failure = _check_run_folder(run, "failed")["failure"]
        assert "No space left on device" in failure


def _get_faulty_env_id(algorithm: str, fault: str) -> str:
    discrete = ALGORITHMS[algorithm].actions == "discrete"
    return (DISCRETE_FAULT_ENV_IDS if discrete else FAULT_ENV_IDS)[fault]


@dataclasses.dataclass(frozen=True)
class _RecordedRun:
    """A cached run that was executed in its own process and is shared by several tests."""

    scratch: tempfile.TemporaryDirectory[str]  # removed with this object
    prepared: PreparedRun
    outcome: RunOutcome

    @property
    def folder(self) -> Path:
        return self.outcome.folder

    def train_bare(self) -> TrainingResult:
        """Train the same in this process, without evaluation, recording and diagnosis."""
        spec, native = self.prepared.spec, self.prepared.native
        return train_algorithm(
            spec.framework,
            spec.algorithm,
            self.prepared.hyperparameters,
            env_id=spec.env,
            patch_constants=True,
            converted_fields=tuple(native.conversions),
        )


@functools.lru_cache(maxsize=16)
def record_run(framework: str, algorithm: str, env_id: str | None = None) -> _RecordedRun:
    """Execute a run as a sweep does; results are cached."""
    scratch = tempfile.TemporaryDirectory()
    folder = Path(scratch.name) / "run"
    watched = {"diagnosis": {"mode": "on", "period": 16}}
    task = env_id or get_scripted_task(algorithm)
    prepared = _initialize_run(framework, algorithm, task, folder, **watched)
    outcome = RunProcess(prepared.spec, folder, make_warm_process(framework)).outcome()
    _check_no_processes_left(read_run(folder).content["pid"])
    return _RecordedRun(scratch, prepared, outcome)


@functools.lru_cache(maxsize=4)
def make_warm_process(framework: str) -> ForkServerPool:
    """Return a fork server whose processes share nothing but the imports of all algorithms."""
    adapter = load_adapter(framework)
    supported = [name for name in ALGORITHMS if adapter.supports(name)]
    specs = []
    for name in supported:
        with contextlib.suppress(Exception):  # the algorithm's own tests report the error
            specs.append(_prepare_short_run(framework, name, get_scripted_task(name)).spec)
    return ForkServerPool(specs)


def _initialize_run(
    framework: str, algorithm: str, env_id: str, folder: Path, **settings: Any
) -> PreparedRun:
    """Create a pending run with the base hyperparameters in `folder`."""
    prepared = _prepare_short_run(framework, algorithm, env_id, **settings)
    initialize_run(prepared, folder)
    return prepared


def _prepare_short_run(framework: str, algorithm: str, env_id: str, **settings: Any) -> PreparedRun:
    usual: dict[str, Any] = {"env": env_id, "steps": STEPS, "eval_every": 32}
    return prepare_scripted_run(framework, algorithm, **usual | settings)


def prepare_scripted_run(
    framework: str, algorithm: str, changes: tuple[tuple[str, Any], ...] = (), **settings: Any
) -> PreparedRun:
    """Prepare a run with the base hyperparameters, or `changes` of them, on a scripted task."""
    base = dataclasses.asdict(make_base_hyperparameters(framework, algorithm)) | dict(changes)
    usual = {
        "study": "conformance",
        "framework": framework,
        "algorithm": algorithm,
        "env": get_scripted_task(algorithm),
        "hps": framework,
        "seed": 0,
        "alignment": "exact",
        "eval_episodes": 2,
    }
    return prepare_run(
        make_run_spec(RUN_DEFAULTS | usual | settings, base, base), load_adapter(framework)
    )


def execute_prepared_run(prepared: PreparedRun, folder: Path) -> str:
    """Train a pending run in this process, and return its status."""
    with RunLock.acquire(folder) as lock:
        return execute_run(prepared, load_adapter(prepared.spec.framework), RunFolder(lock))


def _check_no_processes_left(session: int) -> None:
    deadline = time.monotonic() + 5
    while left := _list_session_processes(session):
        assert time.monotonic() < deadline, f"processes {left} are left"
        time.sleep(0.1)


def _list_session_processes(session: int) -> list[int]:
    """Return the process ids of a session from /proc; none on systems without it."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended meanwhile
            state, _, _, of_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(of_session) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


def _check_run_folder(folder: Path, status: str) -> dict[str, Any]:
    """Check status, reason and files of a failed run, and return the content of `run.json`."""
    run = dict(read_run(folder).content)
    assert run["status"] == status, run["failure"]
    assert run["failure"], "nothing says what happened"
    assert run["steps"]["taken"] >= FAULT_STEP
    # A training of more than a second has a checkpoint.
    assert {file.name for file in folder.iterdir()} <= {*ALLOWED_FILES, "checkpoint"}
    return run


class ResumeConformance:
    """Tests of runs that are killed twice by SIGKILL, which no process can catch."""

    framework: str

    @pytest.mark.parametrize("wrappers", ["none", "normalized"])
    def test_run_that_is_killed_ends_as_one_that_is_not(
        self, algorithm: str, wrappers: str, tmp_path: Path
    ) -> None:
        """Weights, evaluations and trace are the same to the last byte."""
        check_killed_run(self.framework, algorithm, tmp_path / "run", wrappers=wrappers)


def check_killed_run(framework: str, algorithm: str, folder: Path, **settings: Any) -> None:
    """Execute a run, kill it twice, and compare its results with those of an uninterrupted run."""
    undisturbed = _run_uninterrupted(framework, algorithm, **settings)
    if not undisturbed.has_checkpointable:
        pytest.skip(f"the adapter of {framework} does not hand out its state")
    prepared = _initialize_resumable_run(framework, algorithm, folder, every=60, **settings)
    # Other libraries than torch have threads, which a forked process would lack.
    process = _run_in_fork if get_libraries(framework) == ("torch",) else _run_in_new_process
    process(lambda: _execute_and_kill(prepared, folder, KILL_STEPS[:1]))
    process(lambda: _execute_and_kill(prepared, folder, KILL_STEPS[1:]))
    assert process(lambda: _execute_and_kill(prepared, folder, ())) == 0
    reading = read_run(folder)
    assert reading.complete, reading.reason
    content = reading.content
    resumed_from = [attempt["resumed_from"] for attempt in content["attempts"]]
    resumed_from.append(content["resumed_from"])
    assert content["resume_notes"] == []
    assert resumed_from[0] is None and all(step for step in resumed_from[1:]), resumed_from
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
def _run_uninterrupted(framework: str, algorithm: str, **settings: Any) -> _UninterruptedRun:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        prepared = _initialize_resumable_run(framework, algorithm, folder, every=0, **settings)
        adapter, attached = _capture_checkpointable(load_adapter(framework))
        with RunLock.acquire(folder) as lock:
            execute_run(prepared, adapter, RunFolder(lock))
        reading = read_run(folder)
        assert reading.complete, reading.reason
        files = {name: (folder / name).read_bytes() for name in (EVALUATIONS_FILE, TRACE_FILE)}
        return _UninterruptedRun(reading.content["weights_sha256"], files, attached[0] is not None)


def _capture_checkpointable(adapter: Any) -> tuple[Adapter, list[Checkpointable | None]]:
    """Return an adapter, and the list to which it appends the state that it hands out."""
    attached: list[Checkpointable | None] = []

    class CapturingAdapter(type(adapter)):  # type: ignore[misc]
        def train(self, *arguments: Any) -> None:
            *others, monitor = arguments
            attach = monitor.attach

            def capture_and_attach(*parts: Any, **named: Any) -> None:
                attached.append(named.get("checkpointable", (*parts, None, None)[3]))
                attach(*parts, **named)

            monitor.attach = capture_and_attach
            super().train(*others, monitor)

    return CapturingAdapter(), attached


def _initialize_resumable_run(
    framework: str, algorithm: str, folder: Path, every: float, **settings: Any
) -> PreparedRun:
    usual = {"steps": RESUMED_STEPS, "eval_every": 48, "checkpoint_every": every}
    prepared = prepare_scripted_run(framework, algorithm, **usual | settings)
    initialize_run(prepared, folder)
    return prepared


def _execute_and_kill(prepared: PreparedRun, folder: Path, kills: tuple[int, ...]) -> None:
    """Execute the run, and kill this process during one of some environment steps."""
    make_env = TrainingMonitor.make_env

    def make_env_that_kills(monitor: TrainingMonitor) -> Any:
        env = make_env(monitor)
        task: Any = env.unwrapped
        step = task.step

        def step_or_kill(action: Any) -> Any:
            if monitor.steps + CHECKPOINT_LEAD_STEPS in kills and monitor.checkpoint_manager:
                monitor.checkpoint_manager.request_checkpoint()
            if monitor.steps in kills:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(action)

        task.step = step_or_kill
        return env

    patched: Any = TrainingMonitor  # never restored: this process ends after the run
    patched.make_env = make_env_that_kills if kills else make_env
    execute_prepared_run(prepared, folder)


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
