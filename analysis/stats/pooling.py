"""Partial pooling: one difference per task, each drawn towards what all tasks have in common.

Tasks' true differences are taken to scatter around a mean with a deviation of their own, as in a
mixed model with tasks as a random effect, but with the error of each task's own seeds. The
deviation is Paule and Mandel's (1982), the interval of the mean Hartung and Knapp's (2001), never
narrower than without their factor, and the tasks' intervals are Morris' (Journal of the American
Statistical Association 78, 1983), with Student's t in place of the normal quantile.
"""

import dataclasses

import numpy as np
from scipy import stats

from parallax.analysis.stats.moments import FloatArray

MIN_TASKS = 4  # tasks; with fewer, nothing is told of how they scatter


@dataclasses.dataclass(frozen=True, eq=False)
class PooledDifferences:
    """Differences of several tasks, pooled.

    Attributes:
        mean: Mean of the true differences over tasks.
        low: Lower end of its interval.
        high: Upper end.
        p: Two-sided p-value of "the mean is 0".
        sd_between_tasks: Deviation of the true differences between tasks.
        estimates: float[k], difference of each task, drawn towards the mean.
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
    """Pools differences partially.

    Args:
        differences: float[k], k at least `LEAST`, in a unit that tasks share.
        variances: float[k], squared errors of them, above 0.
        freedom: float[k], degrees of freedom of these.
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
    # Morris: the share that is drawn to the mean, and what not knowing it costs.
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
    """Paule and Mandel's variance between tasks: where the weighted squares are as expected.

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
