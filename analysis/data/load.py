"""Reads run folders for the analysis; a folder that cannot be used is kept with its reason."""

import math
from pathlib import Path

from analysis.data.foreign import judge_together, read_foreign
from analysis.data.runs import Cell, Excluded, Loaded, Run, RunId
from harness.record.files import visible
from harness.record.layout import Place, find_runs
from harness.record.reading import read_run


def load(root: Path) -> Loaded:
    """Reads every run folder under `root`.

    Args:
        root: A results folder, a study, anything deeper, or one run folder.

    Returns:
        Runs and excluded folders; no folder, however damaged, raises.
    """
    root = root.resolve()
    found = find_runs(root)
    runs: list[Run] = []
    excluded: list[Excluded] = []
    known: dict[RunId, Path] = {}
    for folder in found.runs:
        outcome = load_run(folder)
        if isinstance(outcome, Excluded):
            excluded.append(outcome)
        elif outcome.id in known:
            other = known[outcome.id].relative_to(root)
            reason = f"same run as {other}, which is used"
            excluded.append(Excluded(outcome.id, folder, reason, completed=True))
        else:
            known[outcome.id] = folder
            runs.append(outcome)
    foreign = [read_foreign(folder) for folder in found.foreign]
    excluded += [item for item in foreign if isinstance(item, Excluded)]
    for outcome in judge_together([item for item in foreign if isinstance(item, Run)]):
        (runs if isinstance(outcome, Run) else excluded).append(outcome)  # type: ignore[arg-type]
    return Loaded(root, tuple(runs), tuple(excluded), found.links)


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
    )


def _identity(place: Place) -> RunId:
    # A folder's name can hold what no page, figure or terminal can show.
    names = (place.study, place.env, place.algorithm, place.hps, place.variant)
    return RunId(Cell(*map(visible, names)), visible(place.framework), place.seed)
