"""Aggregates over tasks: mean, median, interquartile mean, optimality gap, profiles, improvement.

Definitions are those of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (2021), with the stratified percentile bootstrap: seeds are resampled within each task,
for many resamples at once. All tasks have the same weight, even with unequal numbers of seeds.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.analysis.stats.intervals import LEVEL, compute_percentile_bounds
from parallax.analysis.stats.moments import FloatArray

# Resamples drawn at a time: this bounds memory. Another value changes the draws of a seed.
CHUNK_SIZE = 10_000

ResampleCounts = NDArray[np.uint8] | NDArray[np.uint16]


def draw_resample_counts(
    sizes: Sequence[int], resamples: int, rng: np.random.Generator
) -> Iterator[ResampleCounts]:
    """Draw the number of occurrences of each value in each resample.

    Counts replace the resamples themselves: means are matrix products with counts, and values are
    sorted once for all resamples.

    Args:
        sizes: Values per task, at least 1 each.
        resamples: Number of resamples.
        rng: Source of the draws.

    Yields:
        int[sum(sizes), up to CHUNK]; the rows of a task add up to its size.
    """
    for start in range(0, resamples, CHUNK_SIZE):
        columns = min(CHUNK_SIZE, resamples - start)
        yield np.concatenate([_draw_task_counts(size, columns, rng) for size in sizes])


def _draw_task_counts(size: int, columns: int, rng: np.random.Generator) -> ResampleCounts:
    kind = np.uint8 if size < 256 else np.uint16
    counts = np.zeros((size, columns), dtype=kind)
    # Both branches draw from the same distribution, but not the same numbers.
    if size > 16:  # comparing every draw with every value would be slower
        drawn = rng.multinomial(size, np.full(size, 1 / size), size=columns)
        return np.ascontiguousarray(drawn.T.astype(kind))
    drawn = rng.integers(size, size=(size, columns), dtype=kind)
    for value in range(size):
        for draw in drawn:
            counts[value] += draw == value
    return counts


AGGREGATE_NAMES = ("median", "iqm", "mean", "optimality_gap")
RESAMPLES = 50_000
_OPTIMALITY_TARGET = 1.0  # score from which on the optimality gap is 0

# One entry per task: float[n] normalized scores; n may differ between tasks.
TaskScores = Sequence[FloatArray]


@dataclasses.dataclass(frozen=True, eq=False)
class AggregateScores:
    """Aggregates of several implementations.

    Attributes:
        names: The k implementations.
        point: float[k, 4], in the order of `AGGREGATE_NAMES`.
        low: float[k, 4], lower ends of the intervals.
        high: float[k, 4], upper ends.
        seeds: Per implementation the number of seeds in each task.
        resamples: Bootstrap resamples behind them.
    """

    names: tuple[str, ...]
    point: FloatArray
    low: FloatArray
    high: FloatArray
    seeds: tuple[tuple[int, ...], ...]
    resamples: int


def compute_aggregates(
    scores: Mapping[str, TaskScores],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> AggregateScores:
    """Return aggregates with percentile intervals from the stratified bootstrap.

    Args:
        scores: Per implementation one float[n] of normalized scores per task, n at least 1.
        rng: Source of the resamples.
        resamples: Number of resamples.
        level: Level of the intervals.
    """
    points, ends = [], []
    for tasks in scores.values():
        whole = np.concatenate([np.ones((len(task), 1), dtype=np.uint8) for task in tasks])
        points.append(_compute_statistics(tasks, whole)[:, 0])
        sizes = [len(task) for task in tasks]
        drawn = [
            _compute_statistics(tasks, counts)
            for counts in draw_resample_counts(sizes, resamples, rng)
        ]
        ends.append(compute_percentile_bounds(np.concatenate(drawn, axis=1), level, -1))
    low, high = (np.array([end[side] for end in ends]) for side in (0, 1))
    seeds = tuple(tuple(len(task) for task in tasks) for tasks in scores.values())
    return AggregateScores(tuple(scores), np.array(points), low, high, seeds, resamples)


def _compute_statistics(tasks: TaskScores, counts: ResampleCounts) -> FloatArray:
    """Return float[4, resamples], in the order of `AGGREGATE_NAMES`."""
    starts = np.cumsum([0, *(len(task) for task in tasks)])
    means = np.stack(
        [
            (task / len(task)) @ counts[start : start + len(task)]
            for task, start in zip(tasks, starts[:-1], strict=True)
        ]
    )
    values = np.concatenate(list(tasks))
    # Each value has the weight 1 / (its task's values x tasks), so that tasks weigh the same.
    share = np.concatenate([np.full(len(task), 1 / len(task)) for task in tasks]) / len(tasks)
    gap = _OPTIMALITY_TARGET - (np.minimum(values, _OPTIMALITY_TARGET) * share) @ counts
    mean = (values * share) @ counts
    # The median is that of the tasks' means, as in rliable, not of all runs.
    return np.stack(
        [np.median(means, axis=0), compute_interquartile_mean(tasks, counts), mean, gap]
    )


_MAX_REPEATS = 2**40  # above this, tasks weigh the same up to rounding


def compute_interquartile_mean(tasks: TaskScores, counts: ResampleCounts) -> FloatArray:
    """Compute the mean of the middle half of all values, after cutting whole values as scipy does.

    If tasks have unequal numbers of values, each value is repeated so that all tasks have equally
    many.

    Args:
        tasks: One float[n] of values per task.
        counts: int[all values, resamples], how often each occurs, from `draw_resample_counts`.

    Returns:
        float[resamples].
    """
    common = min(math.lcm(*map(len, tasks)), _MAX_REPEATS)
    often = np.concatenate([np.full(len(task), round(common / len(task))) for task in tasks])
    values = np.concatenate(list(tasks))
    order = np.argsort(values, kind="stable")
    ordered, n = values[order], int(often.sum())
    # Rounded down, as in scipy.stats.trim_mean, which rliable calls.
    cut = int(0.25 * n)
    kind = np.uint8 if n < 256 else np.uint32 if n < 2**32 else np.uint64
    often = often[order][:, None].astype(kind)
    # Cumulative counts, clipped at the cuts: their differences are how often each value counts.
    upto = np.clip(np.cumsum(counts[order] * often, axis=0, dtype=kind), cut, n - cut)
    # Summation by parts: each step to the next value is weighted by the count of values above it.
    # float32 has all whole numbers up to 2^24, and its products are faster.
    exact = np.float32 if n < 2**16 else np.float64
    above = ((n - cut) - upto[:-1].astype(exact)).astype(exact)
    steps = (np.diff(ordered) / (n - 2 * cut)).astype(np.float64)
    return np.asarray(ordered[0] + steps @ above, dtype=np.float64)


@dataclasses.dataclass(frozen=True, eq=False)
class PerformanceProfiles:
    """Share of runs above each threshold, tasks weighted equally.

    Attributes:
        names: The k implementations.
        thresholds: float[m], normalized scores.
        share: float[k, m].
        low: float[k, m], lower ends of pointwise intervals.
        high: float[k, m], upper ends.
        resamples: Bootstrap resamples behind them.
    """

    names: tuple[str, ...]
    thresholds: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray
    resamples: int


@dataclasses.dataclass(frozen=True, eq=False)
class ImprovementProbability:
    """Chance that a run of one implementation beats a run of another, averaged over tasks.

    Attributes:
        pairs: Names, first against second.
        point: float[p], ties counting half.
        low: float[p], lower ends of the intervals.
        high: float[p], upper ends.
        resamples: Bootstrap resamples behind them.
    """

    pairs: tuple[tuple[str, str], ...]
    point: FloatArray
    low: FloatArray
    high: FloatArray
    resamples: int


def compute_profiles(
    scores: Mapping[str, TaskScores],
    thresholds: FloatArray,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> PerformanceProfiles:
    """Return performance profiles with pointwise intervals from the stratified bootstrap.

    Args:
        scores: Per implementation one float[n] of normalized scores per task, n at least 1.
        thresholds: float[m].
        rng: Source of the resamples.
        resamples: Number of resamples.
        level: Level of the intervals.
    """
    rows = []
    for tasks in scores.values():
        # Each run counts 1 / (its task's runs x tasks) where it is above the threshold.
        weights = np.concatenate([np.full(len(task), 1 / len(task)) for task in tasks])
        # Strictly above, as in the definition of run-score distributions.
        above = np.concatenate(list(tasks)) > thresholds[:, None]
        weighted = (above * weights / len(tasks)).astype(np.float32)
        sizes = [len(task) for task in tasks]
        share = np.concatenate(
            [
                weighted @ counts.astype(np.float32)
                for counts in draw_resample_counts(sizes, resamples, rng)
            ],
            axis=1,
        )
        exact = (above * weights).sum(axis=1) / len(tasks)
        rows.append((exact, *compute_percentile_bounds(share, level, -1)))
    share, low, high = (np.array([row[i] for row in rows], dtype=np.float64) for i in range(3))
    return PerformanceProfiles(tuple(scores), np.asarray(thresholds), share, low, high, resamples)


def compute_improvement(
    scores: Mapping[str, TaskScores],
    rng: np.random.Generator,
    resamples: int = 2_000,
    level: float = LEVEL,
) -> ImprovementProbability:
    """Compute the probability of improvement of every pair, with stratified bootstrap intervals.

    Args:
        scores: Per implementation one float[n] of normalized scores per task, n at least 1.
        rng: Source of the resamples.
        resamples: Number of resamples.
        level: Level of the intervals.
    """
    drawn = {
        name: np.concatenate(
            list(draw_resample_counts([len(task) for task in tasks], resamples, rng)), axis=1
        )
        for name, tasks in scores.items()
    }
    pairs = tuple(itertools.combinations(scores, 2))
    rows = []
    for first, second in pairs:
        one, two = scores[first], scores[second]
        whole = [np.ones((sum(map(len, tasks)), 1), dtype=np.uint8) for tasks in (one, two)]
        point = _compute_win_rate(one, two, whole[0], whole[1])[0]
        values = _compute_win_rate(one, two, drawn[first], drawn[second])
        rows.append((point, *compute_percentile_bounds(values, level, -1)))
    point, low, high = (np.array([row[i] for row in rows], dtype=np.float64) for i in range(3))
    return ImprovementProbability(pairs, point, low, high, resamples)


def _compute_win_rate(
    first: TaskScores, second: TaskScores, one: ResampleCounts, two: ResampleCounts
) -> FloatArray:
    """Return float[resamples], wins and half ties over pairs of runs, averaged over tasks."""
    total = np.zeros(one.shape[1])
    starts = _compute_task_offsets(first), _compute_task_offsets(second)
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        wins = (np.sign(a[:, None] - b) + 1) / 2
        rows = one[starts[0][i] : starts[0][i + 1]], two[starts[1][i] : starts[1][i + 1]]
        total += ((wins.T @ rows[0]) * rows[1]).sum(axis=0) / wins.size
    return total / len(first)


def _compute_task_offsets(tasks: Sequence[FloatArray]) -> list[int]:
    return [0, *itertools.accumulate(len(task) for task in tasks)]


MAX_CURVE_STEPS = 30  # steps at which a curve is evaluated
EFFICIENCY_RESAMPLES = 2_000


@dataclasses.dataclass(frozen=True, eq=False)
class EfficiencyCurve:
    """One implementation's curve.

    Attributes:
        steps: float[k], environment steps.
        point: float[k], interquartile mean of normalized scores.
        low: float[k], lower ends of pointwise intervals.
        high: float[k], upper ends.
    """

    steps: FloatArray
    point: FloatArray
    low: FloatArray
    high: FloatArray


@dataclasses.dataclass(frozen=True, eq=False)
class SampleEfficiency:
    """Curves of several implementations.

    Attributes:
        curves: Curve by name; steps can differ between curves.
    """

    curves: Mapping[str, EfficiencyCurve]
    resamples: int


def compute_sample_efficiency(
    scores: Mapping[str, tuple[FloatArray, Sequence[FloatArray]]],
    rng: np.random.Generator,
    resamples: int = EFFICIENCY_RESAMPLES,
) -> SampleEfficiency:
    """Return curves with percentile intervals from the stratified bootstrap.

    Args:
        scores: Per implementation float[k] steps, and one float[n, k] of normalized scores per
            task, n at least 1.
        rng: Source of the resamples.
        resamples: Number of resamples.
    """
    curves = {
        name: _compute_efficiency_curve(steps, tasks, rng, resamples)
        for name, (steps, tasks) in scores.items()
    }
    return SampleEfficiency(curves, resamples)


def _compute_efficiency_curve(
    steps: FloatArray, tasks: Sequence[FloatArray], rng: np.random.Generator, resamples: int
) -> EfficiencyCurve:
    sizes = [len(task) for task in tasks]
    whole = np.ones((sum(sizes), 1), dtype=np.uint8)
    drawn = np.concatenate(list(draw_resample_counts(sizes, resamples, rng)), axis=1)
    rows = []
    for k in range(len(steps)):
        now = [task[:, k] for task in tasks]
        ends = compute_percentile_bounds(compute_interquartile_mean(now, drawn), LEVEL)
        rows.append((float(compute_interquartile_mean(now, whole)[0]), *map(float, ends)))
    point, low, high = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return EfficiencyCurve(steps, point, low, high)


def thin_evaluations(count: int, most: int = MAX_CURVE_STEPS) -> list[int]:
    """Return indices of at most `most` of `count` evaluations, evenly spaced, with the last."""
    if count <= most:
        return list(range(count))
    return [round((i + 1) * count / most) - 1 for i in range(most)]
