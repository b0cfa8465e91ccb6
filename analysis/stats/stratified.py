"""Two samples in several strata, such as the tasks of a suite: difference, test and bound."""

from collections.abc import Sequence

import numpy as np

from parallax.analysis.stats.moments import FloatArray, SampleMoments, compute_moments
from parallax.analysis.stats.two_sample import MeanContrast, compute_contrast
from parallax.analysis.stats.unobserved_failures import compute_difference_p, compute_equal_means_p

Strata = Sequence[FloatArray]  # one float[n] per stratum; n may differ
PERMUTATIONS = 4_999


def compute_stratified_contrast(first: Strata, second: Strata) -> MeanContrast:
    """Compute the difference of means over strata, each stratum counting the same.

    With K strata its squared error is the sum over strata and samples of s^2 / (n K^2), with
    Satterthwaite's degrees of freedom.

    Args:
        first: Scores of one framework.
        second: Scores of the other, in the same strata.
    """
    return compute_contrast(_scale_moments(first), _scale_moments(second))


def _scale_moments(strata: Strata) -> list[SampleMoments]:
    k = len(strata)
    found = [compute_moments(np.asarray(scores, dtype=np.float64)) for scores in strata]
    return [SampleMoments(item.mean / k, item.sd / k, item.n) for item in found]


def compute_stratified_permutation_p(
    first: Strata, second: Strata, rng: np.random.Generator
) -> float:
    """Compute the two-sided p-value of permutations within strata, with the studentized difference.

    Args:
        first: Scores of one framework, at least two per stratum.
        second: Scores of the other.
        rng: Source of the permutations.
    """
    k = len(first)
    gap, variance = np.zeros(PERMUTATIONS + 1), np.zeros(PERMUTATIONS + 1)
    scale = 0.0
    for one, two in zip(first, second, strict=True):
        both, n = np.concatenate([one, two]), len(one)
        rows = np.tile(both, (PERMUTATIONS + 1, 1))
        rows[1:] = rng.permuted(rows[1:], axis=1)
        a, b = rows[:, :n], rows[:, n:]
        gap += (a.mean(axis=1) - b.mean(axis=1)) / k
        variance += a.var(axis=1, ddof=1) / (n * k**2) + b.var(axis=1, ddof=1) / (len(two) * k**2)
        scale = max(scale, float(np.abs(both).max()))
    # Rounding noise in place of a zero difference or deviation must not decide.
    noise = 1e-12 * max(scale, 1e-300)
    gap = np.where(np.abs(gap) <= noise, 0.0, gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.abs(gap) / np.sqrt(np.where(variance <= noise**2, 0.0, variance))
    statistic = np.where(np.isnan(statistic), 0.0, np.minimum(statistic, 1e100))
    return float((statistic >= statistic[0] * (1 - 1e-9)).mean())


def compute_stratified_difference_p(
    first: Strata, second: Strata, ends: tuple[float, float], margin: float
) -> float:
    """Compute the p-value of "the means over strata differ by the margin or more".

    Only the range is assumed, as in `stats.unobserved_failures`, with the runs of all strata as one
    sample: K strata of n runs leave as little room for unobserved failures as K n runs of one. Runs
    that are spread evenly over strata vary less than runs drawn from the mixture of the strata, for
    which the bound is made. So that each stratum counts the same, all use as many runs as the
    smallest has.

    Args:
        first: Scores of one framework.
        second: Scores of the other.
        ends: Least and largest score that there can be.
        margin: In the unit of scores, above 0.
    """
    return compute_difference_p(_pool_strata(first), _pool_strata(second), ends, margin)


def compute_stratified_mean_p(first: Strata, second: Strata, ends: tuple[float, float]) -> float:
    """Compute the two-sided p-value of "the means over strata are equal" in the same way."""
    return compute_equal_means_p(_pool_strata(first), _pool_strata(second), ends)


def _pool_strata(strata: Strata) -> FloatArray:
    size = min(len(scores) for scores in strata)
    return np.concatenate([scores[:size] for scores in strata])
