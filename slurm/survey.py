"""All runs below a folder, and what Slurm says of them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.errors import RunsFailed
from harness.record.layout import find_runs, study_folder
from slurm.queue import Queue, ask
from slurm.records import read_records
from slurm.states import RunState, assess


def survey(root: Path) -> tuple[list[RunState], Queue]:
    """Looks at every run at or below a folder and asks Slurm about those submitted."""
    folders = find_runs(root).runs
    queue = ask_about(folders)
    return [assess(folder, queue.jobs.get(folder), bool(queue.asked)) for folder in folders], queue


def ask_about(folders: Iterable[Path]) -> Queue:
    """Asks Slurm about the studies that run folders belong to."""
    studies = sorted({study for folder in folders for study in _study_folder(folder)})
    return ask([record for study in studies for record in read_records(study)])


def check_answered(folders: Iterable[Path], queue: Queue) -> None:
    """Makes sure that it is known which runs are queued, where some may be.

    Raises:
        RunsFailed: None of Slurm's commands answered.
    """
    studies = {study for folder in folders for study in _study_folder(folder)}
    if not queue.asked and any(read_records(study) for study in studies):
        raise RunsFailed(
            "Slurm does not answer here (squeue, scontrol, sacct), so nobody can tell which runs "
            "are queued. Try again later, or on the machine that submitted."
        )


def study_folders(runs: Iterable[RunState]) -> list[Path]:
    """The folders of the studies that runs belong to."""
    return sorted({study for run in runs for study in _study_folder(run.folder)})


def _study_folder(folder: Path) -> Sequence[Path]:
    study = study_folder(folder)
    return () if study is None else (study,)
