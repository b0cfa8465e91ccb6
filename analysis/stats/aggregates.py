"""One number over many tasks, with intervals: mean, median, interquartile mean, optimality gap.

The aggregates are those of Agarwal et al., "Deep Reinforcement Learning at the Edge of the
Statistical Precipice" (2021), with the stratified percentile bootstrap.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.stats.moments import Floats
from analysis.stats.resampling import Counts, resample_counts

NAMES = ("median", "iqm", "mean", "optimality_gap")
RESAMPLES = 50_000

# One entry per task: float[n] normalised scores; n may differ between tasks.
Tasks = Sequence[Floats]


@dataclasses.dataclass(frozen=True, eq=False)
class Aggregates:
    """Aggregates of several implementations.

    Attributes:
        names: The k implementations.
        point: float[k, 4], in the order of `NAMES`.
        low: float[k, 4], lower ends of the intervals.
        high: float[k, 4], upper ends.
        seeds: Per implementation the number of seeds in each task.
        level: Level of the intervals.
        resamples: Bootstrap resamples behind them.
    """

    names: tuple[str, ...]
    point: Floats
    low: Floats
    high: Floats
    seeds: tuple[tuple[int, ...], ...]
    level: float
    resamples: int


def aggregate(
    scores: Mapping[str, Tasks],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    target: float = 1.0,
) -> Aggregates:
    """Aggregates with percentile intervals from the stratified bootstrap.

    Args:
        scores: Per implementation one float[n] of normalised scores per task, n at least 1.
        rng: Source of the resamples.
        resamples: How many.
        level: Level of the intervals.
        target: Score above which the optimality gap counts nothing.
    """
    points, ends = [], []
    for tasks in scores.values():
        whole = np.concatenate([np.ones((len(task), 1), dtype=np.uint8) for task in tasks])
        points.append(_statistics(tasks, whole, target)[:, 0])
        sizes = [len(task) for task in tasks]
        drawn = [
            _statistics(tasks, counts, target) for counts in resample_counts(sizes, resamples, rng)
        ]
        ends.append(percentile_ends(np.concatenate(drawn, axis=1), level))
    low, high = (np.array([end[side] for end in ends]) for side in (0, 1))
    seeds = tuple(tuple(len(task) for task in tasks) for tasks in scores.values())
    return Aggregates(tuple(scores), np.array(points), low, high, seeds, level, resamples)


def percentile_ends(values: Floats, level: float) -> tuple[Floats, Floats]:
    """Ends of the percentile interval over the last axis."""
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail], axis=-1)
    return low, high


def _statistics(tasks: Tasks, counts: Counts, target: float) -> Floats:
    """float[4, resamples], in the order of `NAMES`."""
    starts = np.cumsum([0, *(len(task) for task in tasks)])
    means = np.stack(
        [
            (task / len(task)) @ counts[start : start + len(task)]
            for task, start in zip(tasks, starts[:-1], strict=True)
        ]
    )
    values = np.concatenate(list(tasks))
    gap = target - (np.minimum(values, target) / len(values)) @ counts
    mean = (values / len(values)) @ counts
    return np.stack([np.median(means, axis=0), _iqm(values, counts), mean, gap])


def _iqm(values: Floats, counts: Counts) -> Floats:
    """Mean of the middle half of all values, after cutting whole values as scipy does."""
    order = np.argsort(values, kind="stable")
    ordered, n = values[order], len(values)
    cut = int(0.25 * n)
    kind = np.uint8 if n < 256 else np.uint32
    # Values up to each place; between the cuts, differences of it are how often each counts.
    upto = np.clip(np.cumsum(counts[order], axis=0, dtype=kind), cut, n - cut)
    # The sum by parts: every step up to the next value is weighted by what lies above it.
    above = (n - cut) - upto[:-1].astype(np.float32)
    steps = (np.diff(ordered) / (n - 2 * cut)).astype(np.float64)
    return np.asarray(ordered[0] + steps @ above, dtype=np.float64)
