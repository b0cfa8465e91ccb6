"""Runs many runs on this machine, each in a process of its own."""

import dataclasses
import functools
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.record.lock import LockHeldError, LockLostError, watch_heartbeats
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.folders import describe_code_drift, initialize_runs
from parallax.harness.sweep.forked_process import ForkServerPool
from parallax.harness.sweep.progress import SweepDisplay
from parallax.harness.sweep.run_process import (
    SYSTEM_ALLOCATOR,
    RunOutcome,
    RunProcess,
    get_allocator_variables,
    mark_run_ended,
)
from parallax.harness.train.prepare import PreparedRun, describe_lost_values, prepare_runs
from parallax.harness.train.stop_signals import SWEEP_FAILED_SIGNAL


def run_sweep(
    specs: Sequence[RunSpec], results_dir: Path, n_jobs: int, malloc: str = SYSTEM_ALLOCATOR
) -> list[RunOutcome]:
    """Checks all runs, then executes those that are not complete, `n_jobs` at a time.

    Nothing is written before every run has passed its checks, and nothing stays written where
    a folder cannot be made.

    Args:
        specs: The runs.
        results_dir: Where their folders are.
        n_jobs: How many at a time; -1 is one per core.
        malloc: The allocator that they use; see `get_allocator_variables`.

    Raises:
        SpecError: A run cannot be carried out as requested.
        KeyboardInterrupt: After every running process has ended.
    """
    jobs = count_processes(n_jobs)
    variables = get_allocator_variables("hydra.launcher.malloc", malloc)
    prepared = prepare_runs(specs)
    folders = [spec.folder(results_dir).absolute() for spec in specs]
    if len(set(folders)) < len(folders):
        raise SpecError("The sweep names the same run more than once; let its values differ.")
    for warning in describe_lost_values(prepared):
        print(warning, file=sys.stderr)
    runs = dict(zip(folders, prepared, strict=True))
    silent, _ = watch_heartbeats(
        runs,
        say=lambda text: print(text, file=sys.stderr),
        is_wanted=lambda folder: not read_run(folder).complete,
    )
    pending, others = initialize_runs(runs.items(), silent)
    outcomes = {
        folder: RunOutcome(runs[folder].spec, folder, "running" if holder else "skipped", holder)
        for folder, holder in others.items()
    }
    _print_skipped_runs(others, len(runs))
    outcomes |= _execute_runs(pending, jobs, variables)
    return [outcomes[folder] for folder in folders]


def _print_skipped_runs(others: Mapping[Path, str | None], total: int) -> None:
    """Says which runs are left out."""
    complete = sum(holder is None for holder in others.values())
    if complete:
        print(f"{complete} of {total} runs are complete already.")
    if complete < len(others):
        print(f"{len(others) - complete} of {total} runs are running elsewhere.")
    if other_code := describe_code_drift(
        folder for folder, holder in others.items() if holder is None
    ):
        print(other_code)


def count_processes(n_jobs: int) -> int:
    """Return the number of runs that go on at a time.

    Args:
        n_jobs: The option `hydra.launcher.n_jobs`; -1 is one per core.

    Raises:
        SpecError: It is no such number.
    """
    if isinstance(n_jobs, int) and n_jobs > 0:
        return n_jobs
    import joblib  # a fifth of a second, which one run does without

    try:
        return int(joblib.effective_n_jobs(n_jobs))
    except ValueError:
        raise SpecError(
            f"hydra.launcher.n_jobs={n_jobs} is no number of runs at a time: give 1 or more, "
            "or -1 for one per core."
        ) from None


StartRun = Callable[[RunSpec, Path], RunProcess]


@dataclasses.dataclass
class _SweepStop:
    """Signals the threads of a sweep to end their runs, with the reason."""

    event: threading.Event = dataclasses.field(default_factory=threading.Event)
    number: int = signal.SIGTERM


def _execute_runs(
    pending: dict[Path, PreparedRun], jobs: int, variables: Mapping[str, str]
) -> dict[Path, RunOutcome]:
    stop = _SweepStop()
    outcomes: dict[Path, RunOutcome] = {}
    specs = [run.spec for run in pending.values()]
    with (
        ForkServerPool(specs, stop.event.is_set) as preloaded,
        SweepDisplay(pending, jobs) as display,
        ThreadPoolExecutor(max_workers=jobs) as pool,
    ):
        start = functools.partial(RunProcess, preloaded=preloaded, variables=variables)
        futures = [
            pool.submit(_execute_run, run.spec, folder, stop, start)
            for folder, run in pending.items()
        ]
        try:
            for future in as_completed(futures):
                outcome = future.result()
                outcomes[outcome.folder] = outcome
                display.print_outcome(outcome.folder, outcome.status, outcome.failure)
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):
                stop.number = SWEEP_FAILED_SIGNAL
            # Leaving the pool waits for its threads, and they for their processes.
            stop.event.set()
            raise
    return outcomes


def _execute_run(spec: RunSpec, folder: Path, stop: _SweepStop, start: StartRun) -> RunOutcome:
    """Runs one; whatever happens to its folder is its own failure, and no other run's."""
    if stop.event.is_set():
        return RunOutcome(spec, folder, "pending")
    try:
        process = start(spec, folder)
    except OSError as error:
        return _record_failed_start(spec, folder, f"it cannot be started: {error}")
    while not process.wait(0.2):
        if stop.event.is_set():
            process.stop(stop.number)
    return process.outcome()


def _record_failed_start(spec: RunSpec, folder: Path, failure: str) -> RunOutcome:
    try:
        mark_run_ended(folder, {"status": "failed", "failure": failure})
    except (LockHeldError, LockLostError) as error:
        return RunOutcome(spec, folder, "running", str(error))
    return RunOutcome(spec, folder, "failed", failure)
