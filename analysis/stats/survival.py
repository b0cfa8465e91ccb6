"""Times to an event that some runs do not reach: Kaplan and Meier's estimate, log-rank tests."""

import dataclasses
import math
import warnings
from collections.abc import Sequence

import numpy as np
from scipy import stats

from parallax.analysis.stats.moments import FloatArray


@dataclasses.dataclass(frozen=True, eq=False)
class CensoredTimes:
    """Times of several runs.

    Attributes:
        times: float[n], steps until the event, or until the run's end without one.
        reached: bool[n], whether the event happened.
    """

    times: FloatArray
    reached: np.typing.NDArray[np.bool_]

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[float, bool]]) -> "CensoredTimes":
        """Make it from a time and a flag per run."""
        times = np.array([time for time, _ in pairs], dtype=np.float64)
        return cls(times, np.array([flag for _, flag in pairs], dtype=np.bool_))

    def to_scipy(self) -> stats.CensoredData:
        """Return what scipy's functions take."""
        return stats.CensoredData.right_censored(self.times, ~self.reached)


@dataclasses.dataclass(frozen=True, eq=False)
class SurvivalCurve:
    """Kaplan and Meier's (1958) estimate of the share of runs that have not reached a threshold.

    Attributes:
        steps: float[k], times at which runs reached it, increasing.
        share: float[k], share that has not, right after each.
        low: float[k], lower end of the pointwise 95% interval (log-log transform).
        high: float[k], upper end.
        median: First time at which at least half have; infinite if never.
    """

    steps: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray
    median: float


def estimate_survival(sample: CensoredTimes) -> SurvivalCurve:
    """Estimate the survival curve of one framework.

    Args:
        sample: At least one run.
    """
    empty = np.empty(0)
    if not sample.reached.any():
        return SurvivalCurve(empty, empty, empty, empty, math.inf)
    curve = stats.ecdf(sample.to_scipy()).sf
    happened = np.isin(curve.quantiles, sample.times[sample.reached])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no interval where all have reached it
        ends = curve.confidence_interval(method="log-log")
    steps, share = curve.quantiles[happened], curve.probabilities[happened]
    low, high = (
        np.nan_to_num(np.asarray(end.probabilities)[happened], nan=0.0)
        for end in (ends.low, ends.high)
    )
    half = np.flatnonzero(share <= 0.5 + 1e-12)
    median = float(steps[half[0]]) if len(half) else math.inf
    return SurvivalCurve(steps, share, low, high, median)


def compute_log_rank_p(first: CensoredTimes, second: CensoredTimes) -> float:
    """Compute the two-sided p-value of the log-rank test of equal times (Mantel 1966).

    Args:
        first: Times of one framework.
        second: Times of the other.

    Returns:
        NaN where either has fewer than two runs, 1 where no run reaches the threshold.
    """
    if min(len(first.times), len(second.times)) < 2:
        return math.nan
    if not (first.reached.any() or second.reached.any()):
        return 1.0
    with np.errstate(all="ignore"):
        p = float(stats.logrank(first.to_scipy(), second.to_scipy()).pvalue)
    return 1.0 if math.isnan(p) else p


def compute_log_rank_scores(sample: CensoredTimes) -> FloatArray:
    """Return float[n], each run's log-rank score: event - hazard accumulated until its end.

    Their sum over a group is the observed minus the expected number of events, the numerator of the
    log-rank test (Peto and Peto 1972). The hazard is Nelson and Aalen's over all runs.
    """
    times, reached = sample.times, sample.reached
    steps = np.unique(times[reached])
    at_risk = (times[:, None] >= steps).sum(axis=0)
    events = ((times[:, None] == steps) & reached[:, None]).sum(axis=0)
    hazard = ((times[:, None] >= steps) * (events / at_risk)).sum(axis=1)
    return np.asarray(reached - hazard, dtype=np.float64)


def compute_permuted_log_rank_p(
    samples: Sequence[CensoredTimes], rng: np.random.Generator, permutations: int = 9_999
) -> float:
    """Compute the p-value of "all groups have equal times" by permuting runs between groups.

    The statistic is the sum over groups of (sum of log-rank scores)^2 / n, which needs no
    asymptotics, so that it holds for groups of three runs.

    Args:
        samples: Times of each group.
        rng: Source of the permutations.
        permutations: Number of random ones; the observed order counts as one more.

    Returns:
        NaN with fewer than two groups of two runs, 1 where no run has the event.
    """
    sizes = [len(sample.times) for sample in samples]
    if sum(size > 1 for size in sizes) < 2:
        return math.nan
    together = CensoredTimes(
        np.concatenate([sample.times for sample in samples]),
        np.concatenate([sample.reached for sample in samples]),
    )
    scores = compute_log_rank_scores(together)
    starts = np.cumsum([0, *sizes[:-1]])

    def measure(rows: FloatArray) -> FloatArray:
        sums = np.add.reduceat(rows, starts, axis=1)
        return np.asarray((sums**2 / np.array(sizes)).sum(axis=1))

    shuffled = rng.permuted(np.tile(scores, (permutations, 1)), axis=1)
    seen = float(measure(scores[None])[0])
    as_far = measure(shuffled) >= seen - 1e-9 * max(seen, 1.0)
    return float((as_far.sum() + 1) / (permutations + 1))
