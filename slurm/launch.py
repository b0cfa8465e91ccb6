"""Submission of a sweep's runs that still need it, with a summary for the user.

The arrays of a study wait for a preflight, which can be a job of its own.
"""

import collections
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from parallax.harness.contract.fields import RunsFailedError, SpecError
from parallax.harness.contract.run_spec import RunSpec, spec_from_dict, spec_to_dict
from parallax.harness.record.files import escape_unprintable, write_json
from parallax.harness.record.layout import RUN_FILE, SLURM_FOLDER
from parallax.harness.record.lock import LockHeldError, RunLock, watch_heartbeats
from parallax.harness.sweep.sweep import describe_complete_runs, initialize_runs, prepare_sweep
from parallax.harness.train.prepare import PreparedRun
from parallax.slurm.arrays import (
    JobArray,
    JobResources,
    SubmissionRecord,
    check_submission_folder,
    create_record,
    plan_arrays,
)
from parallax.slurm.preflight import CLUSTER, PreflightOptions, estimate_cost, run_preflight
from parallax.slurm.preflight_trials import make_trials
from parallax.slurm.settings import SlurmSettings
from parallax.slurm.states import (
    ACTIVE_STATES,
    PREFLIGHT_FAILED,
    PREFLIGHT_FILE,
    PREFLIGHT_PASSED,
    assess_run,
    check_slurm_answered,
    query_runs,
)
from parallax.slurm.submit import get_max_array_size, render_scripts, submit_arrays, submit_job

_NAMED_RUNS = 3  # run folders of an array that a dry run names, besides the last one


def launch_sweep(
    specs: Sequence[RunSpec],
    results_dir: Path,
    settings: SlurmSettings,
    *,
    preflight: PreflightOptions | None = None,
    dry_run: bool = False,
    every_run: bool = False,
) -> list[SubmissionRecord]:
    """Submit runs, except those that are complete, queued or running.

    Args:
        specs: The runs.
        results_dir: Folder for results, which the nodes must see as well.
        settings: Slurm settings.
        preflight: Options of the trial of each setting before submission; None for no trial.
        dry_run: Whether to print what would be submitted instead.
        every_run: Whether a dry run names all runs of an array, not only some.

    Raises:
        SpecError: A run cannot be carried out as requested; nothing was submitted.
        RunsFailedError: Slurm refused some, or does not answer.
    """
    # Nodes may have devices that this machine lacks.
    runs = prepare_sweep(specs, results_dir, on_this_machine=False)
    if dry_run:
        todo = select_runs(runs, dry_run=True)
        _print_plan(_plan_studies(todo, settings), settings, every_run=every_run)
        return []
    with contextlib.ExitStack() as locks:
        for study in sorted({folder.parents[5] for folder in runs}):
            locks.enter_context(_lock_submissions(study))
        records = _submit_runs(runs, settings, preflight)
    _print_submitted(records, results_dir)
    return records


@contextlib.contextmanager
def _lock_submissions(study: Path) -> Iterator[None]:
    """Prevent another command from submitting the same runs of a study at the same time."""
    check_submission_folder(study)
    folder = study / SLURM_FOLDER
    missing = [path for path in (folder, *folder.parents) if not _path_exists(path)]
    lock: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    try:
        with contextlib.suppress(OSError):  # the submission itself says what cannot be written
            folder.mkdir(parents=True, exist_ok=True)
            lock = RunLock.acquire(folder)
    except LockHeldError as error:
        raise SpecError(f"{folder}: another such command ({error}). Run it again then.") from error
    try:
        with lock:
            yield
    finally:
        for made in missing:
            with contextlib.suppress(OSError):  # not empty: something was submitted
                made.rmdir()


def _submit_runs(
    runs: dict[Path, PreparedRun], settings: SlurmSettings, preflight: PreflightOptions | None
) -> list[SubmissionRecord]:
    """Submit the runs that need it; return the records of their arrays."""
    todo = select_runs(runs, dry_run=False)
    if todo and preflight and preflight.where != CLUSTER:
        specs_left = [run.spec for run in todo.values()]
        count = run_preflight(specs_left, preflight.processes, preflight.seconds)
        print(f"{count} settings took one step each without an error.")
    todo = _set_up_folders(todo)
    records: list[SubmissionRecord] = []
    specs = {folder: run.spec for folder, run in todo.items()}
    for study_folder, arrays in _plan_studies(todo, settings).items():
        options = {}
        if preflight and preflight.where == CLUSTER:
            of_study = [spec for folder, spec in specs.items() if study_folder in folder.parents]
            options = submit_preflight(study_folder, of_study, settings, preflight)
        records += submit_arrays(study_folder, arrays, settings, specs, options)
    return records


def select_runs(runs: dict[Path, PreparedRun], *, dry_run: bool) -> dict[Path, PreparedRun]:
    """Return the runs that are not complete, queued or running; print the number of each kind.

    Raises:
        RunsFailedError: Slurm does not answer, and this is not a dry run.
    """
    existing = [folder for folder in runs if _path_exists(folder)]
    queue = query_runs(existing)
    if not dry_run:
        check_slurm_answered(existing, queue)
    states = {
        folder: assess_run(folder, queue).state
        for folder in existing
        if _path_exists(folder / RUN_FILE)
    }
    counts = collections.Counter(states.values())
    counts["new"] = len(runs) - len(states)
    words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    print(f"{len(runs)} runs: {words}.")
    complete = [folder for folder, state in states.items() if state == "completed"]
    for remark in describe_complete_runs({folder: runs[folder].spec for folder in complete}):
        print(remark)
    return {
        folder: run
        for folder, run in runs.items()
        if states.get(folder) not in (*ACTIVE_STATES, "completed")
    }


def _path_exists(path: Path) -> bool:
    """Return whether a path exists; its set-up reports names that no file system allows."""
    try:
        return path.exists()
    except OSError:
        return False


def _set_up_folders(todo: dict[Path, PreparedRun]) -> dict[Path, PreparedRun]:
    console = Console(stderr=True)
    items = list(todo.items())
    existing = [folder for folder in todo if _path_exists(folder)]
    silent, _ = watch_heartbeats(existing, say=lambda text: print(text, file=sys.stderr))
    # Each folder gets several files, which takes a while on a network file system.
    ready, others = initialize_runs(
        track(items, "Setting up run folders", console=console, transient=True), silent
    )
    for folder, holder in others.items():
        if holder:
            print(f"Not submitted: {todo[folder].spec.title}: {holder}.")
    return ready


def _plan_studies(
    todo: dict[Path, PreparedRun], settings: SlurmSettings
) -> dict[Path, list[JobArray]]:
    """Return the arrays of each study folder."""
    studies: dict[Path, list[tuple[RunSpec, Path]]] = {}
    for folder, run in todo.items():
        studies.setdefault(folder.parents[5], []).append((run.spec, folder))
    size = get_max_array_size() if todo else 1
    return {study: plan_arrays(runs, settings, size) for study, runs in studies.items()}


def _print_plan(
    plans: dict[Path, list[JobArray]], settings: SlurmSettings, *, every_run: bool
) -> None:
    for study_folder, arrays in plans.items():
        for array, script in zip(
            arrays, render_scripts(study_folder, arrays, settings), strict=True
        ):
            shown = "\n".join(map(escape_unprintable, script.splitlines()))
            print(f"\n{'-' * 78}\n{shown}")
            _print_runs(array, study_folder.parent, every_run=every_run)
    jobs = sum(len(array.elements) for arrays in plans.values() for array in arrays)
    count = sum(len(arrays) for arrays in plans.values())
    print(f"\nDry run: {jobs} jobs in {count} arrays would be submitted; nothing was.")


def _print_runs(array: JobArray, results_dir: Path, *, every_run: bool) -> None:
    """Print the first run folders of an array and the last, each after the index of its job."""
    runs = [(index, run) for index, element in enumerate(array.elements) for run in element]
    lines = [
        f"# {index}: {escape_unprintable(str(run.relative_to(results_dir)))}" for index, run in runs
    ]
    left_out = len(lines) - _NAMED_RUNS - 1
    if left_out > 1 and not every_run:
        lines[_NAMED_RUNS:-1] = [f"# ... {left_out} more runs"]
    print(f"# {len(array.elements)} jobs, {len(runs)} runs, each after the index of its job:")
    print("\n".join(lines))


def _print_submitted(records: list[SubmissionRecord], results_dir: Path) -> None:
    for record in records:
        runs = sum(len(element) for element in record.elements)
        print(f"Job {record.job_id}: {runs} runs in {len(record.elements)} jobs, {record.name}")
        print(f"    logs of its jobs: {record.folder}")
    if not records:
        print("Nothing to submit.")
        return
    print(f"See their state:  parallax status {results_dir} --watch")
    print(f"Cancel them:      parallax slurm cancel {results_dir}")


_SPECS_FILE = "preflight-specs.json"
_JOB_NAME = "preflight"
_SLACK = 4  # a node may be slower than the one measured
_MIN_MINUTES = 30


class PreflightFailedError(Exception):
    """Some settings cannot take a step; makes Slurm drop the jobs that wait for this one."""


class PreflightJob:
    """Preflight that submitit calls on a node.

    It has no `checkpoint`: it starts again after a preemption, and fails at its time limit.
    """

    def __init__(self, folder: Path, processes: int, seconds: float) -> None:
        self._folder, self._processes, self._seconds = folder, processes, seconds

    def __call__(self) -> None:
        """Try all settings and write the outcome.

        Raises:
            PreflightFailedError: Some cannot take a step.
        """
        job = os.environ.get("SLURM_JOB_ID", "")
        self._write_outcome("under way", f"job {job}")
        content = json.loads((self._folder / _SPECS_FILE).read_text())
        try:
            count = run_preflight(
                [spec_from_dict(s) for s in content], self._processes, self._seconds
            )
        except SpecError as error:
            self._write_outcome(PREFLIGHT_FAILED, str(error))
            raise PreflightFailedError(str(error)) from error
        except BaseException as error:
            self._write_outcome(
                PREFLIGHT_FAILED, f"it was ended by {type(error).__name__} {error}".rstrip()
            )
            raise
        self._write_outcome(
            PREFLIGHT_PASSED, f"{count} settings took one step each without an error."
        )

    def _write_outcome(self, state: str, message: str) -> None:
        write_json(self._folder / PREFLIGHT_FILE, {"state": state, "said": message})


def submit_preflight(
    study_folder: Path, specs: Sequence[RunSpec], settings: SlurmSettings, options: PreflightOptions
) -> dict[str, str]:
    """Submit the preflight of a study's runs as a job.

    Args:
        study_folder: Folder of the study.
        specs: Runs to try.
        settings: Slurm settings; `time.preflight` limits the job.
        options: Number of trials at a time, and time limit of each.

    Returns:
        Options of sbatch that let other jobs wait for it, and drop them if it fails.

    Raises:
        RunsFailedError: Slurm refused it.
    """
    processes = settings.cpus if options.processes < 0 else options.processes
    resources = JobResources(
        algorithm=_JOB_NAME,
        run_minutes=_estimate_minutes(specs, settings, processes),
        runs_per_job=1,
        cpus=processes,
        mem_gb=settings.mem_gb * processes,
    )
    array = JobArray(resources, (), 1)
    record = create_record(study_folder, array, settings)
    record.folder.mkdir(parents=True)
    write_json(record.folder / _SPECS_FILE, [spec_to_dict(spec) for spec in specs])
    job = PreflightJob(record.folder, processes, options.seconds)
    outcome = record.folder / PREFLIGHT_FILE
    write_json(outcome, {"state": "queued", "said": ""})
    try:
        job_id = submit_job(record, array, settings, job)
    except RunsFailedError:
        outcome.unlink()
        raise
    print(f"Job {job_id}: preflight of {len(specs)} runs, which the others wait for.")
    print(f"    its outcome: {outcome}")
    wanted = [f"afterok:{job_id}", *filter(None, [settings.sbatch.get("dependency")])]
    return {"dependency": ",".join(wanted), "kill-on-invalid-dep": "yes"}


def _estimate_minutes(specs: Sequence[RunSpec], settings: SlurmSettings, processes: int) -> int:
    if _JOB_NAME in settings.time:
        return settings.get_minutes(_JOB_NAME)
    _, seconds = estimate_cost(make_trials(specs), processes)
    return max(_MIN_MINUTES, round(_SLACK * seconds / 60))
