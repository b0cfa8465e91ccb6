"""What a run costs, by the timings of those that were made."""

import collections
import math
from collections.abc import Sequence

from analysis.runs import Cell, Run

Place = tuple[str, ...]


def places(cell: Cell, framework: str) -> tuple[Place, Place]:
    """A setting, and all tasks and hyperparameters of its algorithm."""
    rough = framework, cell.algorithm, cell.variant
    return (*rough, cell.env, cell.hps), rough


def core_hours(runs: Sequence[Run]) -> dict[Place, float]:
    """Mean core-hours of a run, by both places."""
    found: dict[Place, list[float]] = collections.defaultdict(list)
    for run in runs:
        hours = run.seconds * run.spec.get("threads", 1) / 3600
        for place in places(run.id.cell, run.id.framework):
            if not math.isnan(hours):
                found[place].append(hours)
    return {place: math.fsum(values) / len(values) for place, values in found.items()}
