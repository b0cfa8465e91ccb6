"""All runs below a folder, and what Slurm says of them."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from harness.cli.errors import RunsFailed
from harness.record.files import Unusable, read_bounded
from harness.record.layout import SLURM_FOLDER, find_runs, study_folder
from slurm.queue import Queue, ask
from slurm.records import read_records
from slurm.states import RunState, assess

OUTCOME = "preflight.txt"
"""What became of a preflight that was a job, in words that begin with `passed` or `failed`."""

_MOST_BYTES = 2**20


def survey(
    root: Path, say: Callable[[str], object] = lambda text: None
) -> tuple[list[RunState], Queue]:
    """Looks at every run at or below a folder and asks Slurm about those submitted.

    Args:
        root: Results, a study, or anything deeper.
        say: Told in a sentence of what was passed over.
    """
    found = find_runs(root)
    if found.links:
        say(found.passed_over())
    folders = found.runs
    queue = ask_about(folders)
    return [assess(folder, queue) for folder in folders], queue


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


def last_preflight(study: Path) -> tuple[Path, str] | None:
    """File and content of what became of a study's last preflight that was a job."""
    found = []
    for file in study.glob(f"{SLURM_FOLDER}/*/{OUTCOME}"):
        with contextlib.suppress(OSError, Unusable):
            text = read_bounded(file, _MOST_BYTES).decode(errors="replace").strip()
            found.append((file.stat().st_mtime, file, text))
    return max(found)[1:] if found else None


def _study_folder(folder: Path) -> Sequence[Path]:
    study = study_folder(folder)
    return () if study is None else (study,)
