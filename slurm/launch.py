"""Queues those runs of a sweep that need it, and says what was done."""

import collections
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from harness.contract.fields import SpecError
from harness.contract.run_spec import RunSpec
from harness.record.files import visible
from harness.record.layout import RUN_FILE
from harness.record.lease import watch
from harness.sweep.folders import initialize_all
from harness.sweep.other_code import remark
from harness.train.prepare import Prepared, prepare_all
from slurm.arrays import Array, Record, plan_arrays
from slurm.preflight import CLUSTER, Preflight
from slurm.preflight import preflight as try_steps
from slurm.preflight_job import submit_preflight
from slurm.settings import Settings
from slurm.states import ALIVE, ask_about, assess, check_answered
from slurm.submit import max_array_size, scripts, submit

_FIRST = 3  # run folders of an array that a dry run names, besides the last one


def launch(
    specs: Sequence[RunSpec],
    results_dir: Path,
    settings: Settings,
    *,
    preflight: Preflight | None = None,
    dry_run: bool = False,
    every_run: bool = False,
) -> list[Record]:
    """Submits runs, except those that are complete, queued or running.

    Args:
        specs: The runs.
        results_dir: Folder for results, which the nodes must see as well.
        settings: What is asked of the cluster.
        preflight: How one step of each setting is tried first; None is no trial.
        dry_run: Whether to print what would be submitted instead.
        every_run: Whether a dry run names all runs of an array, not only some.

    Raises:
        SpecError: A run cannot be carried out as asked; nothing was submitted.
        RunsFailed: Slurm refused some, or does not answer.
    """
    prepared = prepare_all(specs, here=False)  # nodes have devices that this machine lacks
    runs = {
        spec.folder(results_dir).absolute(): run for spec, run in zip(specs, prepared, strict=True)
    }
    if len(runs) < len(specs):
        raise SpecError("The sweep names the same run more than once; let its values differ.")
    todo = select(runs, dry_run=dry_run)
    if dry_run:
        _print_plan(_plan(todo, settings), settings, every_run=every_run)
        return []
    if todo and preflight and preflight.where != CLUSTER:
        specs_left = [run.spec for run in todo.values()]
        count = try_steps(specs_left, preflight.processes, preflight.seconds)
        print(f"{count} settings took one step each without an error.")
    todo = _set_up(todo)
    records: list[Record] = []
    for study_folder, arrays in _plan(todo, settings).items():
        specs_of = {folder: run.spec for folder, run in todo.items()}
        options = {}
        if preflight and preflight.where == CLUSTER:
            asked = [spec for folder, spec in specs_of.items() if study_folder in folder.parents]
            options = submit_preflight(study_folder, asked, settings, preflight)
        records += submit(study_folder, arrays, settings, specs_of, options)
    _print_submitted(records, results_dir)
    return records


def select(runs: dict[Path, Prepared], *, dry_run: bool) -> dict[Path, Prepared]:
    """Those runs that are neither complete nor under way; prints how many of each there are.

    Raises:
        RunsFailed: Slurm does not answer, and this is no dry run.
    """
    existing = [folder for folder in runs if _exists(folder)]
    queue = ask_about(existing)
    if not dry_run:
        check_answered(existing, queue)
    states = {
        folder: assess(folder, queue).state for folder in existing if _exists(folder / RUN_FILE)
    }
    counts = collections.Counter(states.values())
    counts["new"] = len(runs) - len(states)
    words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    print(f"{len(runs)} runs: {words}.")
    if other_code := remark(folder for folder, state in states.items() if state == "completed"):
        print(other_code)
    return {
        folder: run
        for folder, run in runs.items()
        if states.get(folder) not in (*ALIVE, "completed")
    }


def _exists(path: Path) -> bool:
    """Whether it is there; setting it up tells of names that no file system can have."""
    try:
        return path.exists()
    except OSError:
        return False


def _set_up(todo: dict[Path, Prepared]) -> dict[Path, Prepared]:
    console = Console(stderr=True)
    items = list(todo.items())
    existing = [folder for folder in todo if _exists(folder)]
    silent, _ = watch(existing, say=lambda text: print(text, file=sys.stderr))
    # Some files each, which takes a while on a network's disk.
    ready, others = initialize_all(
        track(items, "Setting up run folders", console=console, transient=True), silent
    )
    for folder, holder in others.items():
        if holder:
            print(f"Not submitted: {todo[folder].spec.title}: {holder}.")
    return ready


def _plan(todo: dict[Path, Prepared], settings: Settings) -> dict[Path, list[Array]]:
    """The arrays of each study folder."""
    studies: dict[Path, list[tuple[RunSpec, Path]]] = {}
    for folder, run in todo.items():
        studies.setdefault(folder.parents[5], []).append((run.spec, folder))
    size = max_array_size() if todo else 1
    return {study: plan_arrays(runs, settings, size) for study, runs in studies.items()}


def _print_plan(plans: dict[Path, list[Array]], settings: Settings, *, every_run: bool) -> None:
    for study_folder, arrays in plans.items():
        for array, script in zip(arrays, scripts(study_folder, arrays, settings), strict=True):
            shown = "\n".join(map(visible, script.splitlines()))
            print(f"\n{'-' * 78}\n{shown}")
            _print_runs(array, study_folder.parent, every_run=every_run)
    jobs = sum(len(array.elements) for arrays in plans.values() for array in arrays)
    count = sum(len(arrays) for arrays in plans.values())
    print(f"\nDry run: {jobs} jobs in {count} arrays would be submitted; nothing was.")


def _print_runs(array: Array, results_dir: Path, *, every_run: bool) -> None:
    """The run folders of an array, each after the index of its job: the first ones and the last."""
    runs = [(index, run) for index, element in enumerate(array.elements) for run in element]
    lines = [f"# {index}: {visible(str(run.relative_to(results_dir)))}" for index, run in runs]
    left_out = len(lines) - _FIRST - 1
    if left_out > 1 and not every_run:
        lines[_FIRST:-1] = [f"# ... {left_out} more runs"]
    print(f"# {len(array.elements)} jobs, {len(runs)} runs, each after the index of its job:")
    print("\n".join(lines))


def _print_submitted(records: list[Record], results_dir: Path) -> None:
    for record in records:
        runs = sum(len(element) for element in record.elements)
        print(f"Job {record.job_id}: {runs} runs in {len(record.elements)} jobs, {record.name}")
        print(f"    logs of its jobs: {record.folder}")
    if not records:
        print("Nothing to submit.")
        return
    print(f"See what they do:  python -m slurm status {results_dir} --watch")
    print(f"Cancel them:       python -m slurm cancel {results_dir}")
