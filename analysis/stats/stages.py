"""Means of what is recorded while training, in equal parts of a run: pure functions on arrays."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.stats.intervals import Interval, interval
from analysis.stats.moments import Floats


def stage_means(steps: NDArray[np.int64], values: Floats, total: int, stages: int) -> Floats:
    """Means of the values of each part of a run, float64[stages]; NaN where there are none.

    Args:
        steps: When each value was recorded, in environment steps from 1 to `total`.
        values: float64[n].
        total: Environment steps of the run.
        stages: In how many equal parts it is cut.
    """
    place = np.clip((steps - 1) * stages // total, 0, stages - 1)
    counts = np.bincount(place, minlength=stages)
    sums = np.bincount(place, weights=values, minlength=stages)
    means = np.full(stages, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def over_runs(runs: Sequence[Floats]) -> tuple[Interval, ...]:
    """Of each stage the mean over runs, with its 95% t interval.

    Args:
        runs: `stage_means` of each run; those without a value in a stage do not count there.
    """
    table = np.asarray(runs, np.float64)
    return tuple(interval(column[np.isfinite(column)]) for column in table.T)
