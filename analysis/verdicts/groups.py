"""Final scores per setting and framework: the one form in which verdicts take their data."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from analysis.data.runs import Cell, Excluded, Loaded, Run
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
        scores: float[n], score per seed, by seed; None for published numbers.
        runs: The run behind each score; empty for published numbers.
        requested: Run folders found; equal to n for published numbers.
        completed: Runs that meet the completeness rule.
        steps: Environment steps at which the scores were taken; several if seeds differ.
        source: Where published numbers stand; empty for runs.
    """

    cell: Cell
    framework: str
    moments: Moments
    rounding: float
    scores: Floats | None
    runs: tuple[Run, ...]
    requested: int
    completed: int
    steps: tuple[int, ...]
    source: str = ""

    @property
    def n(self) -> int:
        """Seeds used."""
        return int(self.moments.n)

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """Seed of each score."""
        return tuple(run.id.seed for run in self.runs)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Run folder of each score."""
        return tuple(run.path for run in self.runs)

    def nearest_to(self, step: int) -> "Group":
        """The same runs, scored at each one's evaluation nearest to a step.

        Published numbers stay as they are. Of two evaluations equally near, the earlier counts.

        Args:
            step: Environment steps.
        """
        if not self.runs:
            return self
        at = [int(np.abs(run.timesteps - step).argmin()) for run in self.runs]
        scores = [float(run.results[i].mean()) for run, i in zip(self.runs, at, strict=True)]
        steps = {int(run.timesteps[i]) for run, i in zip(self.runs, at, strict=True)}
        values = np.array(scores, dtype=np.float64)
        return dataclasses.replace(
            self, moments=moments(values), scores=values, steps=tuple(sorted(steps))
        )


def groups_of_runs(loaded: Loaded) -> tuple[Group, ...]:
    """One group per setting and framework that has a folder, in order; some without scores."""
    found: dict[tuple[Cell, str], list[Run | Excluded]] = collections.defaultdict(list)
    for item in loaded.folders:
        found[item.id.cell, item.id.framework].append(item)
    return tuple(group_of(*key, found[key]) for key in sorted(found))


def by_cell(groups: Iterable[Group]) -> dict[Cell, tuple[Group, ...]]:
    """Groups of each setting, by framework."""
    found: dict[Cell, list[Group]] = collections.defaultdict(list)
    for group in groups:
        found[group.cell].append(group)
    return {
        cell: tuple(sorted(found[cell], key=lambda group: group.framework))
        for cell in sorted(found)
    }


def group_of(cell: Cell, framework: str, items: Sequence[Run | Excluded]) -> Group:
    """Everything that was found of one framework in one setting."""
    runs = sorted((item for item in items if isinstance(item, Run)), key=_seed)
    scores = np.array([run.final_score for run in runs], dtype=np.float64)
    return Group(
        cell=cell,
        framework=framework,
        moments=moments(scores),
        rounding=0.0,
        scores=scores,
        runs=tuple(runs),
        requested=len(items),
        completed=sum(isinstance(item, Run) or item.completed for item in items),
        steps=tuple(sorted({int(run.timesteps[-1]) for run in runs})),
    )


def _seed(run: Run) -> int:
    return -1 if run.id.seed is None else run.id.seed
