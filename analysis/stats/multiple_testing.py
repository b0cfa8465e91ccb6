"""Many tests at once: Holm's correction, checks after every batch of seeds, and the omnibus test.

Repeating an ordinary test increases its false positive rate: six checks at 5% give about 14%. A
group-sequential test spends the level gradually (Lan and DeMets, Biometrika 70, 1983), linearly: a
share n / N of it once n of at most N seeds are trained. The probability that a true null hypothesis
is ever rejected stays below the level, however many checks there are, if N and the sizes at the
checks do not depend on the scores.

The omnibus test asks whether there is any difference, even if none stands out by itself. Its
statistic is the number of comparisons that are significant without correction. Comparisons share
samples, so that this number is not binomial under the null hypothesis; its distribution is
simulated with whole studies in which nothing differs, which preserves the dependence.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from parallax.analysis.stats.moments import FloatArray, SampleMoments


def adjust_holm(p_values: ArrayLike) -> FloatArray:
    """Adjust the p-values of one family after Holm (1979).

    The i-th smallest of m p-values becomes max over j <= i of (m - j + 1) p_(j), at most 1.

    Args:
        p_values: float[m]; NaN marks missing tests, which do not count in m.
    """
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return adjusted


def adjust_holm_rows(p: FloatArray) -> FloatArray:
    """Adjust the p-values of many families after Holm; no p-value may be missing.

    Args:
        p: float[..., m], one family along the last axis.
    """
    order = np.argsort(p, axis=-1)
    factors = np.arange(p.shape[-1], 0, -1)
    adjusted = np.maximum.accumulate(np.take_along_axis(p, order, -1) * factors, axis=-1)
    found = np.empty_like(p)
    np.put_along_axis(found, order, adjusted, -1)
    return np.minimum(found, 1)


# Levels for the interpolation of sequential p-values; outside, they are the lowest level or 1.
INTERPOLATION_LEVELS = np.geomspace(1e-10, 0.5, 100)
_NODES = 121


def compute_nominal_levels(sizes: Sequence[int], most: int, alpha: ArrayLike) -> FloatArray:
    """Compute the level that an ordinary p-value must be below at each check.

    For two-sided tests of a normal mean with known deviation; p-values of t tests are compared
    with the same levels, which is accurate from few values on (Jennison and Turnbull, Group
    Sequential Methods, 2000, section 4.4).

    Args:
        sizes: Seeds at each check so far, increasing, at most `most`.
        most: Seeds after which the study ends in any case, fixed before the first check.
        alpha: float[a], chance of a false positive over all checks.

    Returns:
        float[checks, a]. The first is the share of `alpha` spent. Later ones are larger than the
        share they spend, since earlier checks already rejected in part of the cases.
    """
    # Linear spending (Kim and DeMets 1987, rho = 1): the same share for each seed.
    spent = np.atleast_1d(np.asarray(alpha, dtype=np.float64)) / most
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    levels: list[FloatArray] = []
    # Recursive integration of the sum's density (Armitage, McPherson and Rowe 1969): `at` are
    # the nodes, and `mass` the density at them times the weights of the quadrature.
    at, mass = np.zeros((len(spent), 1)), np.ones((len(spent), 1))
    before = 0
    for size in sizes:
        step = np.sqrt(size - before)
        bound = _solve_bound(at, mass, step, spent * (size - before))
        levels.append(2 * stats.norm.sf(bound / np.sqrt(size)))
        # Density of the sum at the nodes between the bounds, from that at the check before.
        grid = bound[:, None] * nodes
        density = np.einsum(
            "aj,aij->ai", mass, stats.norm.pdf(grid[:, :, None], at[:, None, :], step)
        )
        # Gauss-Legendre weights are for (-1, 1); the interval is (-bound, bound).
        at, mass = grid, density * weights * bound[:, None]
        before = size
    return np.array(levels)


def compute_sequential_p(p_values: ArrayLike, sizes: Sequence[int], most: int) -> FloatArray:
    """Compute the smallest level at which some check so far would have rejected.

    It is valid at any check, whatever the reason to stop there, and can be used like any p-value,
    for instance in Holm's correction. Values above 0.5 are returned as 1.

    Args:
        p_values: float[checks, ...], ordinary two-sided p-values of all seeds up to each check;
            NaN where a test could not be made.
        sizes: Seeds at each check, increasing.
        most: Seeds after which the study ends in any case.

    Returns:
        float[...]; NaN if no check has a test.

    Raises:
        ValueError: The sizes do not increase, or exceed `most`.
    """
    sizes = tuple(int(size) for size in sizes)
    p = np.asarray(p_values, dtype=np.float64)
    if not sizes or sizes[0] < 1 or any(np.diff(sizes) < 1) or sizes[-1] > most:
        raise ValueError(f"Sizes of checks {list(sizes)} must increase and end at {most} at most.")
    table = np.log(_compute_level_table(sizes, most))
    with np.errstate(divide="ignore"):
        logs = np.log(p)
    overall = np.stack(
        [
            np.interp(row, levels, np.log(INTERPOLATION_LEVELS), right=np.inf)
            for row, levels in zip(logs, table, strict=True)
        ]
    )
    overall = np.where(np.isnan(p), np.inf, overall)
    least = overall.min(axis=0)
    found = np.where(np.isinf(least), 1.0, np.exp(np.minimum(least, 0)))
    return np.where(np.isnan(p).all(axis=0), np.nan, found)


def compute_one_sided_sequential_p(
    p_values: ArrayLike, sizes: Sequence[int], most: int
) -> FloatArray:
    """Compute `compute_sequential_p` for one-sided p-values, by doubling and halving them."""
    doubled = np.minimum(1.0, 2 * np.asarray(p_values, dtype=np.float64))
    found = compute_sequential_p(doubled, sizes, most)
    return np.where(found < 1, found / 2, found)


@functools.lru_cache(maxsize=256)
def _compute_level_table(sizes: tuple[int, ...], most: int) -> FloatArray:
    # np.interp needs increasing values, which rounding errors can violate.
    return np.maximum.accumulate(compute_nominal_levels(sizes, most, INTERPOLATION_LEVELS), axis=1)


def _solve_bound(at: FloatArray, mass: FloatArray, step: float, chance: FloatArray) -> FloatArray:
    """Return float[a], the absolute value that the sum first exceeds with the given probability."""
    low = np.zeros(len(chance))
    # Twelve deviations leave 2e-33, less than any level in use.
    high = np.abs(at).max(axis=1) + 12 * step
    for _ in range(60):
        middle = (low + high) / 2
        beyond = stats.norm.sf((middle[:, None] - at) / step)
        beyond += stats.norm.cdf((-middle[:, None] - at) / step)
        above = (mass * beyond).sum(axis=1) > chance
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray((low + high) / 2)


_CHUNK_SIZE = 2_000_000  # numbers in memory at a time


@dataclasses.dataclass(frozen=True)
class OmnibusCount:
    """Number of comparisons that are significant without correction, and its null distribution.

    Attributes:
        tests: Number of comparisons that could be tested.
        p: Monte-Carlo p-value (1 + #{simulated >= observed}) / (1 + simulated_studies).
    """

    observed: int
    tests: int
    expected_under_null: float
    max_under_null: int
    p: float
    simulated_studies: int


def evaluate_count(observed: int, tests: int, simulated: NDArray[np.int64]) -> OmnibusCount:
    """Compare an observed count with those of simulated studies.

    Args:
        observed: Significant comparisons.
        tests: Comparisons made.
        simulated: int[simulated_studies], counts of studies in which nothing differs.
    """
    resamples = len(simulated)
    # Phipson and Smyth (2010): adding one keeps a Monte-Carlo p-value valid and above 0.
    p = (1 + int((simulated >= observed).sum())) / (1 + resamples)
    return OmnibusCount(
        observed, tests, float(simulated.mean()), int(simulated.max()), p, resamples
    )


def simulate_counts(
    items: SampleMoments,
    pairs: Sequence[tuple[int, int]],
    alpha: float,
    rng: np.random.Generator,
    resamples: int,
) -> NDArray[np.int64]:
    """Simulate how many Welch tests are significant among normal samples of equal means.

    Deviations estimated from few values are imprecise; pass those from `shrink_deviations`.

    Args:
        items: Moments of k samples; only deviations and sizes are used.
        pairs: Indices of the samples compared; one may be in several pairs.
        alpha: Level of each test.
        rng: Source of the draws.
        resamples: Number of simulated studies.

    Returns:
        int[resamples].
    """
    first, second = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    sd, n = np.nan_to_num(items.sd), np.maximum(items.n, 2)
    counts = []
    for size in _split_into_chunks(resamples, len(sd)):
        # Mean and variance of a normal sample are independent: normal, and chi-square / (n - 1).
        mean = rng.standard_normal((size, len(sd))) * sd / np.sqrt(n)
        error = sd**2 * rng.chisquare(n - 1, (size, len(sd))) / (n - 1) / n
        counts.append(_count_significant(mean, error, n, first, second, alpha))
    return np.concatenate(counts)


def shrink_deviations(items: SampleMoments) -> SampleMoments:
    """Shrink each variance half-way to the pooled variance of all samples.

    Deviations estimated from few values scatter more than the true ones, and many comparisons
    then depend on one sample; equal deviations scatter less than the true ones. The false positive
    rate of shrinking half-way is measured by `benchmarks/omnibus_rates.py`.
    """
    weights = np.where(np.isnan(items.sd), 0.0, np.maximum(items.n - 1, 0))
    common = float(np.nansum(weights * items.sd**2) / max(1.0, float(weights.sum())))
    return SampleMoments(items.mean, np.sqrt((np.nan_to_num(items.sd) ** 2 + common) / 2), items.n)


def _count_significant(
    mean: FloatArray,
    error: FloatArray,
    n: FloatArray,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    alpha: float,
) -> NDArray[np.int64]:
    one, two = error[:, first], error[:, second]
    small = one**2 / (n[first] - 1) + two**2 / (n[second] - 1)
    p = compute_welch_p(mean[:, first] - mean[:, second], one + two, small)
    return np.asarray((p < alpha).sum(axis=1), dtype=np.int64)


def compute_welch_p(difference: FloatArray, error: FloatArray, small: FloatArray) -> FloatArray:
    """Return Welch's p-values; `error` is squared, and the freedom is `error**2 / small`.

    Two samples without deviation differ with certainty, or not at all.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # The lower tail: one minus the upper share would round small p-values to 0.
        p = 2 * special.stdtr(error**2 / small, -np.abs(difference) / np.sqrt(error))
    return np.where(error == 0, np.where(difference == 0, 1.0, 0.0), p)


def _split_into_chunks(total: int, width: int) -> list[int]:
    size = max(1, _CHUNK_SIZE // max(1, width))
    return [min(size, total - start) for start in range(0, total, size)]


def compute_label_count_distribution(found: Sequence[FloatArray]) -> FloatArray:
    """Compute the distribution of how often one of several exchangeable labels is involved.

    Args:
        found: Per setting float[k], how often each of its k labels is involved; labels are
            permuted independently in each setting.

    Returns:
        float[max + 1], probability of each number for any one label: the convolution of the
        settings' distributions.
    """
    chances = np.ones(1)
    for counts in found:
        values = np.asarray(counts, dtype=np.int64)
        chances = np.convolve(chances, np.bincount(values) / len(values))
    return chances
