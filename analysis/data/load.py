"""Reads runs for the analysis; a folder that cannot be used is kept with its reason."""

import math
from collections.abc import Sequence
from pathlib import Path

from analysis.data.asked import part_runs
from analysis.data.foreign import judge_together, read_foreign
from analysis.data.packed import read_packed
from analysis.data.runs import Cell, Excluded, Loaded, Read, Run, RunId
from harness.record.files import visible
from harness.record.layout import Place, find_runs
from harness.record.reading import read_run


def load(root: Path) -> Loaded:
    """Reads every run under `root`.

    Args:
        root: A results folder, a study, anything deeper, one run folder, or a file of packed runs.

    Returns:
        Runs and excluded folders; no folder, however damaged, raises.

    Raises:
        Unusable: A file of packed runs is damaged.
    """
    return judge(read(root))


def read(root: Path) -> Read:
    """Reads every run under `root`, each by itself.

    Raises:
        Unusable: A file of packed runs is damaged.
    """
    root = root.resolve()
    return read_packed(root) if root.is_file() else _read_folders(root)


def _read_folders(root: Path) -> Read:
    found = find_runs(root)
    runs: list[Run] = []
    excluded: list[Excluded] = []
    for folder in found.runs:
        outcome = load_run(folder)
        (runs if isinstance(outcome, Run) else excluded).append(outcome)  # type: ignore[arg-type]
    foreign = [read_foreign(folder) for folder in found.foreign]
    excluded += [item for item in foreign if isinstance(item, Excluded)]
    for outcome in judge_together([item for item in foreign if isinstance(item, Run)]):
        (runs if isinstance(outcome, Run) else excluded).append(outcome)  # type: ignore[arg-type]
    return Read(root, tuple(runs), tuple(excluded), found.links)


def judge(found: Read) -> Loaded:
    """Parts runs that were asked for other settings, and uses every run once."""
    parted, sentences = part_runs(found.runs)
    used, copies = _without_copies(parted, found.root)
    return Loaded(found.root, used, (*found.excluded, *copies), found.links, sentences)


def _without_copies(runs: Sequence[Run], root: Path) -> tuple[tuple[Run, ...], list[Excluded]]:
    """Every run once, and those that stand for a run that there is already."""
    known: dict[RunId, Run] = {}
    copies = []
    for run in runs:
        first = known.setdefault(run.id, run)
        if first is not run and run.provenance is not None:
            reason = f"same run as {first.path.relative_to(root)}, which is used"
            copies.append(Excluded(run.id, run.path, reason, completed=True))
    copied = {item.path for item in copies}
    return tuple(run for run in runs if run.path not in copied), copies


def load_run(folder: Path) -> Run | Excluded:
    """Reads one run folder.

    Args:
        folder: Absolute path of the run folder.

    Returns:
        The run if it is complete, otherwise the reason why it is not used.
    """
    reading = read_run(folder, with_evaluations=True)
    run_id = _identity(reading.place)
    evaluations, record = reading.evaluations, reading.record
    if not reading.complete or evaluations is None or record is None:
        failed = record is not None and record.status == "failed"
        return Excluded(run_id, folder, reading.reason, failed=failed)
    seconds = record.timings.seconds
    return Run(
        run_id,
        folder,
        evaluations.timesteps,
        evaluations.results,
        evaluations.ep_lengths,
        reading.spec,
        math.nan if seconds is None or seconds < 0 else seconds,
        record.provenance,
        record.hyperparameters,
    )


def _identity(place: Place) -> RunId:
    # A folder's name can hold what no page, figure or terminal can show.
    names = (place.study, place.env, place.algorithm, place.hps, place.variant)
    return RunId(Cell(*map(visible, names)), visible(place.framework), place.seed)
