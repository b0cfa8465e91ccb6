"""Tries one step of everything that differs between runs, before anything is trained."""

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

from harness.contract.fields import SpecError, check
from harness.contract.interpreter import lend_project
from harness.contract.run_spec import RunSpec
from harness.sweep.folders import initialize
from harness.sweep.process import THREAD_VARIABLES
from slurm.trials import LOADING, Group, Trial, make_trials

HERE, CLUSTER = "here", "cluster"
SECONDS = 180.0
"""How long a setting may take by default, loading its framework included."""

_LONGEST = 1e6  # seconds; the system refuses to wait for more than some weeks
_GRACE = 2.0  # seconds between the end of a process's answers and its own
_LAST_WORDS = 4096  # bytes of what a process printed, to tell why it ended


@dataclasses.dataclass(frozen=True)
class Preflight:
    """How a sweep is tried.

    Attributes:
        where: `here`, on this machine, or `cluster`, in a job that all others wait for.
        processes: How many settings at a time; -1 is one per core.
        seconds: How long each may take.
    """

    where: str = HERE
    processes: int = -1
    seconds: float = SECONDS


def read_options(preflight: object, processes: object, seconds: object) -> Preflight | None:
    """The options of `hydra/launcher=slurm` as given; None for no preflight.

    Raises:
        SpecError: Names the option, its value and what is allowed.
    """
    name = "hydra.launcher.preflight"
    if not isinstance(preflight, bool) and preflight != CLUSTER:
        raise SpecError(f"{name}={preflight!r} must be true, false or {CLUSTER}.")
    count = check(f"{name}_processes", processes, int, {})
    if count < 1 and count != -1:
        raise SpecError(
            f"{name}_processes={count} is no number of settings at a time: give 1 or more, or -1 "
            f"for one per core. {name}=false leaves the preflight out."
        )
    limit = check(f"{name}_seconds", seconds, float, {"above": 0, "maximum": _LONGEST})
    if preflight is False:
        return None
    return Preflight(CLUSTER if preflight == CLUSTER else HERE, count, limit)


def preflight(specs: Sequence[RunSpec], processes: int = -1, seconds: float = SECONDS) -> int:
    """Takes one step with each distinct framework, algorithm, task and hyperparameters.

    Args:
        specs: Runs that have passed all other checks.
        processes: How many to use; -1 is one per core.
        seconds: How long each setting may take.

    Returns:
        Number of settings that were tried.

    Raises:
        SpecError: Some could not take a step; names each with its error. Or no run can be tried
            in the folder for temporary files.
        KeyboardInterrupt: After every process has ended.
    """
    _check_temporary()
    trials = make_trials(specs)
    jobs = min(joblib.effective_n_jobs(processes), len(trials))
    count = sum(len(trial.settings) for trial in trials)
    console = Console(stderr=True, highlight=False)
    console.print(_announcement(trials, jobs), soft_wrap=True)
    failures = _try_all(trials, jobs, seconds, console)
    if failures:
        lines = [f"  {name}: {text}" for trial, text in failures.items() for name in trial.settings]
        raise SpecError(
            f"{len(lines)} of {count} settings cannot take a single step, so nothing is "
            "started:\n" + "\n".join(lines)
        )
    return count


def _check_temporary() -> None:
    folder = tempfile.gettempdir()
    try:
        folder.encode()
    except UnicodeEncodeError as error:
        raise SpecError(
            f"TMPDIR={folder!a} is not UTF-8, as the name of a run folder must be: choose another "
            "folder for temporary files, or hydra.launcher.preflight=false."
        ) from error


def estimate(trials: Iterable[Trial], jobs: int) -> tuple[float, float]:
    """CPU seconds and seconds that trials will about take."""
    costs: dict[Group, float] = collections.defaultdict(float)
    for trial in trials:
        costs[trial.group] += trial.cost
    processes = max(jobs, len(costs))
    cpu = sum(costs.values()) + LOADING * processes
    return cpu, cpu / jobs


def _announcement(trials: Sequence[Trial], jobs: int) -> str:
    count = sum(len(trial.settings) for trial in trials)
    cpu, seconds = estimate(trials, jobs)
    alike = f" in {len(trials)} trials" if len(trials) < count else ""
    noun = "setting" if count == 1 else "settings"
    return (
        f"Preflight of {count} {noun}{alike}: about {_words(cpu)} of CPU time, "
        f"{_words(seconds)} with {jobs} at a time."
    )


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _try_all(
    trials: Sequence[Trial], jobs: int, seconds: float, console: Console
) -> dict[Trial, str]:
    """What failed, in the order of the trials."""
    failures: dict[Trial, str] = {}
    with (
        tempfile.TemporaryDirectory(prefix="parallax-preflight-") as scratch,
        _Display(trials, console) as display,
        _Crew(trials, jobs, seconds, Path(scratch)) as crew,
    ):
        while crew.is_busy:
            display.show(crew.under_way, len(failures))
            for trial, failure in crew.next_outcomes():
                display.tried(trial)
                if failure:
                    failures[trial] = failure
        display.show([], len(failures))
    return {trial: failures[trial] for trial in trials if trial in failures}


class _Display:
    """A bar as long as what is left to compute, and what is being tried now."""

    def __init__(self, trials: Sequence[Trial], console: Console) -> None:
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

    def __enter__(self) -> "_Display":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, under_way: Sequence[Trial], failed: int) -> None:
        self._progress.update(
            self._task,
            done=f"{self._done}/{self._count}",
            failed=f"{failed} failed" if failed else "",
            now=", ".join(trial.settings[0] for trial in under_way),
        )

    def tried(self, trial: Trial) -> None:
        self._done += 1
        self._progress.advance(self._task, trial.cost)


class _Crew:
    """Processes that try what is left, each one framework; all end with the block."""

    def __init__(self, trials: Sequence[Trial], jobs: int, seconds: float, scratch: Path) -> None:
        self._jobs, self._seconds, self._scratch = jobs, seconds, scratch
        self._left: dict[Group, collections.deque[Trial]] = {}
        for trial in trials:
            self._left.setdefault(trial.group, collections.deque()).append(trial)
        self._workers: list[_Worker] = []

    def __enter__(self) -> "_Crew":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    @property
    def is_busy(self) -> bool:
        """Whether anything is left to try; gives every process something to do."""
        while len(self._workers) < self._jobs and (queue := self._longest_queue()):
            folder, trial = self._prepare(queue.popleft())
            self._workers.append(_Worker(trial))
            self._workers[-1].begin(trial, folder, self._seconds)
        return bool(self._workers)

    @property
    def under_way(self) -> list[Trial]:
        """What is being tried."""
        return [worker.trial for worker in self._workers]

    def next_outcomes(self) -> list[tuple[Trial, str | None]]:
        """Waits for some; each with why it failed, or None."""
        patience = min(worker.deadline for worker in self._workers) - time.monotonic()
        wait([worker.fileno() for worker in self._workers], max(patience, 0))
        outcomes = []
        for worker in list(self._workers):
            outcome = worker.look()
            if outcome is None and time.monotonic() >= worker.deadline:
                outcome = _Outcome(_too_long(self._seconds), is_over=True)
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

    def _longest_queue(self) -> collections.deque[Trial] | None:
        """Where another process helps most; None where it would only load a framework."""
        members = collections.Counter(worker.trial.group for worker in self._workers)
        longest, queue = 0.0, None
        for group, left in self._left.items():
            share = sum(trial.cost for trial in left) / (members[group] + 1)
            worth = share > LOADING or not members[group]
            if left and worth and share > longest:
                longest, queue = share, left
        return queue

    def _prepare(self, trial: Trial) -> tuple[Path, Trial]:
        folder = Path(tempfile.mkdtemp(dir=self._scratch)) / "run"
        initialize(trial.prepared, folder)
        return folder, trial


def _too_long(seconds: float) -> str:
    return f"did not take a step within {seconds:g} s (hydra.launcher.preflight_seconds)"


@dataclasses.dataclass(frozen=True)
class _Outcome:
    failure: str | None
    is_over: bool  # the process tries nothing more


class _Worker:
    """A `slurm.preflight_worker`, and the trial that it has."""

    def __init__(self, trial: Trial) -> None:
        spec = trial.prepared.spec
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(spec.threads))
        if spec.python:
            environment = lend_project(environment)
        self.trial, self.deadline = trial, 0.0
        self._answer = b""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [spec.python or sys.executable, "-m", "slurm.preflight_worker"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # All that it starts ends with it, and Ctrl-C reaches this process only.
            start_new_session=True,
        )

    def fileno(self) -> int:
        """For `wait`."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def begin(self, trial: Trial, folder: Path, seconds: float) -> None:
        """Hands over the next trial."""
        self.trial, self.deadline = trial, time.monotonic() + seconds
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, as `look` will find
            # In ASCII, whatever bytes or ends of lines are in the name.
            self._process.stdin.write(f"{json.dumps(str(folder))}\n".encode())
            self._process.stdin.flush()

    def look(self) -> _Outcome | None:
        """What has become of the trial; None while it goes on. Never waits."""
        if not wait([self.fileno()], 0):
            return None
        content = os.read(self.fileno(), 1 << 16)
        self._answer += content
        if not content:
            return _Outcome(f"ended the process: {self._last_words()}", is_over=True)
        if not self._answer.endswith(b"\n"):
            return None
        answer, self._answer = json.loads(self._answer), b""
        return _Outcome(answer["failure"], is_over=False)

    def end(self) -> int:
        """Kills it and everything that it started; returns its exit code."""
        # Before it is waited for: until then its number belongs to nobody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._log):
            with contextlib.suppress(BrokenPipeError):
                if file:
                    file.close()
        return code

    def _last_words(self) -> str:
        """Why the process ended, from the outside."""
        end = None
        deadline = time.monotonic() + _GRACE
        while end is None and time.monotonic() < deadline:
            # It stays a zombie, for `end` to clear away with its group.
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            end = os.waitid(os.P_PID, self._process.pid, options)
            time.sleep(0.01)
        if end is not None and end.si_code != os.CLD_EXITED:
            return f"killed by {_signal_name(end.si_status)}"
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _LAST_WORDS))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
