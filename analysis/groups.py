"""Final scores per setting and framework: the one form in which verdicts take their data."""

import collections
import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from analysis.runs import Cell, Excluded, Loaded, Run
from analysis.stats.moments import Floats, Moments, moments


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """One framework in one setting, from runs or from a published table.

    Attributes:
        cell: The setting.
        framework: Its name.
        moments: Mean, deviation and count of the final scores.
        rounding: Half a unit of the last printed digit of a published mean and its interval,
            in units of return; 0 for runs.
        scores: float[n], final score per seed, by seed; None for published numbers.
        seeds: Seed of each score.
        requested: Run folders found; equal to n for published numbers.
        completed: Runs that meet the completeness rule.
        steps: Environment steps at the last evaluation; several if seeds differ.
        paths: Run folder of each score; empty for published numbers.
        source: Where published numbers stand; empty for runs.
    """

    cell: Cell
    framework: str
    moments: Moments
    rounding: float
    scores: Floats | None
    seeds: tuple[int | None, ...]
    requested: int
    completed: int
    steps: tuple[int, ...]
    paths: tuple[Path, ...]
    source: str = ""

    @property
    def n(self) -> int:
        """Seeds used."""
        return int(self.moments.n)


def groups_of_runs(loaded: Loaded) -> tuple[Group, ...]:
    """One group per setting and framework that has a folder, in order; some without scores."""
    found: dict[tuple[Cell, str], list[Run | Excluded]] = collections.defaultdict(list)
    for item in loaded.folders:
        found[item.id.cell, item.id.framework].append(item)
    return tuple(_group(*key, found[key]) for key in sorted(found))


def by_cell(groups: Iterable[Group]) -> dict[Cell, tuple[Group, ...]]:
    """Groups of each setting, by framework."""
    found: dict[Cell, list[Group]] = collections.defaultdict(list)
    for group in groups:
        found[group.cell].append(group)
    return {
        cell: tuple(sorted(found[cell], key=lambda group: group.framework))
        for cell in sorted(found)
    }


def _group(cell: Cell, framework: str, items: list[Run | Excluded]) -> Group:
    runs = sorted((item for item in items if isinstance(item, Run)), key=_seed)
    scores = np.array([run.final_score for run in runs], dtype=np.float64)
    return Group(
        cell=cell,
        framework=framework,
        moments=moments(scores),
        rounding=0.0,
        scores=scores,
        seeds=tuple(run.id.seed for run in runs),
        requested=len(items),
        completed=sum(isinstance(item, Run) or item.completed for item in items),
        steps=tuple(sorted({int(run.timesteps[-1]) for run in runs})),
        paths=tuple(run.path for run in runs),
    )


def _seed(run: Run) -> int:
    return -1 if run.id.seed is None else run.id.seed
