"""Effect sizes with intervals: Hedges' g and the probability of improvement."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from analysis.stats.moments import Floats, Moments

_Z = 1.959963984540054  # 97.5% quantile of the normal distribution


def hedges_g(first: Moments, second: Moments) -> tuple[Floats, Floats, Floats]:
    """Difference in pooled standard deviations, corrected for small samples, with its interval.

    Correction and variance after Hedges (1981) and Hedges and Olkin (1985); the interval uses
    Student's t quantile in place of the normal one.

    Args:
        first: Moments of n values each.
        second: Moments of m values each, of the same shape.

    Returns:
        g, low and high, each float[...]; infinite where both samples are constant and differ,
        NaN where either has fewer than two values.
    """
    n, m = first.n, second.n
    freedom = n + m - 2
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = np.sqrt(((n - 1) * first.sd**2 + (m - 1) * second.sd**2) / freedom)
        gap = first.mean - second.mean
        # Rounding must not make an effect out of equal constants.
        d = np.where((pooled == 0) & (gap == 0), 0.0, gap / pooled)
        correction = np.exp(
            special.gammaln(freedom / 2)
            - special.gammaln((freedom - 1) / 2)
            - np.log(freedom / 2) / 2
        )
        g = correction * d
        variance = (n + m) / (n * m) + g**2 / (2 * (n + m))
        half = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
        low, high = np.where(np.isinf(g), g, g - half), np.where(np.isinf(g), g, g + half)
    return np.asarray(g), low, high


def improvement_of_samples(first: Floats, second: Floats) -> float:
    """Share of pairs in which the first value is larger, equal ones counting half.

    That is the Mann-Whitney statistic divided by n m.

    Args:
        first: float[n], n at least 1.
        second: float[m], m at least 1.
    """
    above = np.sign(np.subtract.outer(first, second))
    return float((above.mean() + 1) / 2)


def improvement_of_moments(first: Moments, second: Moments) -> Floats:
    """Chance that a value of the first is larger, for normal values."""
    spread = np.sqrt(first.sd**2 + second.sd**2)
    gap = first.mean - second.mean
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((spread == 0) & (gap == 0), 0.0, gap / spread)
    return np.asarray(stats.norm.cdf(ratio))


def improvement_interval(theta: ArrayLike, n: ArrayLike, m: ArrayLike) -> tuple[Floats, Floats]:
    """The 95% interval for a probability of improvement.

    Newcombe's method 5 (Statistics in Medicine 25, 2006, 559-573): the ends are where the
    estimate is 1.96 standard errors away, with the error that belongs to the end. It does
    not shrink to a point where one sample lies wholly above the other.

    Args:
        theta: float[...], estimates in [0, 1].
        n: float[...], size of the first sample, at least 2.
        m: float[...], size of the second.

    Returns:
        low and high, each float[...].
    """
    estimate, n, m = (np.asarray(item, dtype=np.float64) for item in (theta, n, m))
    return _newcombe_end(estimate, n, m, 0.0), _newcombe_end(estimate, n, m, 1.0)


def _newcombe_end(estimate: Floats, n: Floats, m: Floats, outer: float) -> Floats:
    inside, outside = estimate.copy(), np.full(estimate.shape, outer)
    inner_size = (n + m) / 2 - 1
    for _ in range(60):
        middle = (inside + outside) / 2
        bend = (1 - middle) / (2 - middle) + middle / (1 + middle)
        variance = middle * (1 - middle) * (1 + inner_size * bend) / (n * m)
        near = (middle - estimate) ** 2 <= _Z**2 * variance
        inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
    return np.where(np.isnan(estimate), np.nan, (inside + outside) / 2)
