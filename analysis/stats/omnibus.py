"""Whether there is any difference among many comparisons, none of which may stand out by itself.

The number of comparisons that are significant one by one is held against what it is where nothing
differs. Comparisons share samples, so that number is no binomial one: it is counted in made-up
results of whole studies, in which the dependence is kept.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from parallax.analysis.stats.moments import FloatArray, SampleMoments

_CHUNK_SIZE = 2_000_000  # numbers held at a time

IndexArray = NDArray[np.intp]


@dataclasses.dataclass(frozen=True)
class OmnibusCount:
    """How many comparisons are significant one by one, and how many are where nothing differs.

    Attributes:
        observed: Significant ones.
        tests: Comparisons that could be made.
        expected_under_null: Significant ones on average where nothing differs.
        max_under_null: The most of any made-up study.
        p: Chance of as many or more where nothing differs.
        simulated_studies: Number of simulated studies.
    """

    observed: int
    tests: int
    expected_under_null: float
    max_under_null: int
    p: float
    simulated_studies: int


def evaluate_count(observed: int, tests: int, made_up: NDArray[np.int64]) -> OmnibusCount:
    """Holds a count against those of made-up studies.

    Args:
        observed: Significant comparisons.
        tests: Comparisons made.
        made_up: int[resamples], the same in studies where nothing differs.
    """
    resamples = len(made_up)
    p = (1 + int((made_up >= observed).sum())) / (1 + resamples)
    return OmnibusCount(observed, tests, float(made_up.mean()), int(made_up.max()), p, resamples)


def simulate_counts(
    items: SampleMoments,
    pairs: Sequence[tuple[int, int]],
    alpha: float,
    rng: np.random.Generator,
    resamples: int,
) -> NDArray[np.int64]:
    """Significant Welch tests among normal samples of equal means with the deviations given.

    Deviations of few values are rough: let them be those of `steadied`.

    Args:
        items: Moments of k samples, of which the deviations and sizes count.
        pairs: Which samples are compared; one may be in several pairs.
        alpha: Level of each test.
        rng: Source of the draws.
        resamples: Made-up studies.

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
    """The same samples with deviations half-way, in variance, to what they have in common.

    Taken as they are, deviations of few values are more unequal than the true ones, and many
    comparisons then hang on one sample; taken as equal, they are less. What half-way does to the
    rate of false findings is measured by `benchmarks/existence.py`.

    Args:
        items: Samples of one setting.
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
    # Two samples without deviation differ for certain, or not at all.
    p = np.where(np.isnan(freedom), np.where(np.isinf(t), 0.0, 1.0), 2 * special.stdtr(freedom, -t))
    return np.asarray((p < alpha).sum(axis=1), dtype=np.int64)


def _split_into_chunks(total: int, width: int) -> list[int]:
    size = max(1, _CHUNK_SIZE // max(1, width))
    return [min(size, total - start) for start in range(0, total, size)]


def compute_label_count_distribution(found: Sequence[FloatArray]) -> FloatArray:
    """Chances of how often one of several labels is involved, where labels mean nothing.

    Args:
        found: Per setting float[k], how often each of its k labels is involved in something;
            which label is which is drawn anew in each setting.

    Returns:
        float[most + 1], chance of each number for any one label.
    """
    chances = np.ones(1)
    for counts in found:
        values = np.asarray(counts, dtype=np.int64)
        chances = np.convolve(chances, np.bincount(values) / len(values))
    return chances
