"""Runs many runs on this machine, each in a process of its own."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import joblib

from harness.adapter import load_adapter
from harness.fields import SpecError
from harness.interpreter import lend_project
from harness.prepare import Prepared, prepare
from harness.recording import read_run, update_run
from harness.run import initialize
from harness.run_spec import RunSpec
from harness.sweep_display import SweepDisplay

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one run of a sweep ended.

    Attributes:
        spec: The run.
        folder: Its folder.
        status: Its final status, or `skipped` where it was complete before.
        failure: What went wrong, if anything.
    """

    spec: RunSpec
    folder: Path
    status: str
    failure: str | None = None


def run_all(specs: Sequence[RunSpec], results_dir: Path, n_jobs: int) -> list[Outcome]:
    """Checks all runs, then executes those that are not complete, `n_jobs` at a time.

    Nothing is written before every run has passed its checks.

    Raises:
        SpecError: A run cannot be carried out as asked.
        KeyboardInterrupt: After every running process has ended.
    """
    prepared = _prepare_all(specs)
    folders = [spec.folder(results_dir).absolute() for spec in specs]
    if len(set(folders)) < len(folders):
        raise SpecError("The sweep names the same run more than once; let its values differ.")
    todo = [initialize(run, folder) for run, folder in zip(prepared, folders, strict=True)]
    pending = {folder: run for run, folder, due in zip(prepared, folders, todo, strict=True) if due}
    outcomes = _execute(pending, len(specs) - len(pending), joblib.effective_n_jobs(n_jobs))
    return [
        outcomes.get(folder, Outcome(spec, folder, "skipped"))
        for spec, folder in zip(specs, folders, strict=True)
    ]


def _execute(pending: dict[Path, Prepared], skipped: int, jobs: int) -> dict[Path, Outcome]:
    stop = threading.Event()
    outcomes: dict[Path, Outcome] = {}
    with (
        SweepDisplay(pending, skipped, jobs) as display,
        ThreadPoolExecutor(max_workers=jobs) as pool,
    ):
        futures = [pool.submit(_run_one, run.spec, folder, stop) for folder, run in pending.items()]
        try:
            for future in as_completed(futures):
                outcome = future.result()
                outcomes[outcome.folder] = outcome
                display.finished(outcome.folder, outcome.status, outcome.failure)
        except BaseException:
            # Leaving the pool waits for its threads, and they for their processes.
            stop.set()
            raise
    return outcomes


def _prepare_all(specs: Sequence[RunSpec]) -> list[Prepared]:
    adapters = {name: load_adapter(name) for name in {spec.framework for spec in specs}}
    problems: dict[str, str] = {}
    prepared = []
    for spec in specs:
        try:
            prepared.append(prepare(spec, adapters[spec.framework]))
        except SpecError as error:
            problems.setdefault(str(error), spec.title)
    if len(specs) > 1 and problems:
        raise SpecError("\n".join(f"{title}: {text}" for text, title in problems.items()))
    if problems:
        raise SpecError(next(iter(problems)))
    return prepared


def _run_one(spec: RunSpec, folder: Path, stop: threading.Event) -> Outcome:
    if stop.is_set():
        return Outcome(spec, folder, "pending")
    process = start_worker(folder, spec.threads, spec.python)
    while True:
        try:
            process.wait(timeout=0.2)
            break
        except subprocess.TimeoutExpired:
            if stop.is_set():
                process.send_signal(signal.SIGTERM)
                process.wait()
    return _conclude(spec, folder, process.returncode)


def start_worker(folder: Path, threads: int, python: str | None) -> subprocess.Popen[bytes]:
    """Starts `harness.worker` on an initialised folder, its output going to `log.txt`."""
    environment = os.environ | {name: str(threads) for name in _THREAD_VARIABLES}
    if python:
        environment = lend_project(environment)
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(
            [python or sys.executable, "-m", "harness.worker", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            # Ctrl-C reaches the sweep only, which then tells its workers, once.
            start_new_session=True,
        )


def _conclude(spec: RunSpec, folder: Path, returncode: int) -> Outcome:
    run = read_run(folder)
    if run["status"] in ("pending", "running"):
        failure = _describe_exit(returncode, folder)
        run |= {"status": "failed", "failure": failure}
        with contextlib.suppress(OSError):  # on a full disk the outcome below still tells
            update_run(folder, status="failed", failure=failure)
    return Outcome(spec, folder, run["status"], run["failure"])


def _describe_exit(returncode: int, folder: Path) -> str:
    if returncode < 0:
        return f"the process was killed by {signal.Signals(-returncode).name}"
    lines = (folder / "log.txt").read_text(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    return f"the process ended with exit code {returncode}{last}"
