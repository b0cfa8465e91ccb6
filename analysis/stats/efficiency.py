"""Sample efficiency: the interquartile mean over all tasks after so many steps, with intervals.

As in Agarwal et al. (2021), with the stratified percentile bootstrap. What is drawn anew are whole
runs, so that a resample is one curve, and intervals are pointwise.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.stats.aggregates import interquartile_mean, percentile_ends, resample_counts
from analysis.stats.moments import Floats

MOST = 30  # steps at which a curve is told
RESAMPLES = 2_000


@dataclasses.dataclass(frozen=True, eq=False)
class Progress:
    """One implementation's curve.

    Attributes:
        steps: float[k], environment steps.
        point: float[k], interquartile mean of normalised scores.
        low: float[k], lower ends of pointwise intervals.
        high: float[k], upper ends.
    """

    steps: Floats
    point: Floats
    low: Floats
    high: Floats


@dataclasses.dataclass(frozen=True, eq=False)
class Efficiency:
    """Curves of several implementations.

    Attributes:
        curves: By name; each has steps of its own.
        level: Level of the intervals.
        resamples: Bootstrap resamples behind them.
    """

    curves: Mapping[str, Progress]
    level: float
    resamples: int


def efficiency(
    scores: Mapping[str, tuple[Floats, Sequence[Floats]]],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Efficiency:
    """Curves with percentile intervals from the stratified bootstrap.

    Args:
        scores: Per implementation float[k] steps, and one float[n, k] of normalised scores per
            task, n at least 1.
        rng: Source of the resamples.
        resamples: How many.
        level: Level of the intervals.
    """
    curves = {
        name: _progress(steps, tasks, rng, resamples, level)
        for name, (steps, tasks) in scores.items()
    }
    return Efficiency(curves, level, resamples)


def _progress(
    steps: Floats, tasks: Sequence[Floats], rng: np.random.Generator, resamples: int, level: float
) -> Progress:
    sizes = [len(task) for task in tasks]
    whole = np.ones((sum(sizes), 1), dtype=np.uint8)
    drawn = np.concatenate(list(resample_counts(sizes, resamples, rng)), axis=1)
    rows = []
    for k in range(len(steps)):
        now = [task[:, k] for task in tasks]
        ends = percentile_ends(interquartile_mean(now, drawn), level)
        rows.append((float(interquartile_mean(now, whole)[0]), *map(float, ends)))
    point, low, high = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return Progress(steps, point, low, high)


def thinned(count: int, most: int = MOST) -> list[int]:
    """Places of at most so many of `count` evaluations, evenly apart, the last among them.

    Args:
        count: Evaluations.
        most: How many to take.
    """
    if count <= most:
        return list(range(count))
    return [round((i + 1) * count / most) - 1 for i in range(most)]
