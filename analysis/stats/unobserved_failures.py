"""Bounds on a difference of means that allow for failures too rare to have been observed.

Rare failures leave no trace in a few seeds: if none of five runs failed, a failure rate of 45% is
still possible (1 - 0.05^(1/5)). Nothing is assumed of returns here except a known range. The upper
limit of a mean is a quantile of randomly weighted means of the sample and one more value at the end
of the range (Gaffke 2005; Learned-Miller and Thomas 2019); for returns of two values it is Clopper
and Pearson's limit. Two such limits are melded into one for the difference (Fay, Proschan and
Brittain, Biometrics 71, 2015). Validity of the limits is proven for two values and conjectured in
general; `benchmarks/false_equivalence.py` measures it.
"""

import functools

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from parallax.analysis.stats.moments import FloatArray, SampleMoments

DRAWS = 4_000


def compute_exceedance_p(
    upper: FloatArray | SampleMoments,
    lower: FloatArray | SampleMoments,
    ends: tuple[float, float],
    margin: float,
) -> float:
    """Compute the p-value of "the first mean exceeds the second by the margin or more".

    Args:
        upper: float[n] values of the sample whose mean may be larger, or their moments.
        lower: The other sample, or its moments.
        ends: Least and largest possible value; all values lie between.
        margin: In the unit of the values, above 0.

    Returns:
        A value in [0, 1], the same for equal arguments; NaN where a sample has fewer than two.
    """
    n, m = (
        int(item.n) if isinstance(item, SampleMoments) else len(item) for item in (upper, lower)
    )
    if min(n, m) < 2:
        return float("nan")
    low, high = ends
    x, y = _draw_means(upper, 0), _draw_means(lower, 1)
    # Of the two unobserved values, the one with more room is integrated over analytically, and the
    # other is drawn.
    if high - x.mean() >= y.mean() - low:
        share = _draw_unobserved_share(m, 1)
        need, room, size = margin + y - share * (y - low) - x, high - x, n
    else:
        share = _draw_unobserved_share(n, 0)
        need, room, size = margin + y - x - share * (high - x), y - low, m
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(need <= 0, 0.0, np.minimum(1.0, need / np.maximum(room, 0.0)))
    # The unobserved share of n values is Beta(1, n): P(share > w) = (1 - w)^n.
    return float(((1 - weight) ** size).mean())


def compute_difference_p(
    first: FloatArray | SampleMoments,
    second: FloatArray | SampleMoments,
    ends: tuple[float, float],
    margin: float,
) -> float:
    """Compute the p-value of "the means differ by the margin or more", in either direction.

    Args:
        first: float[n] values, or their moments.
        second: The others.
        ends: Least and largest possible value.
        margin: In the unit of the values, above 0.
    """
    return max(
        compute_exceedance_p(first, second, ends, margin),
        compute_exceedance_p(second, first, ends, margin),
    )


def compute_equal_means_p(
    first: FloatArray | SampleMoments, second: FloatArray | SampleMoments, ends: tuple[float, float]
) -> float:
    """Compute the two-sided p-value of "the means are equal": twice the smaller one-sided p-value.

    Args:
        first: float[n] values, or their moments.
        second: The others.
        ends: Least and largest possible value.
    """
    tails = (compute_exceedance_p(*both, ends, 0.0) for both in ((first, second), (second, first)))
    return min(1.0, 2 * min(tails))


def compute_unobserved_allowance(
    n: ArrayLike, level: ArrayLike, rooms: tuple[ArrayLike, ArrayLike]
) -> FloatArray:
    """Compute how much unobserved values can change a difference of means, at a level.

    It is the upper quantile of the sum of both samples' shifts. Each shift is its room times a
    share with the distribution of the unobserved share in `compute_exceedance_p`.

    Args:
        n: float[...], values in each sample.
        level: float[...], probability of a larger change.
        rooms: Largest distance of an unobserved value from each mean, float[...] each.

    Returns:
        float[...], in the unit of the rooms.
    """
    n, level, a, b = np.broadcast_arrays(
        *(np.asarray(item, dtype=np.float64) for item in (n, level, *rooms))
    )
    more, less = np.maximum(a, b), np.maximum(np.minimum(a, b), 0.0)
    less = np.minimum(less, more * (1 - 1e-6))  # the formula divides by their difference
    # Exponential shares replace beta shares; the last step makes this exact for one sample.
    # Beyond `stop` the tail is below level * exp(-40).
    start, stop = np.zeros(n.shape), more * (40.0 + np.log(1 / level)) / n
    for _ in range(60):
        middle = (start + stop) / 2
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            # P(a X + b Y > s) = (a exp(-n s / a) - b exp(-n s / b)) / (a - b), X and Y ~ Exp(n).
            one, two = more * np.exp(-n * middle / more), less * np.exp(-n * middle / less)
            tail = (one - np.where(less > 0, two, 0.0)) / (more - less)
        above = tail > level
        start, stop = np.where(above, middle, start), np.where(above, stop, middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = more * -np.expm1(-stop / more)
    return np.where(more > 0, exact, 0.0)


def _draw_means(sample: FloatArray | SampleMoments, role: int) -> FloatArray:
    """Draw float[DRAWS], weighted means of the values; normal draws for moments alone."""
    if isinstance(sample, SampleMoments):
        n = int(sample.n)
        return np.asarray(sample.mean + sample.sd / np.sqrt(n) * _draw_normal(n, role))
    return np.asarray(_draw_weights(len(sample), role) @ sample)


@functools.lru_cache(maxsize=128)
def _draw_weights(n: int, role: int) -> FloatArray:
    # Exponentials over their sum are Dirichlet(1, ..., 1), as spacings of uniform numbers are.
    drawn = np.random.default_rng((n, role)).standard_exponential((DRAWS, n))
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))


@functools.lru_cache(maxsize=128)
def _draw_normal(n: int, role: int) -> FloatArray:
    return np.asarray(stats.norm.ppf(_spread_evenly(n, role, 2)))


@functools.lru_cache(maxsize=128)
def _draw_unobserved_share(n: int, role: int) -> FloatArray:
    """Draw float[DRAWS], weights of the unobserved value among n + 1."""
    # 1 - u^(1 / n) is Beta(1, n), by inversion.
    return np.asarray(-np.expm1(np.log(_spread_evenly(n, role, 1)) / n))


def _spread_evenly(n: int, role: int, kind: int) -> FloatArray:
    """Draw float[DRAWS], numbers spread evenly over (0, 1), in random order."""
    # Stratified draws: one in the middle of each of DRAWS equal parts.
    return np.asarray((np.random.default_rng((n, role, kind)).permutation(DRAWS) + 0.5) / DRAWS)
