"""Statistics of learning curves: the endpoint that verdicts compare, steps to a score, stage means.

`final` is the mean return of the last evaluation and `last-K` that of the last K. `auc` is the area
under the curve divided by its length, that is the return averaged over training; normalized, it is
the area under the normalized curve, since both are linear. `auc` ignores an evaluation at step 0:
the score must not depend on whether the untrained policy was evaluated. `steps-P` is the time at
which a run closed P% of the gap to the published score, or to a solved task if none is published.
"""

import dataclasses
import functools
import math
import re
import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval
from parallax.analysis.stats.moments import FloatArray

FINAL, AUC = "final", "auc"
ENDPOINT_FORMS = "final, last-K such as last-3, auc, or steps-P such as steps-90"
_LAST, _STEPS = re.compile(r"last-([1-9]\d{0,3})"), re.compile(r"steps-([1-9]\d?|100)")


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """An endpoint.

    Attributes:
        name: `final`, `last-K`, `auc` or `steps-P`.
    """

    name: str = FINAL

    def __post_init__(self) -> None:
        """Check the name.

        Raises:
            ValueError: There is no such endpoint.
        """
        if self.name not in (FINAL, AUC) and not self.evaluations and not self.is_steps:
            raise ValueError(f"endpoint={self.name!r} is not known: give {ENDPOINT_FORMS}.")

    @functools.cached_property
    def evaluations(self) -> int:
        """Number of last evaluations that are averaged; 0 for `auc` and `steps-P`."""
        if self.name == FINAL:
            return 1
        found = _LAST.fullmatch(self.name)
        return int(found[1]) if found else 0

    @functools.cached_property
    def is_steps(self) -> bool:
        """Return whether it is a time to a threshold, not a return."""
        return _STEPS.fullmatch(self.name) is not None

    @functools.cached_property
    def threshold_share(self) -> float:
        """Share of the gap to the published score that must be closed; NaN for returns."""
        found = _STEPS.fullmatch(self.name)
        return int(found[1]) / 100 if found else math.nan

    @functools.cached_property
    def description(self) -> str:
        """The endpoint in words, for captions and the page's first lines."""
        if self.is_steps:
            return (
                "share of training that is left when an evaluation first reaches "
                f"{self.threshold_share:.0%} of the way to the published score, or to that of a "
                "solved task where none is published, 0 if none does"
            )
        if self.name == AUC:
            return "return averaged over training (area under the learning curve per step)"
        if self.name == FINAL:
            return "mean return over the episodes of the last evaluation"
        return f"mean return over the episodes of the last {self.evaluations} evaluations"

    @property
    def short_name(self) -> str:
        """The endpoint in a word or two, for column headings."""
        return "final return" if self.name == FINAL else "score"

    def score(
        self, steps: NDArray[np.int64], returns: FloatArray, threshold: float = math.nan
    ) -> float:
        """Compute the score of a run; larger is better for every endpoint.

        Args:
            steps: int64[E], environment steps of the evaluations, increasing, E at least 1.
            returns: float[E], mean return of each evaluation.
            threshold: Return to reach, for `steps-P`.

        Returns:
            In units of return, or a share of training from 0 to 1 for `steps-P`. A run that never
            reaches the threshold is censored at its end and scores 0: means of this score are 1 -
            restricted mean time / length (Irwin 1949; Royston and Parmar 2013).
        """
        if self.is_steps:
            first, reached = find_first_reach(steps, returns, threshold)
            return 1.0 - first / float(steps[-1]) if reached else 0.0
        if self.name == AUC:
            return compute_curve_average(steps, returns)
        return float(returns[-self.evaluations :].mean())

    def compute_weights(self, steps: NDArray[np.int64]) -> FloatArray:
        """Return float[E], the weight of each evaluation in the score; all 0 for `steps-P`."""
        weights = np.zeros(len(steps))
        first = _find_first_trained(steps)
        if self.name == AUC and len(steps) > first + 1:
            widths = np.diff(steps[first:].astype(np.float64))
            weights[first:-1] += widths / 2
            weights[first + 1 :] += widths / 2
            return np.asarray(weights / widths.sum())
        # A curve of one evaluation has no area: its average is that evaluation.
        last = 1 if self.name == AUC else min(len(steps), self.evaluations)
        if last:
            weights[-last:] = 1 / last
        return weights


def _find_first_trained(steps: NDArray[np.int64]) -> int:
    """Return the index of the first evaluation after step 0, or 0 if there is none."""
    return int(len(steps) > 1 and steps[0] == 0)


def compute_curve_average(steps: NDArray[np.int64], returns: FloatArray) -> float:
    """Average a curve over steps by the trapezoidal rule.

    The average runs from the first evaluation after step 0 to the last one.

    Args:
        steps: int64[E], increasing.
        returns: float[E].
    """
    first = _find_first_trained(steps)
    steps, returns = steps[first:], returns[first:]
    if len(steps) == 1:
        return float(returns[0])
    return float(np.trapezoid(returns, steps.astype(np.float64)) / float(steps[-1] - steps[0]))


def find_first_reach(
    steps: NDArray[np.int64], returns: FloatArray, threshold: float
) -> tuple[float, bool]:
    """Return the steps of the first evaluation at or above a return, and whether there is one.

    Without one, the time is censored at the last evaluation.

    Args:
        steps: int64[E], increasing.
        returns: float[E].
        threshold: In units of return.
    """
    above = np.flatnonzero(returns >= threshold)
    return (float(steps[above[0]]), True) if len(above) else (float(steps[-1]), False)


def normalize_by_human(scores: FloatArray, random: float, human: float) -> FloatArray:
    """Normalize scores: 100 (score - random) / (human - random), in percent (Mnih et al., 2015).

    Args:
        scores: float[n].
        random: Score of random play.
        human: Score of a human, different from `random`.
    """
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
    curves: Sequence[tuple[NDArray[np.int64], FloatArray]], score: float
) -> StepsToThreshold:
    """Compute the steps until the first evaluation at or above a score.

    Args:
        curves: Steps and mean returns of the evaluations of each run, each float[k].
        score: The threshold.
    """
    reaches = [find_first_reach(*curve, score) for curve in curves]
    first = [steps if reached else math.inf for steps, reached in reaches]
    median = statistics.median(first) if first else math.nan
    return StepsToThreshold(len(first), sum(reached for _, reached in reaches), median)


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
    # Step `total` belongs to the last stage: steps count from 1.
    place = np.clip((steps - 1) * stages // total, 0, stages - 1)
    counts = np.bincount(place, minlength=stages)
    sums = np.bincount(place, weights=values, minlength=stages)
    means = np.full(stages, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def average_stages(runs: Sequence[FloatArray]) -> tuple[ConfidenceInterval, ...]:
    """Average each stage over runs, with its 95% t interval.

    Args:
        runs: `compute_stage_means` of each run; NaN values are left out.
    """
    table = np.asarray(runs, np.float64)
    return tuple(compute_interval(column[np.isfinite(column)]) for column in table.T)
