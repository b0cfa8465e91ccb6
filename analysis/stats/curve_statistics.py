"""Statistics of learning curves: human-normalized scores, steps to a threshold, stage means."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval
from parallax.analysis.stats.moments import FloatArray


def normalize_by_human(scores: FloatArray, random: float, human: float) -> FloatArray:
    """Normalize scores: 100 (score - random) / (human - random), in percent (Mnih et al., 2015)."""
    return 100.0 * (scores - random) / (human - random)


@dataclasses.dataclass(frozen=True)
class StepsToThreshold:
    """Steps that runs needed to reach a score.

    Attributes:
        median: Median steps over all runs; infinite if at least half did not reach it.
    """

    n_runs: int
    n_reached: int
    median: float


def compute_steps_to_threshold(
    curves: Sequence[tuple[FloatArray, FloatArray]], score: float
) -> StepsToThreshold:
    """Compute the steps until the first evaluation at or above a score.

    `curves` has float[k] steps and float[k] mean returns of each run.
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
    """Average values over each stage of a run, float64[stages]; NaN for a stage without values.

    Args:
        steps: When each value was recorded, in environment steps from 1 to `total`.
        values: float64[n].
        total: Environment steps of the run.
        stages: Number of equal parts that it is divided into.
    """
    place = np.clip((steps - 1) * stages // total, 0, stages - 1)
    counts = np.bincount(place, minlength=stages)
    sums = np.bincount(place, weights=values, minlength=stages)
    means = np.full(stages, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def average_stages(runs: Sequence[FloatArray]) -> tuple[ConfidenceInterval, ...]:
    """Average the stages of `compute_stage_means` over runs, with 95% t intervals, without NaN."""
    table = np.asarray(runs, np.float64)
    return tuple(compute_interval(column[np.isfinite(column)]) for column in table.T)
