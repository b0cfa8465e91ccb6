"""Final scores per setting and framework: the one form in which verdicts take their data."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from parallax.analysis.data.runs import CompletedRun, ExcludedRun, LoadedRuns, StudyCell
from parallax.analysis.labels import LIBRARY_DEFAULTS
from parallax.analysis.stats.moments import FloatArray, SampleMoments, compute_moments


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreGroup:
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

    cell: StudyCell
    framework: str
    moments: SampleMoments
    rounding: float
    scores: FloatArray | None
    runs: tuple[CompletedRun, ...]
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

    def score_at_step(self, step: int) -> "ScoreGroup":
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
            self, moments=compute_moments(values), scores=values, steps=tuple(sorted(steps))
        )


def group_runs(loaded: LoadedRuns) -> tuple[ScoreGroup, ...]:
    """One group per setting and framework that has a folder, in order; some without scores."""
    found: dict[tuple[StudyCell, str], list[CompletedRun | ExcludedRun]] = collections.defaultdict(
        list
    )
    for item in loaded.folders:
        found[item.id.cell, item.id.framework].append(item)
    return tuple(make_group(*key, found[key]) for key in sorted(found))


def group_by_cell(groups: Iterable[ScoreGroup]) -> dict[StudyCell, tuple[ScoreGroup, ...]]:
    """Groups of each setting, by framework."""
    found: dict[StudyCell, list[ScoreGroup]] = collections.defaultdict(list)
    for group in groups:
        found[group.cell].append(group)
    return {
        cell: tuple(sorted(found[cell], key=lambda group: group.framework))
        for cell in sorted(found)
    }


def make_group(
    cell: StudyCell, framework: str, items: Sequence[CompletedRun | ExcludedRun]
) -> ScoreGroup:
    """Everything that was found of one framework in one setting."""
    runs = sorted((item for item in items if isinstance(item, CompletedRun)), key=_get_seed_key)
    scores = np.array([run.final_score for run in runs], dtype=np.float64)
    return ScoreGroup(
        cell=cell,
        framework=framework,
        moments=compute_moments(scores),
        rounding=0.0,
        scores=scores,
        runs=tuple(runs),
        requested=len(items),
        completed=sum(isinstance(item, CompletedRun) or item.completed for item in items),
        steps=tuple(sorted({int(run.timesteps[-1]) for run in runs})),
    )


def _get_seed_key(run: CompletedRun) -> int:
    return -1 if run.id.seed is None else run.id.seed


VariantKey = tuple[str, str, str]  # study, algorithm, variant


def find_main_variants(groups: Iterable[ScoreGroup]) -> frozenset[VariantKey]:
    """One per study and algorithm: that with the most runs used, and of equals the plainest.

    Args:
        groups: Final scores.
    """
    runs: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for group in groups:
        cell = group.cell
        runs[cell.study, cell.algorithm][cell.variant] += group.n
    return frozenset(
        (*key, min(found, key=lambda name: (-found[name], name.count("="), name)))
        for key, found in runs.items()
    )


def to_library_defaults_cell(cell: StudyCell, framework: str) -> StudyCell:
    """The setting that a framework's own recipe shares with every other's; others as they are."""
    return dataclasses.replace(cell, hps=LIBRARY_DEFAULTS) if cell.hps == framework else cell


def find_cell_groups(cell: StudyCell, groups: Sequence[ScoreGroup]) -> list[ScoreGroup]:
    """The groups of a setting, be it that of own defaults."""
    return [
        group
        for group in groups
        if cell in (group.cell, to_library_defaults_cell(group.cell, group.framework))
    ]
