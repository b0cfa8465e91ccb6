"""Tests on pairs of one family, and whether the rounding of printed numbers matters to them."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from analysis.groups import Group
from analysis.pair_verdict import DIFFERENT, EQUIVALENT, UNDECIDED
from analysis.stats import pairwise
from analysis.stats.moments import Floats, Moments, stack


@dataclasses.dataclass(frozen=True, eq=False)
class PairTests:
    """Both tests for the pairs of one family.

    Attributes:
        contrast: Differences, float[pairs] each.
        p: Welch's test.
        p_holm: The same after Holm's correction.
        p_equivalence: Two one-sided tests.
        p_equivalence_holm: The same after Holm's correction.
    """

    contrast: pairwise.Contrast
    p: Floats
    p_holm: Floats
    p_equivalence: Floats
    p_equivalence_holm: Floats

    def verdicts(self, permutation: Floats, alpha: float) -> tuple[list[str], list[bool]]:
        """Words, and whether a difference is significant, for each pair.

        Args:
            permutation: float[pairs], p-values of permutation tests; NaN where unknown.
            alpha: Level.
        """
        with np.errstate(invalid="ignore"):
            agrees = np.isnan(permutation) | (permutation < alpha)
            detectable = (self.p_holm < alpha) & agrees
            equivalent = self.p_equivalence_holm < alpha
        words = np.where(equivalent, EQUIVALENT, np.where(detectable, DIFFERENT, UNDECIDED))
        return [str(word) for word in words], [bool(flag) for flag in detectable]


def run_tests(first: Moments, second: Moments, margins: Floats) -> PairTests:
    """Tests the pairs of one family.

    Args:
        first: Moments with float[pairs] arrays.
        second: The same for the others of the pairs.
        margins: float[pairs], margins of equivalence.
    """
    item = pairwise.contrast([first], [second])
    p, p_equivalence = pairwise.two_sided_p(item), pairwise.equivalence_p(item, margins)
    return PairTests(item, p, pairwise.holm(p), p_equivalence, pairwise.holm(p_equivalence))


def rounding_matters(
    pairs: Sequence[tuple[Group, Group]], margins: Floats, words: list[str], alpha: float
) -> list[bool]:
    """Whether means and intervals at the ends of their rounding give another verdict."""
    if not any(group.rounding for pair in pairs for group in pair):
        return [False] * len(pairs)
    changed = np.zeros(len(pairs), dtype=bool)
    none = np.full(len(pairs), np.nan)
    for apart, wider in itertools.product((-1, 1), (-1, 1)):
        moved = [_moved(pair, apart, wider) for pair in pairs]
        first, second = (stack([pair[side] for pair in moved]) for side in (0, 1))
        other, _ = run_tests(first, second, margins).verdicts(none, alpha)
        changed |= np.array([a != b for a, b in zip(words, other, strict=True)])
    return [bool(flag) for flag in changed]


def _moved(pair: tuple[Group, Group], apart: int, wider: int) -> tuple[Moments, Moments]:
    sign = 1.0 if pair[0].moments.mean >= pair[1].moments.mean else -1.0
    moved = []
    for group, side in zip(pair, (1, -1), strict=True):
        n, shift = group.moments.n, side * sign * apart * group.rounding
        # The interval is 1.96 d / sqrt(n) with d = s sqrt((n - 1) / n).
        extra = wider * group.rounding * n / (1.96 * np.sqrt(np.maximum(n - 1, 1)))
        sd = np.maximum(0.0, group.moments.sd + extra)
        moved.append(Moments(group.moments.mean + shift, sd, n))
    return moved[0], moved[1]
