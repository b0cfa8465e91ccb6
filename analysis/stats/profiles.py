"""Performance profiles, and the probability of improvement over many tasks."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.stats.aggregates import RESAMPLES, Tasks, percentile_ends
from analysis.stats.moments import Floats
from analysis.stats.resampling import Counts, resample_counts


@dataclasses.dataclass(frozen=True, eq=False)
class Profiles:
    """Share of runs above each threshold, tasks weighted equally.

    Attributes:
        names: The k implementations.
        thresholds: float[m], normalised scores.
        share: float[k, m].
        low: float[k, m], lower ends of pointwise intervals.
        high: float[k, m], upper ends.
        level: Level of the intervals.
        resamples: Bootstrap resamples behind them.
    """

    names: tuple[str, ...]
    thresholds: Floats
    share: Floats
    low: Floats
    high: Floats
    level: float
    resamples: int


@dataclasses.dataclass(frozen=True, eq=False)
class Improvement:
    """Chance that a run of one implementation beats a run of another, averaged over tasks.

    Attributes:
        pairs: Names, first against second.
        point: float[p], ties counting half.
        low: float[p], lower ends of the intervals.
        high: float[p], upper ends.
        resamples: Bootstrap resamples behind them.
    """

    pairs: tuple[tuple[str, str], ...]
    point: Floats
    low: Floats
    high: Floats
    resamples: int


def profile(
    scores: Mapping[str, Tasks],
    thresholds: Floats,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Profiles:
    """Performance profiles with pointwise percentile intervals from the stratified bootstrap.

    Args:
        scores: Per implementation one float[n] of normalised scores per task, n at least 1.
        thresholds: float[m].
        rng: Source of the resamples.
        resamples: How many.
        level: Level of the intervals.
    """
    rows = []
    for tasks in scores.values():
        # Each run counts 1 / (its task's runs x tasks) where it is above the threshold.
        weights = np.concatenate([np.full(len(task), 1 / len(task)) for task in tasks])
        above = np.concatenate(list(tasks)) > thresholds[:, None]
        weighted = (above * weights / len(tasks)).astype(np.float32)
        sizes = [len(task) for task in tasks]
        share = np.concatenate(
            [
                weighted @ counts.astype(np.float32)
                for counts in resample_counts(sizes, resamples, rng)
            ],
            axis=1,
        )
        exact = (above * weights).sum(axis=1) / len(tasks)
        rows.append((exact, *percentile_ends(share, level)))
    share, low, high = (np.array([row[i] for row in rows], dtype=np.float64) for i in range(3))
    return Profiles(tuple(scores), np.asarray(thresholds), share, low, high, level, resamples)


def improvement(
    scores: Mapping[str, Tasks],
    rng: np.random.Generator,
    resamples: int = 2_000,
    level: float = 0.95,
) -> Improvement:
    """Probability of improvement of every pair, with intervals from the stratified bootstrap.

    Args:
        scores: Per implementation one float[n] of normalised scores per task, n at least 1.
        rng: Source of the resamples.
        resamples: How many.
        level: Level of the intervals.
    """
    drawn = {
        name: np.concatenate(
            list(resample_counts([len(task) for task in tasks], resamples, rng)), axis=1
        )
        for name, tasks in scores.items()
    }
    pairs = tuple(itertools.combinations(scores, 2))
    rows = []
    for first, second in pairs:
        one, two = scores[first], scores[second]
        whole = [np.ones((sum(map(len, tasks)), 1), dtype=np.uint8) for tasks in (one, two)]
        point = _beats(one, two, whole[0], whole[1])[0]
        values = _beats(one, two, drawn[first], drawn[second])
        rows.append((point, *percentile_ends(values, level)))
    point, low, high = (np.array([row[i] for row in rows], dtype=np.float64) for i in range(3))
    return Improvement(pairs, point, low, high, resamples)


def _beats(first: Tasks, second: Tasks, one: Counts, two: Counts) -> Floats:
    """float[resamples], wins and half ties over pairs of runs, averaged over tasks."""
    total = np.zeros(one.shape[1])
    starts = _starts(first), _starts(second)
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        wins = (np.sign(a[:, None] - b) + 1) / 2
        rows = one[starts[0][i] : starts[0][i + 1]], two[starts[1][i] : starts[1][i + 1]]
        total += ((wins.T @ rows[0]) * rows[1]).sum(axis=0) / wins.size
    return total / len(first)


def _starts(tasks: Sequence[Floats]) -> list[int]:
    return [0, *itertools.accumulate(len(task) for task in tasks)]
