"""Omnibus test over many comparisons: is there any difference, even if none stands out by itself?

The test statistic is the number of comparisons that are significant without correction. Comparisons
share samples, so that this number is not binomial under the null hypothesis; its distribution is
simulated with whole studies in which nothing differs, which preserves the dependence.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from parallax.analysis.stats.moments import FloatArray, SampleMoments

_CHUNK_SIZE = 2_000_000  # numbers in memory at a time

IndexArray = NDArray[np.intp]


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
    """Compare a count of significant tests with int[studies] in which nothing differs."""
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
        mean = rng.standard_normal((size, len(sd))) * sd / np.sqrt(n)
        error = sd**2 * rng.chisquare(n - 1, (size, len(sd))) / (n - 1) / n
        counts.append(_count_significant(mean, error, n, first, second, alpha))
    return np.concatenate(counts)


def shrink_deviations(items: SampleMoments) -> SampleMoments:
    """Shrink each variance half-way to the pooled variance of all samples.

    Deviations estimated from few values scatter more than the true ones, and many comparisons
    then depend on one sample; equal deviations scatter less than the true ones. The false positive
    rate of shrinking half-way is measured by `benchmarks/existence.py`.
    """
    weights = np.where(np.isnan(items.sd), 0.0, np.maximum(items.n - 1, 0))
    common = float(np.nansum(weights * items.sd**2) / max(1.0, float(weights.sum())))
    return SampleMoments(items.mean, np.sqrt((np.nan_to_num(items.sd) ** 2 + common) / 2), items.n)


def _count_significant(
    mean: FloatArray,
    error: FloatArray,
    n: FloatArray,
    first: IndexArray,
    second: IndexArray,
    alpha: float,
) -> NDArray[np.int64]:
    a, b = error[:, first], error[:, second]
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (a + b) ** 2 / (a**2 / (n[first] - 1) + b**2 / (n[second] - 1))
        t = np.abs(mean[:, first] - mean[:, second]) / np.sqrt(a + b)
    # Two samples without deviation differ with certainty, or not at all.
    p = np.where(np.isnan(freedom), np.where(np.isinf(t), 0.0, 1.0), 2 * special.stdtr(freedom, -t))
    return np.asarray((p < alpha).sum(axis=1), dtype=np.int64)


def _split_into_chunks(total: int, width: int) -> list[int]:
    size = max(1, _CHUNK_SIZE // max(1, width))
    return [min(size, total - start) for start in range(0, total, size)]


def compute_label_count_distribution(found: Sequence[FloatArray]) -> FloatArray:
    """Compute the distribution of how often one of several exchangeable labels is involved.

    `found` has per setting float[k], how often each of its k labels is involved. Labels are
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
