"""Ranks with ties, and agreement of two rankings."""

import itertools

import numpy as np

from analysis.stats import pairwise
from analysis.stats.moments import Floats, Moments


def separation(items: Moments, alpha: float = 0.05) -> Floats:
    """Which of several means are separated, and in which direction.

    Two means are separated where Welch's test is significant after Holm's correction over
    the pairs.

    Args:
        items: Moments of k samples.
        alpha: Level.

    Returns:
        float[k, k]: 1 where the row's mean is above the column's, -1 below, 0 for a tie.
    """
    k = len(items.mean)
    signs = np.zeros((k, k))
    rows, columns = np.triu_indices(k, 1)
    first, second = _take(items, rows), _take(items, columns)
    p = pairwise.holm(pairwise.two_sided_p(pairwise.contrast([first], [second])))
    with np.errstate(invalid="ignore"):
        found = np.where(p < alpha, np.sign(first.mean - second.mean), 0.0)
    signs[rows, columns], signs[columns, rows] = found, -found
    return signs


def mid_ranks(signs: Floats) -> Floats:
    """float[k], rank of each: 1 is best, and ties share the mean of their ranks.

    A rank is 1, plus one for each that is above, plus one half for each tie. Ties need not
    be transitive: of three, the outer ones may be separated and both tie with the middle.

    Args:
        signs: float[k, k] from `separation`.
    """
    k = len(signs)
    above = (signs < 0).sum(axis=1)
    ties = (signs == 0).sum(axis=1) - 1
    return np.asarray(1 + above + ties / 2, dtype=np.float64) if k else np.zeros(0)


def tau_b(first: Floats, second: Floats) -> float:
    """Kendall's (1945) tau-b of two rankings given as signs of all pairs.

    Args:
        first: float[k, k] of -1, 0 and 1.
        second: The same for the other ranking.

    Returns:
        A value in [-1, 1]; NaN where one ranking has nothing but ties.
    """
    sizes = float((first**2).sum()) * float((second**2).sum())
    return float((first * second).sum() / np.sqrt(sizes)) if sizes else float("nan")


def signs_of(values: Floats) -> Floats:
    """float[..., k, k], signs of all differences of values float[..., k]."""
    return np.asarray(np.sign(values[..., :, None] - values[..., None, :]), dtype=np.float64)


def bootstrap_means(
    items: Moments,
    scores: list[Floats | None],
    resamples: int,
    rng: np.random.Generator,
) -> Floats:
    """Means of resampled seeds; without seeds, means drawn from Student's t distribution.

    Args:
        items: Moments of k samples.
        scores: The samples, None for those that only have moments.
        resamples: How many.
        rng: Source of the draws.

    Returns:
        float[resamples, k]; a sample of one value gives that value throughout.
    """
    drawn = np.empty((resamples, len(scores)))
    for i, sample in enumerate(scores):
        n = int(items.n[i])
        if n < 2:
            drawn[:, i] = items.mean[i]
        elif sample is None:
            noise = rng.standard_t(n - 1, size=resamples) * items.sd[i] / np.sqrt(n)
            drawn[:, i] = items.mean[i] + noise
        else:
            drawn[:, i] = sample[rng.integers(n, size=(resamples, n))].mean(axis=1)
    return drawn


def gap_p(first: Moments, second: Moments) -> dict[tuple[int, int], tuple[float, float]]:
    """Whether gaps between items differ between two frameworks.

    Args:
        first: Moments of k items in one framework.
        second: Moments of the same items in the other.

    Returns:
        For each pair of items the difference of the gaps, and its p-value from Welch's test
        on the four means, Holm-corrected over the pairs.
    """
    pairs = list(itertools.combinations(range(len(first.mean)), 2))
    if not pairs:
        return {}
    a, b = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    item = pairwise.contrast(
        [_take(first, a), _take(second, b)], [_take(first, b), _take(second, a)]
    )
    p = pairwise.holm(pairwise.two_sided_p(item))
    return {
        pair: (float(gap), float(value))
        for pair, gap, value in zip(pairs, item.difference, p, strict=True)
    }


def _take(items: Moments, index: np.ndarray) -> Moments:
    return Moments(items.mean[index], items.sd[index], items.n[index])
