"""Learning curves: mean return over seeds with its interval, per setting and framework."""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.analysis.data.runs import CompletedRun, LoadedRuns, StudyCell
from parallax.analysis.labels import group_items
from parallax.analysis.stats.intervals import compute_interval_bounds
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.endpoints import ReferenceScore
from parallax.analysis.verdicts.groups import GroupKey, ScoreGroup
from parallax.analysis.verdicts.references import find_references

StepArray = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class LearningCurve:
    """One framework in one setting.

    Attributes:
        framework: Its name.
        seeds: Per seed its int64[E] steps and float64[E] mean returns.
        steps: int64[K], evaluation steps that all seeds share.
        mean: float64[K], mean over seeds of the mean return.
        low: float64[K], lower end of the interval; NaN at one seed.
        high: float64[K], upper end.
        left_out: Evaluations of single seeds that others do not have.
    """

    framework: str
    seeds: tuple[tuple[StepArray, FloatArray], ...]
    steps: StepArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    left_out: int


@dataclasses.dataclass(frozen=True, eq=False)
class CurvePanel:
    """All frameworks in one setting.

    Attributes:
        curves: One per framework with at least one run used, by name.
        requested: Run folders found, by framework.
        with_failed_runs: Curves of frameworks with a failed run, with failed runs at the bottom.
    """

    cell: StudyCell
    curves: tuple[LearningCurve, ...]
    requested: Mapping[str, int]
    references: tuple[ReferenceScore, ...] = ()
    with_failed_runs: tuple[LearningCurve, ...] = ()

    @property
    def sizes(self) -> dict[str, str]:
        """Runs used/requested, by framework."""
        used = {curve.framework: len(curve.seeds) for curve in self.curves}
        return {name: f"{used.get(name, 0)}/{n}" for name, n in sorted(self.requested.items())}


def make_panels(
    loaded: LoadedRuns,
    method: str,
    rng: np.random.Generator,
    with_failed_runs: Iterable[ScoreGroup] = (),
) -> tuple[CurvePanel, ...]:
    """Return the curves of every setting that has a folder.

    `with_failed_runs` has the groups that `count_failed_as_bottom` returns.
    """
    curves = make_curves(loaded, method, rng)
    others = make_curves_with_failed_runs(with_failed_runs)
    runs: dict[StudyCell, dict[str, list[CompletedRun]]] = {cell: {} for cell in loaded.cells}
    requested: dict[StudyCell, collections.Counter[str]] = {}
    for item in loaded.folders:
        cell, framework = item.id.cell, item.id.framework
        requested.setdefault(cell, collections.Counter())[framework] += 1
        if isinstance(item, CompletedRun):
            runs[cell].setdefault(framework, []).append(item)
    return tuple(
        CurvePanel(
            cell,
            tuple(curves[cell, name] for name in sorted(own)),
            requested[cell],
            # The untrained policies are the curves' own beginnings.
            find_references(cell, [run for many in own.values() for run in many], untrained=False),
            tuple(curve for (place, _), curve in others.items() if place == cell),
        )
        for cell, own in runs.items()
    )


def make_curves(
    loaded: LoadedRuns, method: str, rng: np.random.Generator
) -> dict[GroupKey, LearningCurve]:
    """Return the curve of every setting and framework with a run used, in order."""
    found = group_items(loaded.runs, lambda run: (run.id.cell, run.id.framework))
    return {key: make_curve(key[1], found[key], method, rng) for key in sorted(found)}


def make_curves_with_failed_runs(groups: Iterable[ScoreGroup]) -> dict[GroupKey, LearningCurve]:
    """Return the curves of groups with failed runs, which are at the bottom throughout."""
    rng = np.random.default_rng(0)
    return {
        group.key: make_curve(group.framework, group.runs, "t", rng)
        for group in groups
        if any(run.is_imputed for run in group.runs)
    }


def make_curve(
    framework: str, runs: Sequence[CompletedRun], method: str, rng: np.random.Generator
) -> LearningCurve:
    """Aggregate one framework's seeds at the evaluation steps that all of them share."""
    seeds = tuple((run.timesteps, run.results.mean(axis=1)) for run in runs)
    steps = functools.reduce(np.intersect1d, [at for at, _ in seeds])
    shared = np.array([returns[np.isin(at, steps)] for at, returns in seeds])
    left_out = sum(len(at) - len(steps) for at, _ in seeds)
    return LearningCurve(
        framework, seeds, steps, *compute_interval_bounds(shared, method, rng), left_out
    )
