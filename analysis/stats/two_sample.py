"""Tests for two samples: independent (Welch, TOST, permutation, Fisher), paired (t, sign flips)."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from parallax.analysis.stats.moments import Z_975, FloatArray, SampleMoments

IndexArray = NDArray[np.intp]

# Binomial(16, 8): up to 8 + 8 values every split is enumerated, beyond that this many are drawn.
MAX_SPLITS = 12_870
# Statistics of permutations are ties up to this share: decimal scores such as 499.9 are rounded.
TIE_TOLERANCE = 1e-8


@dataclasses.dataclass(frozen=True, eq=False)
class MeanContrast:
    """A linear combination of means, such as a difference, with its standard error.

    Attributes:
        difference: float[...], in units of return.
        error: float[...], standard error; NaN where a sample has fewer than two values.
        degrees_of_freedom: float[...], after Welch and Satterthwaite.
    """

    difference: FloatArray
    error: FloatArray
    degrees_of_freedom: FloatArray


def compute_contrast(plus: Sequence[SampleMoments], minus: Sequence[SampleMoments]) -> MeanContrast:
    """Compute a sum of means minus a sum of others, without assuming equal variances.

    With v_i = s_i^2 / n_i, the squared standard error is V = sum of v_i, with
    V^2 / sum(v_i^2 / (n_i - 1)) degrees of freedom (Satterthwaite 1946; Welch 1947).

    Args:
        plus: Moments of equal shape whose means are added.
        minus: Moments whose means are subtracted.
    """
    parts = [(item.squared_error, item.n) for item in (*plus, *minus)]
    difference = sum(item.mean for item in plus) - sum(item.mean for item in minus)
    total = np.asarray(sum(part for part, _ in parts), dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Shares are squared because squares of the smallest variances would underflow.
        freedom = 1 / np.asarray(sum((part / total) ** 2 / (n - 1) for part, n in parts))
    freedom = np.where(total == 0, np.inf, freedom)
    return MeanContrast(np.asarray(difference, dtype=np.float64), np.sqrt(total), freedom)


def use_smallest_degrees_of_freedom(
    item: MeanContrast, samples: Sequence[SampleMoments]
) -> MeanContrast:
    """Return the contrast with the degrees of freedom of the smallest sample.

    Welch's approximation rejects too often far out in the tails when deviations are very unequal:
    with 5 + 5 seeds and deviations 1 and 4, 2.5 times too often at a level of 0.00035. With
    min(n) - 1 degrees of freedom it never does (Mickey and Brown, Annals of Mathematical
    Statistics 37, 1966).
    """
    least = np.minimum.reduce([sample.n for sample in samples]) - 1
    freedom = np.where(np.isinf(item.degrees_of_freedom), np.inf, least)
    return dataclasses.replace(item, degrees_of_freedom=np.broadcast_to(freedom, item.error.shape))


def compute_two_sided_p(item: MeanContrast) -> FloatArray:
    """Compute p-values of "no difference", float[...] (Welch's test for two samples)."""
    return np.asarray(
        2 * stats.t.sf(np.abs(_divide_safely(item.difference, item.error)), item.degrees_of_freedom)
    )


def compute_one_sided_p(item: MeanContrast, least: ArrayLike = 0.0) -> FloatArray:
    """Compute p-values of "the difference is at most `least`", float[...].

    Args:
        item: The difference.
        least: float[...], in units of return.
    """
    above = item.difference - np.asarray(least, dtype=np.float64)
    return np.asarray(stats.t.sf(_divide_safely(above, item.error), item.degrees_of_freedom))


def compute_equivalence_p(item: MeanContrast, margin: ArrayLike) -> FloatArray:
    """Compute p-values of two one-sided tests (TOST) of "differs by the margin or more".

    Small values are evidence of a difference within the margin (Schuirmann 1987). The larger of
    both p-values is P(T > (margin - |difference|) / error).

    Args:
        item: The difference.
        margin: float[...], above 0, in units of return.
    """
    room = np.asarray(margin, dtype=np.float64) - np.abs(item.difference)
    return np.asarray(stats.t.sf(_divide_safely(room, item.error), item.degrees_of_freedom))


def compute_contrast_bounds(
    item: MeanContrast, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Compute the ends of the two-sided interval for the difference, each float[...]."""
    half = stats.t.ppf((1 + level) / 2, item.degrees_of_freedom) * item.error
    return np.asarray(item.difference - half), np.asarray(item.difference + half)


def compute_permutation_p(first: FloatArray, second: FloatArray, rng: np.random.Generator) -> float:
    """Compute the two-sided p-value of a permutation test with Welch's statistic.

    All splits are enumerated up to 8 + 8 values, beyond that 12,870 are drawn. With 5 + 5 seeds
    the smallest possible value is 2 / 252. The studentized statistic keeps the test valid
    asymptotically for unequal variances (Janssen 1997).

    Args:
        first: float[n], n at least 2.
        second: float[m], m at least 2.
        rng: Source of the random splits.
    """
    n, m = len(first), len(second)
    if min(n, m) < 2 or np.isnan([*first, *second]).any():
        return float("nan")
    if math.comb(n + m, n) <= MAX_SPLITS:
        return _compute_exact_permutation_p(first, second)
    observed = _compute_welch_statistic(first, second, axis=-1)
    result = stats.permutation_test(
        (first, second),
        lambda x, y, axis: merge_ties(_compute_welch_statistic(x, y, axis), observed),
        vectorized=True,
        n_resamples=MAX_SPLITS,
        rng=rng,
    )
    return float(result.pvalue)


def merge_ties(statistics: FloatArray, observed: FloatArray | float) -> FloatArray:
    """Replace statistics of permutations that equal the observed one up to rounding by it.

    The tolerance of scipy's `permutation_test` is for values without an offset. Returns such as
    500.1 and 499.9 lose digits in their differences, and missed ties make p-values too small.

    Args:
        statistics: float[...], dimensionless.
        observed: The statistic of the observed order.
    """
    near = TIE_TOLERANCE * (1 + np.abs(observed))
    return np.where(np.abs(statistics - observed) <= near, observed, statistics)


def _compute_exact_permutation_p(first: FloatArray, second: FloatArray) -> float:
    """Compute the p-value of scipy's `permutation_test`, with splits cached between pairs.

    scipy enumerates all splits again for each pair, which took most of the time of a report.
    """
    one, two = _enumerate_splits(len(first), len(second))
    both = np.concatenate([first, second])
    observed = _compute_welch_statistic(first, second, axis=-1)
    null = merge_ties(_compute_welch_statistic(both[one], both[two], axis=-1), observed)
    tails = (null <= observed).mean(), (null >= observed).mean()
    return min(1.0, 2 * float(min(tails)))


@functools.cache
def _enumerate_splits(n: int, m: int) -> tuple[IndexArray, IndexArray]:
    """Return indices of the n values of each split of n + m, and of the m others."""
    one = np.array(list(itertools.combinations(range(n + m), n)))
    taken = np.zeros((len(one), n + m), dtype=bool)
    np.put_along_axis(taken, one, True, axis=1)
    return one, np.nonzero(~taken)[1].reshape(len(one), m)


def _compute_welch_statistic(first: FloatArray, second: FloatArray, axis: int) -> FloatArray:
    n, m = first.shape[axis], second.shape[axis]
    difference = first.mean(axis=axis) - second.mean(axis=axis)
    squared = first.var(axis=axis, ddof=1) / n + second.var(axis=axis, ddof=1) / m
    # Rounding errors in place of a zero deviation must not change the order of the splits.
    scale = np.abs(difference) + np.abs(first).max(axis=axis) + np.abs(second).max(axis=axis)
    noise = 1e-12 * scale
    clean = np.where(np.abs(difference) <= noise, 0.0, difference)
    ratio = _divide_safely(clean, np.where(squared <= noise**2, 0.0, np.sqrt(squared)))
    return np.clip(ratio, -1e100, 1e100)  # scipy cannot compare infinite statistics


def _divide_safely(value: FloatArray, error: FloatArray) -> FloatArray:
    """Divide with 0 / 0 = 0 and x / 0 = +-infinity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.divide(value, error)
    return np.where((np.asarray(error) == 0) & (np.asarray(value) == 0), 0.0, ratio)


def compute_fisher_p(failed: tuple[int, int], sizes: tuple[int, int]) -> float:
    """Compute the two-sided p-value of Fisher's exact test of equal failure rates.

    Args:
        failed: Number of failures in each sample.
        sizes: Size of each sample; an empty one gives NaN.
    """
    if min(sizes) < 1:
        return math.nan
    table = [[count, size - count] for count, size in zip(failed, sizes, strict=True)]
    return float(stats.fisher_exact(table).pvalue)


def compute_stratified_fisher_p(
    failed: Sequence[tuple[int, int]], sizes: Sequence[tuple[int, int]]
) -> float:
    """Compute the two-sided exact p-value of equal failure rates within each of several strata.

    The failures of the first sample, summed over strata, have a known distribution given the
    margins of all 2 x 2 tables: a sum of independent hypergeometric variables (the exact form of
    Mantel and Haenszel's test, Journal of the National Cancer Institute 22, 1959). Sums that are
    not more probable than the observed one count, as in Fisher's test.

    Args:
        failed: Failures of both samples in each stratum.
        sizes: Sizes of both samples in each stratum; an empty one gives NaN.
    """
    if min(min(pair) for pair in sizes) < 1:
        return math.nan
    density = np.ones(1)
    for both, (one, two) in zip(failed, sizes, strict=True):
        counts = np.arange(min(one, sum(both)) + 1)
        density = np.convolve(density, stats.hypergeom.pmf(counts, one + two, sum(both), one))
    seen = density[sum(first for first, _ in failed)]
    # The tolerance for ties is that of R's fisher.test.
    return min(1.0, float(density[density <= seen * (1 + 1e-7)].sum()))


def compute_wilson_interval(failed: int, size: int) -> tuple[float, float]:
    """Compute Wilson's (1927) 95% score interval of a proportion.

    Args:
        failed: Number of failures.
        size: Number of runs, at least 1.
    """
    share, square = failed / size, Z_975**2
    half = Z_975 * math.sqrt(share * (1 - share) / size + square / (4 * size**2))
    middle = share + square / (2 * size)
    low, high = ((middle + side * half) / (1 + square / size) for side in (-1, 1))
    return max(0.0, low), min(1.0, high)


def compute_newcombe_interval(
    failed: tuple[int, int], sizes: tuple[int, int]
) -> tuple[float, float]:
    """Compute the 95% interval for a difference of proportions, first - second.

    Newcombe's method 10 (Statistics in Medicine 17, 1998, 873-890): square-and-add of both Wilson
    intervals.

    Args:
        failed: Number of failures in each sample.
        sizes: Size of each sample; an empty one gives NaN.
    """
    if min(sizes) < 1:
        return math.nan, math.nan
    one, two = (count / size for count, size in zip(failed, sizes, strict=True))
    (low_one, high_one), (low_two, high_two) = map(compute_wilson_interval, failed, sizes)
    return (
        one - two - math.hypot(one - low_one, high_two - two),
        one - two + math.hypot(high_one - one, two - low_two),
    )


@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """Mean difference of paired values.

    Attributes:
        difference: Mean of first minus second.
        low: Lower end of its interval; NaN below two pairs.
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
    # Equal differences differ by rounding, which would be significant.
    noise = 1e-12 * max(float(np.abs(first).max()), float(np.abs(second).max()))
    error = 0.0 if np.ptp(away) <= noise else float(away.std(ddof=1)) / math.sqrt(n)
    half = error * float(special.stdtrit(n - 1, (1 + level) / 2))
    p = float(2 * special.stdtr(n - 1, -abs(mean) / error)) if error else math.nan
    vary = n > 2 and min(float(np.ptp(first)), float(np.ptp(second))) > 0
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
    away = away / np.abs(away).max()
    observed = float(away.mean())
    # scipy enumerates all 2^n sign flips if n_resamples is no smaller.
    found = stats.permutation_test(
        (away,),
        lambda values, axis: merge_ties(values.mean(axis=axis), observed),
        permutation_type="samples",
        vectorized=True,
        n_resamples=9999,
        rng=rng,
    )
    return float(found.pvalue)


@dataclasses.dataclass(frozen=True)
class MeanRatio:
    """Ratio of two paired means.

    Attributes:
        share: First mean / second mean.
        low: Lower end of its interval; NaN if the interval is unbounded, because the second mean
            is not significantly different from 0, or if there are fewer than three pairs.
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
