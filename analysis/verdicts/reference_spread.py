"""Scores of one implementation beside the spread of reference implementations, batch by batch."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from parallax.analysis.stats.group_sequential import (
    compute_one_sided_sequential_p,
    compute_sequential_p,
)
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.sequential import SequentialSchedule

INSIDE, OUTSIDE, INCONCLUSIVE = "inside", "outside", "inconclusive"
MIN_REFERENCE_FRAMEWORKS = 3


@dataclasses.dataclass(frozen=True)
class ReferenceSpread:
    """Interval in which the mean score of one more implementation is expected."""

    means: Mapping[str, float]
    runs: int
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class SpreadVerdict:
    """Verdict on the mean score of one implementation, valid whenever training stops.

    Attributes:
        verdict: `inside`, `outside` or `inconclusive`.
        n: Number of scores at the last check.
        p_inside: Group-sequential p-value of "the mean lies outside the spread".
        p_outside: Group-sequential p-value of "the mean lies inside the spread".
    """

    verdict: str
    n: int
    mean: float
    p_inside: float
    p_outside: float


@dataclasses.dataclass(frozen=True)
class PairedChange:
    """Difference between two implementations with equal seeds.

    Attributes:
        difference: Mean of second - first.
        low: Lower end of the 95% interval of Student's t, for this number of pairs alone.
        p: Group-sequential p-value of "no difference".
    """

    n: int
    difference: float
    low: float
    high: float
    p: float


def compute_reference_spread(scores: Mapping[str, Sequence[float]]) -> ReferenceSpread:
    """Compute the 95% interval in which the mean score of one more framework is expected.

    The prediction interval of a normal sample, `m +- t(k - 1) s sqrt(1 + 1/k)`, of the means of k
    frameworks: their deviation s includes the differences between frameworks and the noise of a
    mean over seeds.

    Raises:
        ValueError: Fewer than three frameworks have scores.
    """
    means = {name: float(np.mean(values)) for name, values in scores.items() if len(values)}
    count = len(means)
    if count < MIN_REFERENCE_FRAMEWORKS:
        raise ValueError(
            f"A spread needs runs of at least {MIN_REFERENCE_FRAMEWORKS} frameworks; there are "
            f"runs of {', '.join(means) or 'none'}."
        )
    values = np.array(list(means.values()))
    quantile = stats.t.ppf(0.975, count - 1)
    half = float(quantile * values.std(ddof=1) * math.sqrt(1 + 1 / count))
    center = float(values.mean())
    return ReferenceSpread(means, sum(map(len, scores.values())), center - half, center + half)


def judge_against_spread(
    scores: Sequence[float],
    spread: ReferenceSpread,
    schedule: SequentialSchedule,
    alpha: float = 0.05,
) -> SpreadVerdict:
    """Judge at the checks so far whether a mean score lies inside the reference spread.

    *Inside* rejects both "at most `low`" and "at least `high`" by one-sided t tests (two one-sided
    tests); *outside* rejects that the mean lies between them. Both are group-sequential. Scores are
    in the order of training; the checks are fixed before the first seed.
    """
    values, sizes = np.asarray(scores, dtype=np.float64), schedule.sizes(len(scores))
    if not sizes:
        mean = float(values.mean()) if len(values) else math.nan
        return SpreadVerdict(INCONCLUSIVE, len(values), mean, math.nan, math.nan)
    above_low, below_high = (
        np.array([_compute_one_sample_p(values[:n], limit, side) for n in sizes])
        for limit, side in ((spread.low, "greater"), (spread.high, "less"))
    )
    most = schedule.max_seeds
    inside = compute_one_sided_sequential_p(np.maximum(above_low, below_high), sizes, most)
    ends = [
        float(compute_one_sided_sequential_p(1 - p, sizes, most)) for p in (above_low, below_high)
    ]
    outside = min(1.0, 2 * min(ends))  # either end
    word = INSIDE if inside < alpha else OUTSIDE if outside < alpha else INCONCLUSIVE
    mean = float(values[: sizes[-1]].mean())
    return SpreadVerdict(word, sizes[-1], mean, float(inside), outside)


def compute_paired_change(
    first: Sequence[float], second: Sequence[float], schedule: SequentialSchedule
) -> PairedChange:
    """Compute the difference of two implementations from scores of equal seeds."""
    changes = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    mean = float(changes.mean()) if len(changes) else math.nan
    sizes = schedule.sizes(len(changes))
    if not sizes:
        return PairedChange(len(changes), mean, math.nan, math.nan, math.nan)
    p = [min(1.0, 2 * min(_compute_both_sides(changes[:n]))) for n in sizes]
    error = float(changes.std(ddof=1) / math.sqrt(len(changes)))
    half = float(stats.t.ppf(0.975, len(changes) - 1)) * error
    sequential = float(compute_sequential_p(p, sizes, schedule.max_seeds))
    return PairedChange(len(changes), mean, mean - half, mean + half, sequential)


def _compute_both_sides(changes: FloatArray) -> tuple[float, float]:
    return (
        _compute_one_sample_p(changes, 0.0, "greater"),
        _compute_one_sample_p(changes, 0.0, "less"),
    )


def _compute_one_sample_p(values: FloatArray, limit: float, side: str) -> float:
    """Return the p-value of a one-sided t test; 0 or 1 if all values are equal."""
    error = values.std(ddof=1) / math.sqrt(len(values))
    distance = (values.mean() - limit) * (1 if side == "greater" else -1)
    if error == 0:
        return 0.0 if distance > 0 else 1.0
    return float(stats.t.sf(distance / error, len(values) - 1))
