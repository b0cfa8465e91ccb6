"""Shares of runs that fail: Fisher's test, and an interval for the difference of two shares."""

import math

from scipy import stats

_Z = 1.959963984540054  # 97.5% quantile of the normal distribution


def fisher_p(failed: tuple[int, int], sizes: tuple[int, int]) -> float:
    """Two-sided p-value of Fisher's exact test of "both fail alike".

    Args:
        failed: How many of each sample failed.
        sizes: How many there are of each; NaN comes of an empty sample.
    """
    if min(sizes) < 1:
        return math.nan
    table = [[count, size - count] for count, size in zip(failed, sizes, strict=True)]
    return float(stats.fisher_exact(table).pvalue)


def wilson(failed: int, size: int) -> tuple[float, float]:
    """Wilson's (1927) 95% interval of one share.

    Args:
        failed: How many failed.
        size: Of how many, at least 1.
    """
    share, square = failed / size, _Z**2
    half = _Z * math.sqrt(share * (1 - share) / size + square / (4 * size**2))
    middle = share + square / (2 * size)
    low, high = ((middle + side * half) / (1 + square / size) for side in (-1, 1))
    return max(0.0, low), min(1.0, high)


def newcombe(failed: tuple[int, int], sizes: tuple[int, int]) -> tuple[float, float]:
    """The 95% interval for the first share less the second.

    Newcombe's method 10 (Statistics in Medicine 17, 1998, 873-890), made of both Wilson intervals.

    Args:
        failed: How many of each sample failed.
        sizes: How many there are of each; NaN comes of an empty sample.
    """
    if min(sizes) < 1:
        return math.nan, math.nan
    one, two = (count / size for count, size in zip(failed, sizes, strict=True))
    (low_one, high_one), (low_two, high_two) = map(wilson, failed, sizes)
    return (
        one - two - math.hypot(one - low_one, high_two - two),
        one - two + math.hypot(high_one - one, two - low_two),
    )
