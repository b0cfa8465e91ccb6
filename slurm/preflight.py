"""Preflight: takes one step with each distinct setting of runs, before anything is trained."""

import collections
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from multiprocessing.connection import wait
from pathlib import Path

import joblib
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from parallax.harness.contract.fields import SpecError, check_value
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.sweep.run_process import format_signal_name, make_run_environment
from parallax.harness.sweep.sweep import initialize_run
from parallax.slurm.preflight_trials import LOADING_SECONDS, PreflightTrial, WorkerKey, make_trials

HERE, CLUSTER = "here", "cluster"
DEFAULT_SECONDS = 180.0
"""Default time limit in seconds of one setting, loading its framework included."""

_MAX_SECONDS = 1e6  # seconds; the system refuses to wait for more than some weeks
_GRACE_SECONDS = 2.0  # seconds from the end of a process's output to its exit
_MAX_LOG_BYTES = 4096  # bytes of a process' output that are read to explain its end


@dataclasses.dataclass(frozen=True)
class PreflightOptions:
    """Options of the preflight of a sweep.

    Attributes:
        where: `here`, on this machine, or `cluster`, in a job that all others wait for.
        processes: Number of settings at a time; -1 is one per core.
        seconds: Time limit of each.
    """

    where: str = HERE
    processes: int = -1
    seconds: float = DEFAULT_SECONDS


def read_preflight_options(
    preflight: object, processes: object, seconds: object
) -> PreflightOptions | None:
    """Return the options of `hydra/launcher=slurm` as given; None for no preflight.

    Raises:
        SpecError: Names the option, its value and what is allowed.
    """
    name = "hydra.launcher.preflight"
    if not isinstance(preflight, bool) and preflight != CLUSTER:
        raise SpecError(f"{name}={preflight!r} must be true, false or {CLUSTER}.")
    count = check_value(f"{name}_processes", processes, int, {})
    if count < 1 and count != -1:
        raise SpecError(
            f"{name}_processes={count} is not a number of settings at a time: give 1 or more, or "
            f"-1 for one per core. {name}=false leaves the preflight out."
        )
    limit = check_value(f"{name}_seconds", seconds, float, {"above": 0, "maximum": _MAX_SECONDS})
    if preflight is False:
        return None
    return PreflightOptions(CLUSTER if preflight == CLUSTER else HERE, count, limit)


def run_preflight(
    specs: Sequence[RunSpec], processes: int = -1, seconds: float = DEFAULT_SECONDS
) -> int:
    """Take one step with each distinct framework, algorithm, task and hyperparameters.

    Args:
        specs: Runs that have passed all other checks.
        processes: Number of processes; -1 is one per core.
        seconds: Time limit of each setting.

    Returns:
        Number of settings that were tried.

    Raises:
        SpecError: Some could not take a step; names each with its error. Or no run can be tried
            in the folder for temporary files.
        KeyboardInterrupt: After every process has ended.
    """
    _check_temporary_folder()
    trials = make_trials(specs)
    jobs = min(joblib.effective_n_jobs(processes), len(trials))
    count = sum(len(trial.settings) for trial in trials)
    console = Console(stderr=True, highlight=False)
    console.print(_format_announcement(trials, jobs), soft_wrap=True)
    failures = _run_trials(trials, jobs, seconds, console)
    if failures:
        lines = [f"  {name}: {text}" for trial, text in failures.items() for name in trial.settings]
        raise SpecError(
            f"{len(lines)} of {count} settings cannot take a single step, so nothing is "
            "started:\n" + "\n".join(lines)
        )
    return count


def _check_temporary_folder() -> None:
    folder = tempfile.gettempdir()
    try:
        folder.encode()
    except UnicodeEncodeError as error:
        raise SpecError(
            f"TMPDIR={folder!a} is not UTF-8, as the name of a run folder must be: choose another "
            "folder for temporary files, or hydra.launcher.preflight=false."
        ) from error


def estimate_cost(trials: Iterable[PreflightTrial], jobs: int) -> tuple[float, float]:
    """Return the approximate CPU seconds and seconds that trials will take."""
    costs: dict[WorkerKey, float] = collections.defaultdict(float)
    for trial in trials:
        costs[trial.group] += trial.cost
    processes = max(jobs, len(costs))
    cpu = sum(costs.values()) + LOADING_SECONDS * processes
    return cpu, cpu / jobs


def _format_announcement(trials: Sequence[PreflightTrial], jobs: int) -> str:
    count = sum(len(trial.settings) for trial in trials)
    cpu, seconds = estimate_cost(trials, jobs)
    alike = f" in {len(trials)} trials" if len(trials) < count else ""
    noun = "setting" if count == 1 else "settings"
    return (
        f"Preflight of {count} {noun}{alike}: about {_format_duration(cpu)} of CPU time, "
        f"{_format_duration(seconds)} with {jobs} at a time."
    )


def _format_duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _run_trials(
    trials: Sequence[PreflightTrial], jobs: int, seconds: float, console: Console
) -> dict[PreflightTrial, str]:
    """Return the failures, in the order of the trials."""
    failures: dict[PreflightTrial, str] = {}
    with (
        tempfile.TemporaryDirectory(prefix="parallax-preflight-") as scratch,
        _PreflightDisplay(trials, console) as display,
        _WorkerPool(trials, jobs, seconds, Path(scratch)) as crew,
    ):
        while crew.is_busy:
            display.show(crew.running_trials, len(failures))
            for trial, failure in crew.wait_for_outcomes():
                display.advance_progress(trial)
                if failure:
                    failures[trial] = failure
        display.show([], len(failures))
    return {trial: failures[trial] for trial in trials if trial in failures}


class _PreflightDisplay:
    """Progress bar in units of computing time, with the trials that are running."""

    def __init__(self, trials: Sequence[PreflightTrial], console: Console) -> None:
        self._count, self._done = len(trials), 0
        self._progress = Progress(
            TextColumn("Preflight"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeRemainingColumn(),
            TextColumn("[red]{task.fields[failed]}"),
            TextColumn("{task.fields[now]}", table_column=Column(no_wrap=True, ratio=1)),
            console=console,
            speed_estimate_period=600,
            # Without a terminal there would be one line, after the end.
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(
            "", total=sum(trial.cost for trial in trials), done="", failed="", now=""
        )

    def __enter__(self) -> "_PreflightDisplay":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, under_way: Sequence[PreflightTrial], failed: int) -> None:
        self._progress.update(
            self._task,
            done=f"{self._done}/{self._count}",
            failed=f"{failed} failed" if failed else "",
            now=", ".join(trial.settings[0] for trial in under_way),
        )

    def advance_progress(self, trial: PreflightTrial) -> None:
        self._done += 1
        self._progress.advance(self._task, trial.cost)


class _WorkerPool:
    """Processes that try the settings left, each for one framework; all end with the block."""

    def __init__(
        self, trials: Sequence[PreflightTrial], jobs: int, seconds: float, scratch: Path
    ) -> None:
        self._jobs, self._seconds, self._scratch = jobs, seconds, scratch
        self._left: dict[WorkerKey, collections.deque[PreflightTrial]] = {}
        for trial in trials:
            self._left.setdefault(trial.group, collections.deque()).append(trial)
        self._workers: list[_TrialWorker] = []

    def __enter__(self) -> "_WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    @property
    def is_busy(self) -> bool:
        """Return whether trials are running, after starting as many processes as are useful."""
        while len(self._workers) < self._jobs and (queue := self._longest_queue()):
            folder, trial = self._prepare(queue.popleft())
            self._workers.append(_TrialWorker(trial))
            self._workers[-1].begin(trial, folder, self._seconds)
        return bool(self._workers)

    @property
    def running_trials(self) -> list[PreflightTrial]:
        """Return the trials that are running."""
        return [worker.trial for worker in self._workers]

    def wait_for_outcomes(self) -> list[tuple[PreflightTrial, str | None]]:
        """Wait for some trials; return each with the reason why it failed, or None."""
        patience = min(worker.deadline for worker in self._workers) - time.monotonic()
        wait([worker.fileno() for worker in self._workers], max(patience, 0))
        outcomes = []
        for worker in list(self._workers):
            outcome = worker.poll()
            if outcome is None and time.monotonic() >= worker.deadline:
                limit = f"{self._seconds:g} s (hydra.launcher.preflight_seconds)"
                outcome = _TrialOutcome(f"did not take a step within {limit}", is_over=True)
            if outcome is None:
                continue
            outcomes.append((worker.trial, outcome.failure))
            queue = self._left[worker.trial.group]
            if outcome.is_over or not queue:
                worker.end()
                self._workers.remove(worker)
            else:
                folder, trial = self._prepare(queue.popleft())
                worker.begin(trial, folder, self._seconds)
        return outcomes

    def _longest_queue(self) -> collections.deque[PreflightTrial] | None:
        """Return the queue that one more process helps most; None if loading it costs more."""
        members = collections.Counter(worker.trial.group for worker in self._workers)
        longest, queue = 0.0, None
        for group, left in self._left.items():
            share = sum(trial.cost for trial in left) / (members[group] + 1)
            worth = share > LOADING_SECONDS or not members[group]
            if left and worth and share > longest:
                longest, queue = share, left
        return queue

    def _prepare(self, trial: PreflightTrial) -> tuple[Path, PreflightTrial]:
        folder = Path(tempfile.mkdtemp(dir=self._scratch)) / "run"
        initialize_run(trial.prepared, folder)
        return folder, trial


@dataclasses.dataclass(frozen=True)
class _TrialOutcome:
    failure: str | None
    is_over: bool  # the process has ended


class _TrialWorker:
    """A process of `parallax.slurm.preflight_worker`, and its current trial."""

    def __init__(self, trial: PreflightTrial) -> None:
        spec = trial.prepared.spec
        self.trial, self.deadline = trial, 0.0
        self._answer = b""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [spec.python or sys.executable, "-m", "parallax.slurm.preflight_worker"],
            env=make_run_environment(spec.threads, {}, adds_project=spec.python is not None),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # Its own session: all that it starts ends with it, and Ctrl-C does not reach it.
            start_new_session=True,
        )

    def fileno(self) -> int:
        """Return the file descriptor for `wait`."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def begin(self, trial: PreflightTrial, folder: Path, seconds: float) -> None:
        """Hand over the next trial."""
        self.trial, self.deadline = trial, time.monotonic() + seconds
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, as `poll` will find
            # JSON in ASCII: the name can contain any bytes or line breaks.
            self._process.stdin.write(f"{json.dumps(str(folder))}\n".encode())
            self._process.stdin.flush()

    def poll(self) -> _TrialOutcome | None:
        """Return the outcome of the trial, or None while it is running; never waits."""
        if not wait([self.fileno()], 0):
            return None
        content = os.read(self.fileno(), 1 << 16)
        self._answer += content
        if not content:
            return _TrialOutcome(f"ended the process: {self._describe_end()}", is_over=True)
        if not self._answer.endswith(b"\n"):
            return None
        answer, self._answer = json.loads(self._answer), b""
        return _TrialOutcome(answer["failure"], is_over=False)

    def end(self) -> int:
        """Kill the process and everything that it started; return its exit code."""
        # Before it is waited for: until then its process id cannot be reused.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._log):
            with contextlib.suppress(BrokenPipeError):
                if file:
                    file.close()
        return code

    def _describe_end(self) -> str:
        """Return why the process ended, as far as can be observed from outside."""
        end = None
        deadline = time.monotonic() + _GRACE_SECONDS
        while end is None and time.monotonic() < deadline:
            # It stays a zombie, which `end` removes together with its group.
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            end = os.waitid(os.P_PID, self._process.pid, options)
            time.sleep(0.01)
        if end is not None and end.si_code != os.CLD_EXITED:
            return f"killed by {format_signal_name(end.si_status)}"
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _MAX_LOG_BYTES))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without output"
