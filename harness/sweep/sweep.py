"""Executes many runs on this machine, each in a separate process.

Their pending folders are written first: all of them or none.
"""

import collections
import contextlib
import dataclasses
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from parallax.harness.contract.adapter_discovery import (
    describe_adapter_code,
    find_adapter_entry_point,
)
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import NO_DIAGNOSIS, RunSpec, spec_from_dict, spec_to_dict
from parallax.harness.record.completeness import RunReading
from parallax.harness.record.files import MAX_JOBS, UnusableError, make_bytes_writer, read_bounded
from parallax.harness.record.folder import RunFolder, collect_attempts, list_leftovers
from parallax.harness.record.layout import RUN_FILE, find_link
from parallax.harness.record.lock import LockHeldError, LockLostError, RunLock, watch_heartbeats
from parallax.harness.record.reading import read_record, read_run
from parallax.harness.record.run_json import has_valid_checksum
from parallax.harness.sweep.forked_process import ForkServer, ForkServerPool
from parallax.harness.sweep.progress import SweepDisplay
from parallax.harness.sweep.run_process import (
    SYSTEM_ALLOCATOR,
    RunOutcome,
    RunProcess,
    get_allocator_variables,
    mark_run_ended,
)
from parallax.harness.train.prepare import (
    PreparedRun,
    check_wrapper_sources,
    describe_doubtful_runs,
    describe_translation,
    prepare_runs,
)
from parallax.harness.train.stop_signals import SWEEP_FAILED_SIGNAL


def run_sweep(
    specs: Sequence[RunSpec],
    results_dir: Path,
    n_jobs: int,
    malloc: str = SYSTEM_ALLOCATOR,
    early_server: ForkServer | None = None,
) -> list[RunOutcome]:
    """Check all runs, then execute incomplete ones.

    Nothing is written before every run has passed its checks, and everything is undone if a
    folder cannot be created.

    Args:
        specs: The runs.
        results_dir: Folder of all studies.
        n_jobs: Runs at a time; -1 is one per core.
        malloc: Memory allocator of the runs.
        early_server: As for `ForkServerPool`.

    Raises:
        SpecError: A run cannot be carried out as requested.
        KeyboardInterrupt: After every running process has ended.
    """
    jobs, variables, runs = _check_sweep(specs, results_dir, n_jobs, malloc)
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
    _print_skipped_runs(others, runs)
    outcomes |= _execute_runs(pending, jobs, variables, early_server)
    return [outcomes[folder] for folder in runs]


def list_sweep(
    specs: Sequence[RunSpec], results_dir: Path, n_jobs: int, malloc: str = SYSTEM_ALLOCATOR
) -> list[str]:
    """Return a line for each run of a sweep, and the number of each state; writes nothing.

    Raises:
        SpecError: A run cannot be carried out as requested.
    """
    _, _, runs = _check_sweep(specs, results_dir, n_jobs, malloc)
    states = {folder: "incomplete" if (folder / RUN_FILE).exists() else "new" for folder in runs}
    states |= {folder: "complete" for folder in runs if read_run(folder).complete}
    lines = [f"{states[f]:<12}{f.relative_to(results_dir.absolute())}" for f in runs]
    counts = collections.Counter(states.values())
    total = ", ".join(f"{count} {state}" for state, count in counts.items())
    steps = sum(runs[folder].spec.steps for folder in runs if states[folder] != "complete")
    noun = "run" if len(runs) == 1 else "runs"
    return [*lines, f"{len(runs)} {noun}: {total}. At most {steps:,} environment steps remain."]


def _check_sweep(
    specs: Sequence[RunSpec], results_dir: Path, n_jobs: int, malloc: str
) -> tuple[int, Mapping[str, str], dict[Path, PreparedRun]]:
    """Return the number of processes, their variables and the runs by folder."""
    jobs = count_processes(n_jobs)
    variables = get_allocator_variables("hydra.launcher.malloc", malloc)
    for place in (results_dir.absolute(), *results_dir.absolute().parents):
        if os.path.islink(place) and not os.path.exists(place):  # noqa: PTH110, PTH114
            raise SpecError(f"results_dir={results_dir}: {place} is a link that leads nowhere.")
    return jobs, variables, prepare_sweep(specs, results_dir)


def prepare_sweep(
    specs: Sequence[RunSpec], results_dir: Path, on_this_machine: bool = True
) -> dict[Path, PreparedRun]:
    """Check all runs of a sweep, print remarks on them, and return them by folder.

    Raises:
        SpecError: A run cannot be carried out as requested, or is named twice.
    """
    prepared = prepare_runs(specs, on_this_machine)
    folders = [spec.folder(results_dir).absolute() for spec in specs]
    if twice := [folder for folder, n in collections.Counter(folders).items() if n > 1]:
        remedy = "remove repeated values, and sweep no setting that leaves its folder as it is"
        raise SpecError(f"The sweep names the same run more than once: {remedy}: {twice[0]}.")
    for warning in describe_doubtful_runs(prepared):
        print(warning, file=sys.stderr)
    return dict(zip(folders, prepared, strict=True))


def _print_skipped_runs(
    others: Mapping[Path, str | None], runs: Mapping[Path, PreparedRun]
) -> None:
    """Print which runs are omitted."""
    complete = [folder for folder, holder in others.items() if holder is None]
    if complete:
        print(f"{len(complete)} of {len(runs)} runs are complete already.")
    if len(complete) < len(others):
        print(f"{len(others) - len(complete)} of {len(runs)} runs are running elsewhere.")
    for remark in describe_complete_runs({folder: runs[folder].spec for folder in complete}):
        print(remark)


def count_processes(n_jobs: int) -> int:
    """Return the number of runs that are executed at a time.

    Args:
        n_jobs: The option `hydra.launcher.n_jobs`; -1 is one per core.

    Raises:
        SpecError: It is not such a number.
    """
    if type(n_jobs) is int and 1 <= n_jobs <= MAX_JOBS:
        return n_jobs
    if n_jobs != -1:
        raise SpecError(
            f"hydra.launcher.n_jobs={n_jobs} is not a number of runs at a time: give 1 or more, "
            f"{MAX_JOBS:,} at most, or -1 for one per core."
        )
    import joblib  # takes a fifth of a second, and one run does not need it

    return int(joblib.effective_n_jobs(-1))


StartRun = Callable[[RunSpec, Path], RunProcess]


@dataclasses.dataclass
class _SweepStop:
    """Signals the threads of a sweep to end their runs, with the reason."""

    event: threading.Event = dataclasses.field(default_factory=threading.Event)
    number: int = signal.SIGTERM


def _execute_runs(
    pending: dict[Path, PreparedRun],
    jobs: int,
    variables: Mapping[str, str],
    early_server: ForkServer | None,
) -> dict[Path, RunOutcome]:
    stop = _SweepStop()
    outcomes: dict[Path, RunOutcome] = {}
    specs = [run.spec for run in pending.values()]
    with (
        ForkServerPool(specs, stop.event.is_set, early_server) as fork_servers,
        SweepDisplay(pending, jobs) as display,
        ThreadPoolExecutor(max_workers=jobs) as pool,
    ):
        start = functools.partial(RunProcess, fork_servers=fork_servers, variables=variables)
        try:
            futures = [
                pool.submit(_execute_run, run.spec, folder, stop, start)
                for folder, run in pending.items()
            ]
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
    """Execute one run; an error with its folder is a failure of this run only."""
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


_MAX_RUN_FILE_BYTES = 2**24


def initialize_runs(
    runs: Iterable[tuple[Path, PreparedRun]], silent: Collection[str] = ()
) -> tuple[dict[Path, PreparedRun], dict[Path, str | None]]:
    """Write a pending folder for each run that is neither complete nor running.

    Args:
        runs: Folder of each run, and the run to execute there.
        silent: Tokens of lock owners on other machines that were watched and found silent.

    Returns:
        The runs to execute; and the folders of the others, with who runs them, or None for
        those that are complete.

    Raises:
        SpecError: A folder cannot be written or belongs to another run; all changes are undone.
    """
    pending: dict[Path, PreparedRun] = {}
    others: dict[Path, str | None] = {}
    undo: list[Callable[[], None]] = []
    try:
        for folder, run in runs:
            undo.append(functools.partial(_remove_folders, _find_missing_folders(folder)))
            before = _read_run_file(folder)
            try:
                if initialize_run(run, folder, silent):
                    pending[folder] = run
                    undo.append(functools.partial(_restore_run_file, folder, before))
                else:
                    others[folder] = None
            except LockHeldError as error:
                others[folder] = str(error)
    except SpecError:
        for step in reversed(undo):
            step()
        raise
    return pending, others


def _read_run_file(folder: Path) -> bytes | None:
    try:
        return read_bounded(folder / RUN_FILE, _MAX_RUN_FILE_BYTES)
    except (OSError, UnusableError):
        return None


def _find_missing_folders(folder: Path) -> list[Path]:
    """Return the folders that creating `folder` would create, innermost first."""
    missing = []
    for place in (folder, *folder.parents):
        # A path that cannot be checked, such as one with too long a name, will not be created.
        with contextlib.suppress(OSError):
            if place.exists():
                break
            missing.append(place)
    return missing


def _restore_run_file(folder: Path, before: bytes | None) -> None:
    """Restore the earlier `run.json`, or remove it, unless the run was started since."""
    with contextlib.suppress(OSError, LockHeldError), RunLock.acquire(folder, ()) as lock:
        if read_run(folder).reason != "pending":
            return
        if before is None:
            lock.remove(RUN_FILE)
        else:
            lock.write(RUN_FILE, make_bytes_writer(before))


def _remove_folders(made: list[Path]) -> None:
    for folder in made:
        with contextlib.suppress(OSError):
            folder.rmdir()


def initialize_run(
    prepared: PreparedRun, path: Path, silent: Collection[str] | None = None
) -> bool:
    """Write a pending run folder, unless a complete run is there.

    Raises:
        SpecError: The folder cannot be written or belongs to another run.
        LockHeldError: Another process executes the run.
    """
    if link := find_link(path):
        raise SpecError(
            f"results_dir: {link} is a link, and searches for runs do not follow links below a "
            "results folder. Put the folder itself there, or choose another results_dir."
        )
    reading = read_run(path)
    _check_same_run(prepared.spec, reading)
    if reading.complete:
        if reading.record:
            check_wrapper_sources(prepared.spec, reading.record.wrapper_sources, reading.folder)
        _remove_leftovers(path, silent)
        return False
    try:
        path.mkdir(parents=True, exist_ok=True)
        with RunLock.acquire(path, silent) as lock:
            # Checked again: another sweep may have completed it since.
            reading = read_run(path)
            _check_same_run(prepared.spec, reading)
            if reading.complete:
                return False
            folder = RunFolder(lock, {})
            if reading.damaged or not has_valid_checksum(reading.content):
                folder.rename_damaged_files()
            folder.update_run(**_make_pending_content(prepared, reading))
    except OSError as error:
        raise SpecError(
            f"results_dir: {path} cannot be written ({error.strerror}). Choose another folder."
        ) from error
    return True


def _remove_leftovers(folder: Path, silent: Collection[str] | None) -> None:
    """Remove what killed processes left in the folder of a complete run, unless it is locked."""
    if list_leftovers(folder):
        unless_locked = contextlib.suppress(OSError, LockHeldError, LockLostError)
        with unless_locked, RunLock.acquire(folder, silent or ()) as lock:
            RunFolder(lock, {}).tidy()


def _make_pending_content(prepared: PreparedRun, before: RunReading) -> dict[str, Any]:
    """Return the content of `run.json` for a run that is set up."""
    return {
        "status": "pending",
        "spec": spec_to_dict(prepared.spec),
        "adapter": find_adapter_entry_point(prepared.spec.framework).value,
        "alignment": [dataclasses.asdict(row) for row in prepared.native.alignment],
        **describe_translation(prepared),
        "update_schedule": dataclasses.asdict(prepared.native.update_schedule),
        "steps": {
            "requested": prepared.spec.steps,
            "scheduled": prepared.native.total_steps,
            "framework": prepared.native.framework_steps,
            "taken": 0,
        },
        "final_score": None,
        "weights_sha256": None,
        "failure": None,
        "stopped_by": None,
        "attempts": collect_attempts(before),
        "timings": {},
        "provenance": {},
    }


def _check_same_run(spec: RunSpec, reading: RunReading) -> None:
    if reading.newer:
        raise SpecError(f"{reading.folder}: {reading.reason}, or choose another results_dir.")
    if reading.unreadable:
        raise SpecError(f"{reading.folder}: {reading.reason}. Change its permissions, or move it.")
    if reading.record is None:
        return
    if reading.record.imported is not None:
        raise SpecError(
            f"{reading.folder} holds a run that was imported from "
            f"{reading.record.imported.source}, and imported runs are never trained again. Choose "
            "another study.name or results_dir."
        )
    try:
        # A study may have been renamed, and an interpreter moved.
        recorded = spec_from_dict(reading.spec)
        same = dataclasses.replace(recorded, study=spec.study, python=spec.python) == spec
    except SpecError:
        same = False
    if not same:
        is_intact = has_valid_checksum(reading.content)
        remark = "" if is_intact else " (its run.json was changed or is damaged)"
        raise SpecError(
            f"{reading.folder} holds a run with other settings{remark}. Choose another study.name "
            "or results_dir."
        )


_MAX_LISTED_NAMES = 3


def describe_complete_runs(requested: Mapping[Path, RunSpec]) -> list[str]:
    """Return remarks on complete runs: changed adapter code, and requests that come too late.

    Older runs, which did not record their adapter's files or an endpoint, are left out.

    Args:
        requested: Specification of each run as it is requested now, by folder.
    """
    now: dict[str, Mapping[str, str]] = {}
    changed: dict[Path, set[str]] = {}
    endpoints: set[str] = set()
    late: set[str] = set()
    for folder, spec in requested.items():
        try:
            record, content = read_record(folder)
        except UnusableError:
            continue
        if record.status != "completed":
            continue
        before = content["spec"]
        endpoints |= {str(before.get("endpoint", spec.endpoint))} - {spec.endpoint}
        late.update(_list_late_requests(spec, before))
        framework, then = record.spec.framework, record.provenance.adapter.files
        if then and framework not in now:
            code = describe_adapter_code(find_adapter_entry_point(framework).value)
            now[framework] = code["files"]
        if then and (names := _find_changed_files(then, now[framework])):
            changed[folder] = {f"{framework}/{name}" for name in names}
    remarks = [_format_code_drift(changed)] if changed else []
    if endpoints:
        remarks.append(
            "Complete runs have the endpoint that they were started with, "
            f"{', '.join(sorted(endpoints))}. --endpoint NAME of study verdicts and report chooses "
            "another one."
        )
    if late:
        remarks.append(
            f"{', '.join(sorted(late))}: complete runs were trained without, and are not changed. "
            "To train them again, remove their folders or choose another study.name."
        )
    return remarks


def _list_late_requests(spec: RunSpec, before: Mapping[str, Any]) -> Iterator[str]:
    """Yield the requested settings without which a complete run was trained."""
    if spec.logger not in ("none", before.get("logger")):
        yield f"logger={spec.logger}"
    if spec.diagnosis != NO_DIAGNOSIS and before.get("diagnosis", NO_DIAGNOSIS) == NO_DIAGNOSIS:
        yield f"diagnosis={spec.diagnosis['mode']}"


def _find_changed_files(then: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    return {name for name in then.keys() | now.keys() if then.get(name) != now.get(name)}


def _format_code_drift(found: Mapping[Path, set[str]]) -> str:
    files = _format_names(sorted(set().union(*found.values())))
    folders = _format_names(sorted(map(str, found)))
    return (
        f"{len(found)} complete runs were made by an earlier version of their adapter, which has "
        f"changed since in {files}: {folders}. They are not changed. To train them again, remove "
        "their folders or choose another study.name."
    )


def _format_names(names: list[str]) -> str:
    more = len(names) - _MAX_LISTED_NAMES
    return ", ".join(names[:_MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")
