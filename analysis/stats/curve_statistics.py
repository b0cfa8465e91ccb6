"""Scores as shares of the way from random play to a human."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval
from parallax.analysis.stats.moments import FloatArray


def normalize_by_human(scores: FloatArray, random: float, human: float) -> FloatArray:
    """100 (score - random) / (human - random), in percent (Mnih et al., 2015).

    Args:
        scores: float[n].
        random: Score of random play.
        human: Score of a human, another one than that of random play.
    """
    return 100.0 * (scores - random) / (human - random)


@dataclasses.dataclass(frozen=True)
class StepsToThreshold:
    """Steps that runs needed to reach a score.

    Attributes:
        n_runs: Runs.
        n_reached: Runs that did, at one evaluation at least.
        median: Median of the steps of all, infinite where half of them or more did not.
    """

    n_runs: int
    n_reached: int
    median: float


def compute_steps_to_threshold(
    curves: Sequence[tuple[FloatArray, FloatArray]], score: float
) -> StepsToThreshold:
    """How many steps it took.

    Args:
        curves: Of each run steps and mean returns of its evaluations, each float[k].
        score: That is to be reached.
    """
    first = []
    for steps, returns in curves:
        above = np.flatnonzero(returns >= score)
        first.append(float(steps[above[0]]) if len(above) else math.inf)
    done = sum(math.isfinite(step) for step in first)
    return StepsToThreshold(len(first), done, _compute_median(first))


def _compute_median(values: Sequence[float]) -> float:
    if not values:
        return math.nan
    ordered, half = sorted(values), len(values) // 2
    if len(values) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


def compute_stage_means(
    steps: NDArray[np.int64], values: FloatArray, total: int, stages: int
) -> FloatArray:
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


def average_stages(runs: Sequence[FloatArray]) -> tuple[ConfidenceInterval, ...]:
    """Of each stage the mean over runs, with its 95% t interval.

    Args:
        runs: `compute_stage_means` of each run; those without a value in a stage do not count there.
    """
    table = np.asarray(runs, np.float64)
    return tuple(compute_interval(column[np.isfinite(column)]) for column in table.T)
