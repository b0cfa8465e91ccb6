"""Paired samples: Student's paired t test, sign-flip test, and Fieller's ratio of means."""

import dataclasses
import math

import numpy as np
from scipy import special, stats

from parallax.analysis.stats.moments import FloatArray


@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """Mean difference of paired values.

    Attributes:
        n: Number of pairs.
        difference: Mean of first minus second.
        low: Lower end of its interval; NaN below two pairs.
        high: Upper end.
        p: Two-sided p-value of "the mean difference is 0"; NaN if all differences are equal.
        correlation: Pearson's correlation of the two samples; NaN if one does not vary, and below
            three pairs, where it can only be 1 or -1.
    """

    n: int
    difference: float
    low: float
    high: float
    p: float
    correlation: float


NO_PAIRS = PairedDifference(0, math.nan, math.nan, math.nan, math.nan, math.nan)
"""The difference where two samples share no seed."""


def compute_paired_difference(
    first: FloatArray, second: FloatArray, level: float = 0.95
) -> PairedDifference:
    """Compare paired values by Student's paired t test.

    Args:
        first: float[n], n at least 1.
        second: float[n], in the order of the first.
        level: Level of the interval.
    """
    away = first - second
    n, mean = len(away), float(away.mean())
    if n < 2:
        return PairedDifference(n, mean, *[math.nan] * 4)
    error = float(away.std(ddof=1)) / math.sqrt(n)
    half = error * float(special.stdtrit(n - 1, (1 + level) / 2))
    p = float(2 * special.stdtr(n - 1, -abs(mean) / error)) if error else math.nan
    vary = n > 2 and min(float(first.std()), float(second.std())) > 0
    correlation = float(np.corrcoef(first, second)[0, 1]) if vary else math.nan
    return PairedDifference(n, mean, mean - half, mean + half, p, correlation)


def compute_sign_flip_p(first: FloatArray, second: FloatArray, rng: np.random.Generator) -> float:
    """Compute the two-sided p-value of the sign-flip permutation test.

    It assumes only that differences are symmetric around 0 under the null hypothesis. Exact up to
    13 pairs, 9,999 draws beyond; NaN below two pairs and if all pairs are equal. The smallest
    possible value is 2^(1 - n).

    Args:
        first: float[n].
        second: float[n], in the order of the first.
        rng: Source of the draws, if flips are not enumerated.
    """
    away = first - second
    if len(away) < 2 or not away.any():
        return math.nan
    found = stats.permutation_test(
        (away,), np.mean, permutation_type="samples", n_resamples=9999, rng=rng
    )
    return float(found.pvalue)


@dataclasses.dataclass(frozen=True)
class MeanRatio:
    """Ratio of two paired means.

    Attributes:
        n: Number of pairs.
        share: First mean / second mean.
        low: Lower end of its interval; NaN if the interval is unbounded, because the second mean
            is not significantly different from 0, or if there are fewer than three pairs.
        high: Upper end.
    """

    n: int
    share: float
    low: float
    high: float

    @property
    def is_bounded(self) -> bool:
        """Return whether the interval has ends."""
        return math.isfinite(self.low) and math.isfinite(self.high)


def compute_ratio_of_means(first: FloatArray, second: FloatArray, level: float = 0.95) -> MeanRatio:
    """Compute a ratio of paired means with Fieller's interval, exact for bivariate normal pairs.

    The ends are the values r at which the mean of `first - r * second` is just not significant:
    Fieller, E. C. (1954), Some problems in interval estimation, JRSS B 16 (2), section 3.

    Args:
        first: float[n].
        second: float[n], in the order of the first.
        level: Level of the interval.
    """
    n, above, below = len(first), float(np.mean(first)), float(np.mean(second))
    share = above / below if below else math.nan
    if n < 3:
        return MeanRatio(n, share, math.nan, math.nan)
    (v11, v12), (_, v22) = (np.cov(first, second, ddof=1) / n).tolist()
    t2 = float(stats.t.ppf((1 + level) / 2, n - 1)) ** 2
    # (above - r below)^2 = t^2 (v11 - 2 r v12 + r^2 v22), as a r^2 - 2 b r + c = 0.
    a, b, c = below**2 - t2 * v22, above * below - t2 * v12, above**2 - t2 * v11
    root = b * b - a * c
    if a <= 0 or root < 0:
        return MeanRatio(n, share, math.nan, math.nan)
    return MeanRatio(n, share, (b - math.sqrt(root)) / a, (b + math.sqrt(root)) / a)
