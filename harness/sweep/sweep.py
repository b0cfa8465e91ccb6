"""Runs many runs on this machine, each in a process of its own."""

import dataclasses
import functools
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import joblib

from harness.contract.fields import SpecError
from harness.contract.run_spec import RunSpec
from harness.record.lease import LeaseHeld, LeaseLost, watch
from harness.record.reading import read_run
from harness.sweep.allocator import NONE, allocator_variables
from harness.sweep.display import SweepDisplay
from harness.sweep.folders import initialize_all
from harness.sweep.other_code import remark
from harness.sweep.preloaded import Preloaded
from harness.sweep.process import Outcome, RunProcess, mark
from harness.train.prepare import Prepared, prepare_all
from harness.train.stopping import SWEEP_ENDED


def run_all(
    specs: Sequence[RunSpec], results_dir: Path, n_jobs: int, malloc: str = NONE
) -> list[Outcome]:
    """Checks all runs, then executes those that are not complete, `n_jobs` at a time.

    Nothing is written before every run has passed its checks, and nothing stays written where
    a folder cannot be made.

    Args:
        specs: The runs.
        results_dir: Where their folders are.
        n_jobs: How many at a time; -1 is one per core.
        malloc: The allocator that they use; see `allocator_variables`.

    Raises:
        SpecError: A run cannot be carried out as asked.
        KeyboardInterrupt: After every running process has ended.
    """
    jobs = _processes(n_jobs)
    variables = allocator_variables("hydra.launcher.malloc", malloc)
    prepared = prepare_all(specs)
    folders = [spec.folder(results_dir).absolute() for spec in specs]
    if len(set(folders)) < len(folders):
        raise SpecError("The sweep names the same run more than once; let its values differ.")
    runs = dict(zip(folders, prepared, strict=True))
    silent, _ = watch(
        runs,
        say=lambda text: print(text, file=sys.stderr),
        is_wanted=lambda folder: not read_run(folder).complete,
    )
    pending, others = initialize_all(runs.items(), silent)
    outcomes = {
        folder: Outcome(runs[folder].spec, folder, "running" if holder else "skipped", holder)
        for folder, holder in others.items()
    }
    _tell(others, len(runs))
    outcomes |= _execute(pending, jobs, variables)
    return [outcomes[folder] for folder in folders]


def _tell(others: Mapping[Path, str | None], total: int) -> None:
    """Says which runs are left out."""
    complete = sum(holder is None for holder in others.values())
    if complete:
        print(f"{complete} of {total} runs are complete already.")
    if complete < len(others):
        print(f"{len(others) - complete} of {total} runs are running elsewhere.")
    if other_code := remark(folder for folder, holder in others.items() if holder is None):
        print(other_code)


def _processes(n_jobs: int) -> int:
    try:
        return int(joblib.effective_n_jobs(n_jobs))
    except ValueError:
        raise SpecError(
            f"hydra.launcher.n_jobs={n_jobs} is no number of runs at a time: give 1 or more, "
            "or -1 for one per core."
        ) from None


Start = Callable[[RunSpec, Path], RunProcess]


@dataclasses.dataclass
class _Stop:
    """Tells the threads of a sweep to end their runs, and why."""

    event: threading.Event = dataclasses.field(default_factory=threading.Event)
    number: int = signal.SIGTERM


def _execute(
    pending: dict[Path, Prepared], jobs: int, variables: Mapping[str, str]
) -> dict[Path, Outcome]:
    stop = _Stop()
    outcomes: dict[Path, Outcome] = {}
    specs = [run.spec for run in pending.values()]
    with (
        Preloaded(specs, stop.event.is_set) as preloaded,
        SweepDisplay(pending, jobs) as display,
        ThreadPoolExecutor(max_workers=jobs) as pool,
    ):
        start = functools.partial(RunProcess, preloaded=preloaded, variables=variables)
        futures = [
            pool.submit(_run_one, run.spec, folder, stop, start) for folder, run in pending.items()
        ]
        try:
            for future in as_completed(futures):
                outcome = future.result()
                outcomes[outcome.folder] = outcome
                display.finished(outcome.folder, outcome.status, outcome.failure)
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):
                stop.number = SWEEP_ENDED
            # Leaving the pool waits for its threads, and they for their processes.
            stop.event.set()
            raise
    return outcomes


def _run_one(spec: RunSpec, folder: Path, stop: _Stop, start: Start) -> Outcome:
    """Runs one; whatever happens to its folder is its own failure, and no other run's."""
    if stop.event.is_set():
        return Outcome(spec, folder, "pending")
    try:
        process = start(spec, folder)
    except OSError as error:
        return _unstarted(spec, folder, f"it cannot be started: {error}")
    while not process.wait(0.2):
        if stop.event.is_set():
            process.stop(stop.number)
    return process.outcome()


def _unstarted(spec: RunSpec, folder: Path, failure: str) -> Outcome:
    try:
        mark(folder, {"status": "failed", "failure": failure})
    except (LeaseHeld, LeaseLost) as error:
        return Outcome(spec, folder, "running", str(error))
    return Outcome(spec, folder, "failed", failure)
