"""Partial pooling: the difference in each task is shrunk towards the mean over tasks.

Random-effects model: y_i = mu + u_i + e_i with u_i ~ N(0, tau^2) between tasks and e_i ~ N(0, v_i)
from the seeds of task i. tau^2 is estimated after Paule and Mandel (1982). The interval of mu is
Hartung and Knapp's (2001), with their factor not below 1. The tasks' intervals are Morris'
(Journal of the American Statistical Association 78, 1983), with Student's t quantile in place of
the normal one.
"""

import dataclasses

import numpy as np
from scipy import stats

from parallax.analysis.stats.moments import FloatArray

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
