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
        """Create an instance from one time and flag per run."""
        times = np.array([time for time, _ in pairs], dtype=np.float64)
        return cls(times, np.array([flag for _, flag in pairs], dtype=np.bool_))

    def add_censored(self, time: float, count: int) -> "CensoredTimes":
        """Return the times with further runs that had no event until a time."""
        times = np.concatenate([self.times, np.full(count, time)])
        return CensoredTimes(times, np.concatenate([self.reached, np.zeros(count, dtype=bool)]))

    def to_scipy(self) -> stats.CensoredData:
        """Convert the times to the type that scipy's functions take."""
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
    """Estimate the survival curve of one framework with at least one run."""
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
    # Products of shares that are 0.5 exactly can be rounded up.
    half = np.flatnonzero(share <= 0.5 + 1e-12)
    median = float(steps[half[0]]) if len(half) else math.inf
    return SurvivalCurve(steps, share, low, high, median)


def compute_log_rank_p(first: CensoredTimes, second: CensoredTimes) -> float:
    """Compute the two-sided p-value of the log-rank test of equal times (Mantel 1966).

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


def compute_permuted_log_rank_p(
    samples: Sequence[CensoredTimes], rng: np.random.Generator, permutations: int = 4_999
) -> float:
    """Compute the p-value of "all groups have equal times" by permuting runs between groups.

    The statistic is that of the log-rank test for several groups, z' V^- z, where z are observed
    minus expected events per group and V is their hypergeometric covariance (Mantel 1966; Peto and
    Peto 1972). Permutations take the place of its chi-square distribution, which is wrong for
    groups of three runs. The observed order counts as one more permutation.

    Returns:
        NaN with fewer than two groups of two runs, 1 where no run has the event.
    """
    if sum(len(sample.times) > 1 for sample in samples) < 2:
        return math.nan
    together = CensoredTimes(
        np.concatenate([sample.times for sample in samples]),
        np.concatenate([sample.reached for sample in samples]),
    )
    if not together.reached.any():
        return 1.0
    groups = np.repeat(np.arange(len(samples)), [len(sample.times) for sample in samples])
    seen = _compute_log_rank_statistics(together, groups[None])[0]
    shuffled = rng.permuted(np.tile(groups, (permutations, 1)), axis=1)
    found = _compute_log_rank_statistics(together, shuffled)
    return float(((found >= seen * (1 - 1e-9)).sum() + 1) / (permutations + 1))


def _compute_log_rank_statistics(
    sample: CensoredTimes, groups: np.typing.NDArray[np.int64]
) -> FloatArray:
    """Return float[P], the log-rank statistic of each assignment int64[P, n] of runs to groups."""
    count = int(groups.max()) + 1
    # Without the last group: observed minus expected events add up to 0 over all groups.
    members = (groups[:, :, None] == np.arange(count - 1)).astype(np.float64)
    covariance = np.zeros((len(groups), count - 1, count - 1))
    observed = np.einsum("png,n->pg", members, sample.reached.astype(np.float64))
    for time in np.unique(sample.times[sample.reached]):
        at_risk = (sample.times >= time).astype(np.float64)
        total = at_risk.sum()
        events = float((sample.reached & (sample.times == time)).sum())
        shares = np.einsum("png,n->pg", members, at_risk) / total
        observed = observed - events * shares
        # Variance of the hypergeometric distribution; several events can share a step.
        scale = events * (total - events) / (total - 1) if total > 1 else 0.0
        diagonal = shares[:, :, None] * np.eye(count - 1)
        covariance = covariance + scale * (diagonal - shares[:, :, None] * shares[:, None, :])
    # A group without runs at risk at any event has a row of zeros.
    inverse = np.linalg.pinv(covariance, hermitian=True)
    return np.asarray(np.einsum("pg,pgh,ph->p", observed, inverse, observed))
