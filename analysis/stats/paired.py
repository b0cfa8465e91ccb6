"""Two samples whose values belong together one by one: Student's paired test."""

import dataclasses
import math

import numpy as np
from scipy import special, stats

from analysis.stats.moments import Floats


@dataclasses.dataclass(frozen=True)
class Paired:
    """A difference of paired values.

    Attributes:
        n: Pairs.
        difference: Mean of first minus second.
        low: Lower end of its interval; NaN below two pairs.
        high: Upper end.
        p: Two-sided p-value of "the mean difference is 0"; NaN where all differences are equal.
        correlation: Pearson's, of the two samples; NaN where one does not vary, and below three
            pairs, where it can only be 1 or -1.
    """

    n: int
    difference: float
    low: float
    high: float
    p: float
    correlation: float


def paired(first: Floats, second: Floats, level: float = 0.95) -> Paired:
    """Compares paired values.

    Args:
        first: float[n], n at least 1.
        second: float[n], in the order of the first.
        level: Level of the interval.
    """
    away = first - second
    n, mean = len(away), float(away.mean())
    if n < 2:
        return Paired(n, mean, *[math.nan] * 4)
    error = float(away.std(ddof=1)) / math.sqrt(n)
    half = error * float(special.stdtrit(n - 1, (1 + level) / 2))
    p = float(2 * special.stdtr(n - 1, -abs(mean) / error)) if error else math.nan
    vary = n > 2 and min(float(first.std()), float(second.std())) > 0
    correlation = float(np.corrcoef(first, second)[0, 1]) if vary else math.nan
    return Paired(n, mean, mean - half, mean + half, p, correlation)


def sign_flips(first: Floats, second: Floats, rng: np.random.Generator) -> float:
    """Two-sided p-value of "either of a pair might as well be the first", by flipping signs.

    It assumes no distribution. Exact up to 13 pairs, of 9,999 draws beyond; NaN below two pairs
    and where all are equal. Least possible: 2 to the power of 1 - n.

    Args:
        first: float[n].
        second: float[n], in the order of the first.
        rng: Draws flips where there are too many.
    """
    away = first - second
    if len(away) < 2 or not away.any():
        return math.nan
    found = stats.permutation_test(
        (away,), np.mean, permutation_type="samples", n_resamples=9999, rng=rng
    )
    return float(found.pvalue)
