"""Statements on a pair of frameworks: what is shown, and whether of means or distributions.

`different` alone does not say what differs. Welch's and a permutation test reject that two
frameworks have the same distribution of returns. As failures can be possible but unobserved, this
does not show that their means differ. So the statement is about means only if a bound that assumes
nothing but the range of returns shows it too.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats

from parallax.analysis.labels import format_range
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.two_sample import MeanContrast
from parallax.analysis.stats.unobserved_failures import compute_equal_means_p
from parallax.analysis.verdicts.failures import FailureComparison
from parallax.analysis.verdicts.groups import GroupPair
from parallax.analysis.verdicts.margins import ScoreRange

DIFFERENT, EQUIVALENT, INCONCLUSIVE = "different", "equivalent", "inconclusive"
DIFFERENT_IN_MEAN = "different in mean"
DIFFERENT_IN_DISTRIBUTION = "different in distribution"
EQUIVALENT_UNLESS = "equivalent unless more than {rate} of runs fail"
CONDITIONAL_PREFIX = "equivalent unless"
UNEQUAL_FAILURES = "inconclusive with different failure rates"
# Fisher's test is a second way to find "different in distribution", at this share of the level. The
# first uses the whole level, so the false positive rate is at most (1 + FISHER_SHARE) times it.
FISHER_SHARE = 0.2


@dataclasses.dataclass(frozen=True)
class PairStatement:
    """Statement on one pair, with the numbers behind it.

    Attributes:
        text: One of the constants above; the conditional one has its rate filled in.
        p_mean: p-value of "the means are equal" that assumes only the range of returns.
        tolerated_failures: Share of runs of one framework that may end unlike all observed ones,
            failed or far better, with means still within the margin; NaN for other statements.
        failure_limit: One-sided upper limit of the failure rate of a framework of which no run
            failed, at the level of the tests; NaN where a run failed or it is unknown.
    """

    text: str
    p_mean: float
    tolerated_failures: float = math.nan
    failure_limit: float = math.nan

    @functools.cached_property
    def is_conditional(self) -> bool:
        """Return whether it holds unless more runs fail than have been observed to."""
        return self.text.startswith(CONDITIONAL_PREFIX)


def compute_mean_p(pair: GroupPair, ends: ScoreRange) -> float:
    """Compute the two-sided p-value of "the means are equal" from the range of scores alone.

    It is the bound of `stats.unobserved_failures` with a margin of 0, so that it holds whatever the
    distributions are. Without a known range it is 1.
    """
    one, two = (group.moments if group.scores is None else group.scores for group in pair)
    if min(group.n for group in pair) < 2:
        return math.nan
    if not ends.known:
        return 1.0
    return compute_equal_means_p(one, two, (ends.low, ends.high))


def state_pairs(
    pairs: Sequence[GroupPair],
    verdicts: Sequence[str],
    contrast: MeanContrast,
    p_tost: FloatArray,
    margins: FloatArray,
    ranges: Sequence[ScoreRange],
    failures: Sequence[FailureComparison],
    alpha: float,
) -> list[PairStatement]:
    """Make the statement on each pair of one family.

    Args:
        pairs: Pairs of frameworks.
        verdicts: `different`, `equivalent` or `inconclusive` for each.
        contrast: Their differences of means.
        p_tost: float[pairs], p-values of two one-sided tests, uncorrected.
        margins: float[pairs], margins of equivalence.
        ranges: Range of scores of each pair.
        failures: Failed runs of each pair.
        alpha: Level.
    """
    p_mean = [compute_mean_p(*one) for one in zip(pairs, ranges, strict=True)]
    p_tost_holm = adjust_holm(p_tost)
    distances = np.array(
        [_compute_distance_to_end(*one) for one in zip(pairs, ranges, strict=True)]
    )
    rates = compute_tolerated_failures(contrast, margins, distances, alpha)
    found = []
    for i, (pair, verdict) in enumerate(zip(pairs, verdicts, strict=True)):
        text, tolerated, limit = verdict, math.nan, math.nan
        if verdict == DIFFERENT:
            # Uncorrected, as permutation tests: with few seeds p-values are at least a few percent.
            in_mean = p_mean[i] < alpha
            text = DIFFERENT_IN_MEAN if in_mean else DIFFERENT_IN_DISTRIBUTION
        elif verdict == INCONCLUSIVE and failures[i].p_holm < FISHER_SHARE * alpha:
            text = DIFFERENT_IN_DISTRIBUTION
        if _has_no_failure(pair, failures[i]):
            # Clopper-Pearson's upper limit for no failure in n runs: (1 - q)^n = alpha.
            limit = 1 - alpha ** (1 / min(group.n for group in pair))
            if text == INCONCLUSIVE and p_tost_holm[i] < alpha and rates[i] > 0:
                tolerated = float(rates[i])
                text = EQUIVALENT_UNLESS.format(rate=format_rate(tolerated))
        found.append(PairStatement(text, p_mean[i], tolerated, limit))
    return found


def _has_no_failure(pair: GroupPair, found: FailureComparison) -> bool:
    """Return whether it is known that no run of two frameworks failed."""
    # Failed trainings have no score that could be below the threshold.
    return found.known and not any(found.failed) and not any(group.failed for group in pair)


def _compute_distance_to_end(pair: GroupPair, ends: ScoreRange) -> float:
    """Compute the largest distance of a mean from an end of the range of scores."""
    means = [float(group.moments.mean) for group in pair]
    return max(max(means) - ends.low, ends.high - min(means))


def compute_tolerated_failures(
    contrast: MeanContrast, margins: FloatArray, distances: FloatArray, alpha: float
) -> FloatArray:
    """Compute the failure rate of one framework up to which means stay within the margin.

    A share q of runs that end unlike all observed ones moves a mean by at most q times its distance
    from the farther end of the range. What the upper limit of the difference leaves of the margin
    is divided by this distance.

    Args:
        contrast: Differences of means of the observed runs.
        margins: float[pairs], margins of equivalence.
        distances: float[pairs], largest distance of a mean from an end of the range of scores.
        alpha: Level of the one-sided limit of the difference.

    Returns:
        float[pairs]; negative where the limit exceeds the margin, NaN at the end of the range.
    """
    limits = np.abs(contrast.difference) + (
        stats.t.isf(alpha, contrast.degrees_of_freedom) * contrast.error
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distances > 0, (margins - limits) / distances, np.nan)


def format_rate(rate: float) -> str:
    """Format a failure rate, rounded down: 4%, 0.4%."""
    percent = min(100.0, 100 * rate)
    digits = 0 if percent >= 1 else 1
    return f"{math.floor(percent * 10**digits) / 10**digits:.{digits}f}%"


def format_tolerated_failures(statements: Iterable[PairStatement]) -> str:
    """Format the least and largest rate of failures that conditional statements tolerate.

    Empty where none of the statements is conditional.
    """
    return format_range(
        (one.tolerated_failures for one in statements if one.is_conditional), format_rate
    )
