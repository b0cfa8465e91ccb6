"""Statistics over several tasks: partial pooling, and contrasts stratified by task.

Partial pooling: the difference in each task is shrunk towards the mean over tasks.

Random-effects model: y_i = mu + u_i + e_i with u_i ~ N(0, tau^2) between tasks and e_i ~ N(0, v_i)
from the seeds of task i. tau^2 is estimated after Paule and Mandel (1982). The interval of mu is
Hartung and Knapp's (2001), with their factor not below 1. The tasks' intervals are Morris'
(Journal of the American Statistical Association 78, 1983), with Student's t quantile in place of
the normal one.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy import stats

from parallax.analysis.stats.moments import FloatArray, SampleMoments, compute_moments
from parallax.analysis.stats.two_sample import MeanContrast, compute_contrast
from parallax.analysis.stats.unobserved_failures import compute_difference_p, compute_equal_means_p

# Morris' shrinkage factor (k - 3) / (k - 1) is above 0 from four tasks on.
MIN_TASKS = 4  # fewer tasks do not determine the variance between them


@dataclasses.dataclass(frozen=True, eq=False)
class PooledDifferences:
    """Differences of several tasks, pooled.

    Attributes:
        mean: Mean of the true differences over tasks.
        low: Lower end of its interval.
        high: Upper end.
        p: Two-sided p-value of "the mean is 0".
        sd_between_tasks: Standard deviation tau of the true differences between tasks.
        estimates: float[k], difference of each task, shrunk towards the mean.
        lows: float[k], lower ends of their intervals.
        highs: float[k], upper ends.
    """

    mean: float
    low: float
    high: float
    p: float
    sd_between_tasks: float
    estimates: FloatArray
    lows: FloatArray
    highs: FloatArray


def pool_differences(
    differences: FloatArray, variances: FloatArray, freedom: FloatArray, level: float = 0.95
) -> PooledDifferences:
    """Pool differences of tasks partially.

    Args:
        differences: float[k], k at least `MIN_TASKS`, in a unit that tasks share.
        variances: float[k], their squared standard errors, above 0.
        freedom: float[k], degrees of freedom of the variances.
        level: Level of all intervals.

    Raises:
        ValueError: There are too few tasks, or a variance is not above 0.
    """
    k = len(differences)
    if k < MIN_TASKS or not (variances > 0).all():
        raise ValueError(
            f"{k} tasks, variances {variances}: give {MIN_TASKS} or more, all above 0."
        )
    between = estimate_between_variance(differences, variances)
    weights = 1 / (variances + between)
    mean = float(weights @ differences / weights.sum())
    spread = max(1.0, float(weights @ (differences - mean) ** 2 / (k - 1)))
    error = float(np.sqrt(spread / weights.sum()))
    half = error * stats.t.ppf((1 + level) / 2, k - 1)
    # Morris (1983): the shrinkage of each task, and the variance added because it is estimated.
    share = (k - 3) / (k - 1) * variances * weights
    unsure = 2 / (k - 3) * share**2 * (variances.mean() + between) * weights
    own = variances * (1 - (k - 1) / k * share) + unsure * (differences - mean) ** 2
    estimates = (1 - share) * differences + share * mean
    halves = np.sqrt(own) * stats.t.ppf((1 + level) / 2, freedom)
    return PooledDifferences(
        mean,
        mean - half,
        mean + half,
        float(2 * stats.t.sf(abs(mean) / error, k - 1)),
        float(np.sqrt(between)),
        estimates,
        estimates - halves,
        estimates + halves,
    )


def estimate_between_variance(differences: FloatArray, variances: FloatArray) -> float:
    """Estimate the variance between tasks after Paule and Mandel (1982).

    It solves sum w_i (y_i - mean)^2 = k - 1 with w_i = 1 / (v_i + tau^2), by bisection.

    Args:
        differences: float[k].
        variances: float[k], above 0.
    """
    k = len(differences)

    def excess(between: float) -> float:
        weights = 1 / (variances + between)
        mean = weights @ differences / weights.sum()
        return float(weights @ (differences - mean) ** 2) - (k - 1)

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, float(np.var(differences)) + float(variances.max())
    while excess(high) > 0:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2


Strata = Sequence[FloatArray]  # one float[n] per stratum; n may differ
PERMUTATIONS = 4_999


def compute_stratified_contrast(first: Strata, second: Strata) -> MeanContrast:
    """Compute the difference of means over strata, each stratum counting the same.

    With K strata its squared error is the sum over strata and samples of s^2 / (n K^2), with
    Satterthwaite's degrees of freedom.
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
        # Row 0 is the observed order: a p-value is never 0 (Phipson and Smyth 2010).
        rows[1:] = rng.permuted(rows[1:], axis=1)
        a, b = rows[:, :n], rows[:, n:]
        gap += (a.mean(axis=1) - b.mean(axis=1)) / k
        variance += a.var(axis=1, ddof=1) / (n * k**2) + b.var(axis=1, ddof=1) / (len(two) * k**2)
        scale = max(scale, float(np.abs(both).max()))
    # Rounding errors in place of a zero difference or deviation must not decide the test.
    noise = 1e-12 * max(scale, 1e-300)
    gap = np.where(np.abs(gap) <= noise, 0.0, gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.abs(gap) / np.sqrt(np.where(variance <= noise**2, 0.0, variance))
    statistic = np.where(np.isnan(statistic), 0.0, np.minimum(statistic, 1e100))
    # Permutations that equal the observed split up to rounding count as ties.
    return float((statistic >= statistic[0] * (1 - 1e-9)).mean())


def compute_stratified_difference_p(
    first: Strata, second: Strata, ends: tuple[float, float], margin: float
) -> float:
    """Compute the p-value of "the means over strata differ by the margin or more".

    Only the range is assumed, as in `stats.unobserved_failures`, with the runs of all strata as one
    sample: K strata of n runs bound unobserved failures as well as K n runs of one.
    """
    return compute_difference_p(*_merge_strata(first, second, ends), margin)


def compute_stratified_mean_p(first: Strata, second: Strata, ends: tuple[float, float]) -> float:
    """Compute the two-sided p-value of "the means over strata are equal" in the same way."""
    return compute_equal_means_p(*_merge_strata(first, second, ends))


def _merge_strata(
    first: Strata, second: Strata, ends: tuple[float, float]
) -> tuple[FloatArray, FloatArray, tuple[float, float]]:
    """Return both samples without the distances between strata, and the range of their values.

    The same value is subtracted from all scores of a stratum: the mean of both frameworks' means.
    This preserves differences, and strata with unequal scores do not count as noise. The range is
    the widest of any stratum, since a failure may be in any. So that each stratum has the same
    weight, a framework's strata all use as many runs as the smallest has.
    """
    samples = [
        [np.asarray(scores[: min(map(len, strata))]) for scores in strata]
        for strata in (first, second)
    ]
    means = [(one.mean() + two.mean()) / 2 for one, two in zip(*samples, strict=True)]
    shifts = np.mean(means) - np.array(means)
    one, two = (
        np.concatenate([scores + shift for scores, shift in zip(strata, shifts, strict=True)])
        for strata in samples
    )
    return one, two, (ends[0] + float(shifts.min()), ends[1] + float(shifts.max()))
