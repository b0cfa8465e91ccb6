"""Intervals for a mean and for a difference of two means: pure functions on arrays.

Student's t, Welch's, and the bootstrap: percentile, and bias-corrected and accelerated (BCa).
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from parallax.analysis.stats.moments import FloatArray

RESAMPLES = 10_000


def resample_means(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the means of `RESAMPLES` resamples; the columns share their draws.

    Args:
        samples: float[n, ...], finite.
        rng: Source of the draws.

    Returns:
        float[RESAMPLES, ...].
    """
    n = len(samples)
    # The count of each value in a resample is multinomial, so that means are one matrix product.
    shares = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
    return np.asarray(np.tensordot(shares, samples, axes=1))


def compute_percentile_bounds(values: FloatArray, level: float, axis: int = 0) -> tuple[Any, Any]:
    """Return the ends of the percentile interval (Efron and Tibshirani 1993, chapter 13).

    Args:
        values: float[...], a statistic of each resample along `axis`.
        level: Level of the interval.
        axis: The axis of the resamples.
    """
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail], axis=axis)
    return low, high


def compute_bca_bounds(samples: FloatArray, means: FloatArray, level: float) -> tuple[Any, Any]:
    """Return the ends of the BCa interval (Efron 1987) of each column.

    Args:
        samples: float[n, ...], n at least 2.
        means: float[resamples, ...], means of resamples of them.
        level: Level of the interval.
    """
    centre, tail = samples.mean(axis=0), (1 - level) / 2
    # Many resamples of few values have the same mean; rounding errors must not break these ties.
    size = np.abs(samples).max(axis=0) + np.ptp(samples, axis=0)
    noise = 8 * len(samples) * np.finfo(np.float64).eps * size
    # Ties count half, as in scipy.stats.bootstrap (`_percentile_of_score`, kind="mean").
    below = ((means < centre - noise).mean(axis=0) + (means <= centre + noise).mean(axis=0)) / 2
    bias = stats.norm.ppf(below)
    ordered = np.sort(means, axis=0)
    away = samples - centre  # proportional to the jackknife's deviations
    with np.errstate(divide="ignore", invalid="ignore"):
        acceleration = (away**3).sum(axis=0) / (6 * (away**2).sum(axis=0) ** 1.5)
        ends = []
        for quantile in stats.norm.ppf([tail, 1 - tail]):
            shift = bias + quantile
            share = stats.norm.cdf(bias + shift / (1 - acceleration * shift))
            ends.append(_compute_column_quantiles(ordered, share))
    constant = np.ptp(samples, axis=0) == 0
    return np.where(constant, centre, ends[0]), np.where(constant, centre, ends[1])


def _compute_column_quantiles(ordered: FloatArray, share: FloatArray) -> FloatArray:
    """Return the linear quantile of each column, each at its own share."""
    # NaN in columns of equal values, which the caller replaces by their centre.
    place = np.nan_to_num(np.asarray(share)) * (len(ordered) - 1)
    lower = np.floor(place).astype(np.intp)
    upper = np.minimum(lower + 1, len(ordered) - 1)
    first, second = (
        np.take_along_axis(ordered, np.asarray(at)[None], axis=0)[0] for at in (lower, upper)
    )
    return np.asarray(first + (second - first) * (place - lower))


INTERVAL_METHODS = ("t", "thesis", "bootstrap", "bca")
LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class ConfidenceInterval:
    """A centre with an interval around it.

    Attributes:
        mean: The centre, in units of the data; NaN if there are no data.
        low: Lower end; NaN below two values.
        high: Upper end; NaN below two values.
        n: Number of values.
        method: One of `INTERVAL_METHODS`, or `welch`.
    """

    mean: float
    low: float
    high: float
    n: int
    method: str


def compute_interval(
    values: ArrayLike | Sequence[float], method: str = "t", rng: np.random.Generator | None = None
) -> ConfidenceInterval:
    """Return the 95% interval for the mean of independent values.

    Args:
        values: float[n], finite.
        method: One of `INTERVAL_METHODS`, see `compute_interval_bounds`.
        rng: Source of the resamples; needed for `bootstrap` and `bca` only.
    """
    samples = np.asarray(values, dtype=np.float64)
    mean, low, high = compute_interval_bounds(samples, method, rng)
    return ConfidenceInterval(float(mean), float(low), float(high), len(samples), method)


def compute_interval_bounds(
    samples: FloatArray, method: str = "t", rng: np.random.Generator | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute means and the ends of their 95% intervals for each column.

    `t` is mean +- t(0.975, n - 1) s / sqrt(n) with the sample deviation s (Student 1908);
    `thesis` is mean +- 1.96 d / sqrt(n) with the population deviation d, which covers less
    than 95% (see `compute_thesis_coverage`); `bootstrap` takes the 2.5% and 97.5% percentiles of
    the means of 10,000 resamples (Efron and Tibshirani 1993, chapter 13); `bca` corrects these
    ends for bias and skewness (Efron 1987).

    Args:
        samples: float[n, ...], finite.
        method: One of `INTERVAL_METHODS`.
        rng: Source of the resamples; needed for `bootstrap` and `bca` only.

    Returns:
        mean, low and high, each float[...]; NaN where n is too small.

    Raises:
        ValueError: The method is unknown, or a bootstrap has no generator.
    """
    if method not in INTERVAL_METHODS:
        raise ValueError(f"method={method!r} is not known. Known: {', '.join(INTERVAL_METHODS)}.")
    n = len(samples)
    missing = np.full(samples.shape[1:], np.nan)
    if n == 0:
        return missing, missing, missing
    mean = np.asarray(samples.mean(axis=0))
    if n == 1:
        return mean, missing, missing
    if method in ("bootstrap", "bca"):
        return mean, *_compute_bootstrap_bounds(samples, method, rng)
    half = _compute_half_width(samples, method)
    return mean, mean - half, mean + half


def compute_welch_interval(first: FloatArray, second: FloatArray) -> ConfidenceInterval:
    """Return the 95% interval for the difference of two means without assuming equal variances.

    Degrees of freedom after Welch (1947) and Satterthwaite (1946).

    Args:
        first: float[n], finite.
        second: float[m], finite.

    Returns:
        Interval of mean(first) - mean(second) with n + m values; its ends are NaN if
        either sample has fewer than two.
    """
    n, m = len(first), len(second)
    difference = float(first.mean() - second.mean()) if n and m else math.nan
    if n < 2 or m < 2:
        return ConfidenceInterval(difference, math.nan, math.nan, n + m, "welch")
    variances = float(first.var(ddof=1)) / n, float(second.var(ddof=1)) / m
    total = sum(variances)
    if total == 0:
        return ConfidenceInterval(difference, difference, difference, n + m, "welch")
    share = variances[0] / total
    freedom = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / (m - 1))
    half = _compute_t_quantile(freedom) * math.sqrt(total)
    return ConfidenceInterval(difference, difference - half, difference + half, n + m, "welch")


def compute_thesis_coverage(n: int) -> float:
    """Compute how often the thesis' interval contains the true mean of normal data.

    With the sample deviation s the half-width is 1.96 sqrt((n - 1) / n) s / sqrt(n), and
    the standardised mean follows Student's t distribution with n - 1 degrees of freedom.

    Args:
        n: Number of values, at least 2.
    """
    return float(1 - 2 * stats.t.sf(1.96 * math.sqrt((n - 1) / n), n - 1))


def _compute_t_quantile(freedom: float) -> float:
    return float(stats.t.ppf((1 + LEVEL) / 2, freedom))


def _compute_half_width(samples: FloatArray, method: str) -> Any:
    n = len(samples)
    if method == "thesis":
        return 1.96 * samples.std(axis=0) / math.sqrt(n)
    return _compute_t_quantile(n - 1) * samples.std(axis=0, ddof=1) / math.sqrt(n)


def _compute_bootstrap_bounds(
    samples: FloatArray, method: str, rng: np.random.Generator | None
) -> tuple[Any, Any]:
    if rng is None:
        raise ValueError(f"method={method} needs rng, such as numpy.random.default_rng(0).")
    means = resample_means(samples, rng)
    if method == "bca":
        return compute_bca_bounds(samples, means, LEVEL)
    return compute_percentile_bounds(means, LEVEL)
