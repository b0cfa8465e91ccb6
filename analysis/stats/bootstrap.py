"""Bootstrap intervals for means: percentile, and bias-corrected and accelerated (BCa)."""

from typing import Any

import numpy as np
from scipy import stats

from analysis.stats.moments import Floats

RESAMPLES = 10_000


def resampled_means(samples: Floats, rng: np.random.Generator) -> Floats:
    """Means of `RESAMPLES` resamples; the columns share their draws.

    Args:
        samples: float[n, ...], finite.
        rng: Source of the draws.

    Returns:
        float[RESAMPLES, ...].
    """
    n = len(samples)
    # How often a resample holds each value is multinomial, so means are one matrix product.
    shares = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
    return np.asarray(np.tensordot(shares, samples, axes=1))


def percentile_bounds(means: Floats, level: float) -> tuple[Any, Any]:
    """Ends of the percentile interval (Efron and Tibshirani 1993, chapter 13).

    Args:
        means: float[resamples, ...].
        level: Level of the interval.
    """
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    return low, high


def bca_bounds(samples: Floats, means: Floats, level: float) -> tuple[Any, Any]:
    """Ends of the BCa interval (Efron 1987), each column on its own.

    Args:
        samples: float[n, ...], n at least 2.
        means: float[resamples, ...], means of resamples of them.
        level: Level of the interval.
    """
    centre, tail = samples.mean(axis=0), (1 - level) / 2
    # Many resamples of few values have the very same mean; rounding must not split them.
    size = np.abs(samples).max(axis=0) + np.ptp(samples, axis=0)
    noise = 8 * len(samples) * np.finfo(np.float64).eps * size
    below = ((means < centre - noise).mean(axis=0) + (means <= centre + noise).mean(axis=0)) / 2
    bias = stats.norm.ppf(below)
    ordered = np.sort(means, axis=0)
    away = samples - centre  # the jackknife's deviations, but for a factor
    with np.errstate(divide="ignore", invalid="ignore"):
        acceleration = (away**3).sum(axis=0) / (6 * (away**2).sum(axis=0) ** 1.5)
        ends = []
        for quantile in stats.norm.ppf([tail, 1 - tail]):
            shift = bias + quantile
            share = stats.norm.cdf(bias + shift / (1 - acceleration * shift))
            ends.append(_quantile(ordered, share))
    constant = np.ptp(samples, axis=0) == 0
    return np.where(constant, centre, ends[0]), np.where(constant, centre, ends[1])


def _quantile(ordered: Floats, share: Floats) -> Floats:
    """Linear quantile of each column at a share of its own."""
    place = np.nan_to_num(np.asarray(share)) * (len(ordered) - 1)
    lower = np.floor(place).astype(np.intp)
    upper = np.minimum(lower + 1, len(ordered) - 1)
    first, second = (
        np.take_along_axis(ordered, np.asarray(at)[None], axis=0)[0] for at in (lower, upper)
    )
    return np.asarray(first + (second - first) * (place - lower))
