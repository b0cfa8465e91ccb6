"""Ranks with ties, and agreement of two rankings."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.analysis.stats import two_sample
from parallax.analysis.stats.moments import FloatArray, SampleMoments
from parallax.analysis.stats.multiple_testing import adjust_holm, adjust_holm_rows, compute_welch_p


def compute_separation_signs(items: SampleMoments, alpha: float = 0.05) -> FloatArray:
    """Compute which of several means are separated, and in which direction.

    Two means are separated where Welch's test is significant after Holm's correction over
    the pairs.

    Returns:
        float[k, k]: 1 where the row's mean is above the column's, -1 below, 0 for a tie.
    """
    k = len(items.mean)
    signs = np.zeros((k, k))
    rows, columns = np.triu_indices(k, 1)
    first, second = _select_moments(items, rows), _select_moments(items, columns)
    p = adjust_holm(two_sample.compute_two_sided_p(two_sample.compute_contrast([first], [second])))
    with np.errstate(invalid="ignore"):
        found = np.where(p < alpha, np.sign(first.mean - second.mean), 0.0)
    signs[rows, columns], signs[columns, rows] = found, -found
    return signs


def compute_mid_ranks(signs: FloatArray) -> FloatArray:
    """Return float[k], rank of each: 1 is best, and ties share the mean of their ranks.

    A rank is 1, plus one for each that is above, plus one half for each tie. Ties need not
    be transitive: of three, the outer ones may be separated and both tie with the middle.

    Args:
        signs: float[k, k] from `compute_separation_signs`.
    """
    k = len(signs)
    above = (signs < 0).sum(axis=1)
    ties = (signs == 0).sum(axis=1) - 1
    return np.asarray(1 + above + ties / 2, dtype=np.float64) if k else np.zeros(0)


def compute_tau_b(first: FloatArray, second: FloatArray) -> float:
    """Return Kendall's (1945) tau-b of two rankings given as signs of all pairs.

    Args:
        first: float[k, k] of -1, 0 and 1.
        second: The same for the other ranking.

    Returns:
        A value in [-1, 1]; NaN where one ranking has nothing but ties.
    """
    # Both sums and the product count each pair twice, which cancels.
    sizes = float((first**2).sum()) * float((second**2).sum())
    return float((first * second).sum() / np.sqrt(sizes)) if sizes else float("nan")


def compute_difference_signs(values: FloatArray) -> FloatArray:
    """Return float[..., k, k], signs of all differences of values float[..., k]."""
    return np.asarray(np.sign(values[..., :, None] - values[..., None, :]), dtype=np.float64)


def bootstrap_means(
    items: SampleMoments, scores: list[FloatArray | None], resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Draw means of resampled seeds; without seeds, means from Student's t distribution.

    Args:
        items: Moments of k samples.
        scores: The samples, None for those that only have moments.
        resamples: Number of resamples.
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


@dataclasses.dataclass(frozen=True)
class SameOrderChance:
    """Probability of the same order if all items tie, over simulated samples.

    Attributes:
        low: 2.5% quantile over samples.
        high: 97.5% quantile over samples.
    """

    mean: float
    low: float
    high: float


def compute_same_order_probability(orders: Sequence[FloatArray]) -> FloatArray:
    """Compute the share of resamples in which no two rankings reverse the order of two items.

    Args:
        orders: One float[..., resamples, k, k] of signs per ranking, at least two.

    Returns:
        float[...].
    """
    upper = np.triu_indices(orders[0].shape[-1], 1)
    flat = [item[..., upper[0], upper[1]] for item in orders]
    alike = np.ones(flat[0].shape[:-1], dtype=bool)
    for first, second in itertools.combinations(flat, 2):
        alike &= (first * second >= 0).all(axis=-1)
    return np.asarray(alike.mean(axis=-1))


def simulate_tied_orders(
    items: SampleMoments, samples: int, resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Return the orders of resampled means of items whose true means are all the same.

    The means of the items are ignored.

    Returns:
        float[samples, resamples, k, k], signs of all differences.
    """
    error = np.nan_to_num(np.sqrt(items.squared_error))
    k = len(error)
    means = rng.standard_normal((samples, 1, k)) * error
    return compute_difference_signs(means + rng.standard_normal((samples, resamples, k)) * error)


def compute_same_order_chance(orders: Sequence[FloatArray]) -> SameOrderChance:
    """Compute how the same-order probability of `simulate_tied_orders` is distributed."""
    found = compute_same_order_probability(orders)
    low, high = np.quantile(found, [0.025, 0.975])
    return SameOrderChance(float(found.mean()), float(low), float(high))


def compute_gap_p(
    first: SampleMoments, second: SampleMoments
) -> dict[tuple[int, int], tuple[float, float]]:
    """Test whether gaps between items differ between two frameworks.

    Returns:
        For each pair of items the difference of the gaps, and its p-value from Welch's test
        on the four means, Holm-corrected over the pairs.
    """
    pairs = list(itertools.combinations(range(len(first.mean)), 2))
    if not pairs:
        return {}
    a, b = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    item = two_sample.compute_contrast(
        [_select_moments(first, a), _select_moments(second, b)],
        [_select_moments(first, b), _select_moments(second, a)],
    )
    p = adjust_holm(two_sample.compute_two_sided_p(item))
    return {
        pair: (float(gap), float(value))
        for pair, gap, value in zip(pairs, item.difference, p, strict=True)
    }


def simulate_gap_changes(
    frameworks: Sequence[SampleMoments], alpha: float, resamples: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Simulate whether a gap tests as different although each item has one mean in all frameworks.

    All frameworks have the same k items. An item's true mean is taken to be the mean over all, with
    the deviations as measured. Levels are corrected by Holm's method over the pairs of items.

    Returns:
        bool[resamples], by the rule of `verdicts.ranking`.
    """
    n = np.maximum(np.stack([item.n for item in frameworks]), 2)
    sd = np.nan_to_num(np.stack([item.sd for item in frameworks]))
    middle = np.stack([item.mean for item in frameworks]).mean(axis=0)
    shape = (resamples, *sd.shape)
    means = middle + rng.standard_normal(shape) * sd / np.sqrt(n)
    errors = sd**2 * rng.chisquare(n - 1, shape) / (n - 1) / n
    i, j = np.triu_indices(sd.shape[1], 1)
    gaps, total = means[..., i] - means[..., j], errors[..., i] + errors[..., j]
    small = errors[..., i] ** 2 / (n[:, i] - 1) + errors[..., j] ** 2 / (n[:, j] - 1)
    separated = adjust_holm_rows(compute_welch_p(gaps, total, small)) < alpha
    changed = np.zeros(resamples, dtype=bool)
    for a, b in itertools.combinations(range(len(frameworks)), 2):
        p = compute_welch_p(
            gaps[:, a] - gaps[:, b], total[:, a] + total[:, b], small[:, a] + small[:, b]
        )
        found = (adjust_holm_rows(p) < alpha) & (separated[:, a] | separated[:, b])
        changed |= found.any(axis=-1)
    return changed


def _select_moments(items: SampleMoments, index: np.ndarray) -> SampleMoments:
    return SampleMoments(items.mean[index], items.sd[index], items.n[index])
