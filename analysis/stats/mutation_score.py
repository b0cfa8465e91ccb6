"""Mutation score of test generators: which mutants they kill, by the definitions of muPRL.

A mutant configuration, such as a discount of 0.9, is trained n times, in pairs with n originals
that had the same seeds. A test generator gives each pair environment configurations, and the number
of successes is compared. The definitions are those of the paper (Thomas et al.,
"muPRL: a mutation testing pipeline for deep reinforcement learning based on real faults", sections
IV-B and V); its code differs in places, which `as_published_code` reproduces.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

SuccessFlags = NDArray[np.bool_]
PairSuccesses = Sequence[SuccessFlags]
"""Successes of one agent of each pair, bool[tests]; pairs may have unequal numbers of tests."""

ALPHA = 0.05
"""Level of the test on one pair."""
TRIVIAL_SHARE = 0.9
"""Share of failures, where the original succeeds, from which a mutant is trivial."""
BOOTSTRAP_SAMPLES = 2000
"""As in the paper's section on conclusion validity."""


@dataclasses.dataclass(frozen=True, eq=False)
class KillResult:
    """Kills of one mutant configuration by a test generator.

    Attributes:
        n: Number of pairs.
        weaker: Pairs that are excluded because the original fails more often than its mutant; in
            the published code, only if the difference is significant.
        killed: Number of included pairs with a significant difference.
        rate: `killed` / pairs that are not left out; NaN if all are.
        is_killed: Whether the rate is at least one half.
        bootstrap_killed: As `killed`, where the 95% bootstrap interval of the probability that the
            original improves on the mutant excludes one half.
        agreeing: Pairs, of those not left out, on which both tests agree.
    """

    n: int
    weaker: int
    killed: int
    rate: float
    is_killed: bool
    bootstrap_killed: int = 0
    agreeing: int = 0

    @property
    def killed_by_fisher_only(self) -> int:
        """Return the number of pairs that Fisher's test kills and the bootstrap does not."""
        disagreeing = self.n - self.weaker - self.agreeing
        return (disagreeing + self.killed - self.bootstrap_killed) // 2


def evaluate_kill(
    original: PairSuccesses, mutant: PairSuccesses, *, as_published_code: bool = False
) -> KillResult:
    """Test each pair by Fisher's exact test, and decide if the mutant configuration is killed.

    Args:
        original: Successes. Tests need not be the same as the mutant's.
        mutant: Successes.
        as_published_code: Follow the published code: pairs count as weaker only if the test is
            significant; at least `round((n - w) / 2)` pairs must be killed, with halves rounded
            to even; the rate has two decimals.

    Raises:
        ValueError: There are not as many mutants as originals.
    """
    pairs = list(zip(original, mutant, strict=True))
    p = np.array([_compute_pair_p(*pair) for pair in pairs])
    # The paper counts failures of equally many tests, for which comparing shares is the same.
    weaker = np.array([o.mean() < m.mean() for o, m in pairs], bool)
    if as_published_code:
        weaker &= p < ALPHA
    n, w = len(original), int(weaker.sum())
    killed = int(((p < ALPHA) & ~weaker).sum())
    left = n - w
    if not left:
        return KillResult(n, w, killed, math.nan, False)
    rng = np.random.default_rng(0)
    differs = np.array([_differs_by_bootstrap(*pair, rng) for pair in pairs], bool)
    both = int((differs & ~weaker).sum()), int(((differs == (p < ALPHA)) & ~weaker).sum())
    rate = killed / left
    if as_published_code:
        return KillResult(n, w, killed, round(rate, 2), killed >= round(left / 2), *both)
    return KillResult(n, w, killed, rate, rate >= 0.5, *both)


def _compute_pair_p(original: SuccessFlags, mutant: SuccessFlags) -> float:
    return float(fisher_exact([[one.sum(), (~one).sum()] for one in (original, mutant)]).pvalue)


def _differs_by_bootstrap(
    original: SuccessFlags, mutant: SuccessFlags, rng: np.random.Generator
) -> bool:
    """Return whether the interval of the probability of improvement excludes one half.

    Of successes and failures that probability is one half and half the difference of both shares.
    """
    shares = [
        rng.binomial(one.size, one.mean(), BOOTSTRAP_SAMPLES) / one.size
        for one in (original, mutant)
    ]
    low, high = np.quantile(shares[0] - shares[1], (ALPHA / 2, 1 - ALPHA / 2))
    return bool(low > 0 or high < 0)


@dataclasses.dataclass(frozen=True)
class TrivialityResult:
    """Share of tests in which a mutant fails and its original does not.

    Attributes:
        share: Mean over pairs; NaN if no original ever succeeds.
        pairs: Number of pairs in the mean: those whose original succeeds at least once.
    """

    share: float
    pairs: int
    is_trivial: bool


def evaluate_triviality(
    original: PairSuccesses, mutant: PairSuccesses, *, as_published_code: bool = False
) -> TrivialityResult:
    """Compute triviality from the replay of the originals' training configurations.

    Args:
        original: Successes.
        mutant: Successes in the same configurations.
        as_published_code: Follow the published code: all failures of mutants / all successes of
            originals, with two decimals, in place of the mean of the pairs' shares.

    Raises:
        ValueError: Replays of a pair differ in length.
    """
    shares, successes, failures = list[float](), 0, 0
    for one, other in zip(original, mutant, strict=True):
        if one.shape != other.shape:
            raise ValueError(f"replays of a pair have shapes {one.shape} and {other.shape}")
        successes, failures = successes + int(one.sum()), failures + int((~other).sum())
        if one.any():
            shares.append(float((one & ~other).sum() / one.sum()))
    pairs = len(shares)
    if not pairs:
        return TrivialityResult(math.nan, 0, False)
    share = round(failures / successes, 2) if as_published_code else float(np.mean(shares))
    return TrivialityResult(share, pairs, share > TRIVIAL_SHARE)


@dataclasses.dataclass(frozen=True)
class MeanScore:
    """A mean over known values.

    Attributes:
        value: The mean; NaN if no value is known.
        n_requested: Number of values requested, known or not.
    """

    value: float
    n: int
    n_requested: int


def compute_mean_score(values: Sequence[float]) -> MeanScore:
    """Compute the mean of the values that are not NaN.

    Args:
        values: Killing rates of an operator's configurations, or mutation scores of operators
            (the paper's eq. 1).
    """
    known = [value for value in values if not math.isnan(value)]
    mean = float(np.mean(known)) if known else math.nan
    return MeanScore(mean, len(known), len(values))


def compute_sensitivity(weak: float, strong: float, *, as_published_code: bool = False) -> float:
    """Compute the sensitivity (strong - weak) / strong (the paper's eq. 2).

    Args:
        weak: Mutation score of the weak test generator.
        strong: Mutation score of the strong test generator.
        as_published_code: Follow the published code: 0 also if both are 0; three decimals.

    Returns:
        0 if the weak one kills more; NaN if a score is NaN or both are 0.
    """
    if math.isnan(weak) or math.isnan(strong):
        return math.nan
    if strong <= weak:
        return math.nan if strong == weak == 0 and not as_published_code else 0.0
    share = (strong - weak) / strong
    return round(share, 3) if as_published_code else share


def find_closest_value(
    values: Sequence[float], original: float, eligible: Sequence[bool]
) -> int | None:
    """Return the index of the eligible value closest to the original's; the first if tied."""
    distances = [
        (abs(value - original), number)
        for number, (value, fits) in enumerate(zip(values, eligible, strict=True))
        if fits
    ]
    return min(distances)[1] if distances else None
