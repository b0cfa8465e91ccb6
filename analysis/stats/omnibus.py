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

from analysis.stats.moments import Floats, Moments

_CHUNK = 2_000_000  # numbers held at a time

Index = NDArray[np.intp]


@dataclasses.dataclass(frozen=True)
class Count:
    """How many comparisons are significant one by one, and how many are where nothing differs.

    Attributes:
        observed: Significant ones.
        tests: Comparisons that could be made.
        mean: Significant ones on average where nothing differs.
        most: The most of any made-up study.
        p: Chance of as many or more where nothing differs.
        resamples: Made-up studies.
    """

    observed: int
    tests: int
    mean: float
    most: int
    p: float
    resamples: int


def count_test(observed: int, tests: int, made_up: NDArray[np.int64]) -> Count:
    """Holds a count against those of made-up studies.

    Args:
        observed: Significant comparisons.
        tests: Comparisons made.
        made_up: int[resamples], the same in studies where nothing differs.
    """
    resamples = len(made_up)
    p = (1 + int((made_up >= observed).sum())) / (1 + resamples)
    return Count(observed, tests, float(made_up.mean()), int(made_up.max()), p, resamples)


@dataclasses.dataclass(frozen=True, eq=False)
class Deviations:
    """What the true deviations of samples may be, but for a factor that a setting's samples share.

    Attributes:
        usual: float[k], in units of the setting's own; 0 where a sample does not vary.
        unsure: float[k], deviation of their logarithms around that.
    """

    usual: Floats
    unsure: Floats


def plausible_deviations(settings: Sequence[Moments]) -> list[Deviations]:
    """How far apart the true deviations are within settings, as far as all settings tell.

    Sample deviations of few values are more unequal than the true ones. What their logarithms
    scatter within settings beyond what normal samples of one deviation would is taken for true
    scatter, and each sample's own deviation is drawn towards its setting's by as much as the rest
    (empirical Bayes, as in Smyth, Statistical Applications in Genetics and Molecular Biology 3,
    2004, for samples of one setting).

    Args:
        settings: Samples of each setting; those with one value or none count as not varying.
    """
    known = [np.nan_to_num(item.sd) > 0 for item in settings]
    logs, errors = [], []
    for item, varies in zip(settings, known, strict=True):
        half = (item.n[varies] - 1) / 2
        # A sample variance is the true one times chi-square over its degrees of freedom.
        logs.append(2 * np.log(item.sd[varies]) - special.digamma(half) + np.log(half))
        errors.append(special.polygamma(1, half))
    free = sum(max(0, len(own) - 1) for own in logs)
    squares = sum(float(((own - own.mean()) ** 2).sum()) for own in logs if len(own))
    chance = sum((len(own) - 1) * float(own.mean()) for own in errors if len(own))
    scatter = max(0.0, squares - chance) / max(1, free)
    found = []
    for item, varies, own, error in zip(settings, known, logs, errors, strict=True):
        share = scatter / (scatter + error)
        usual, unsure = np.zeros(item.sd.shape), np.zeros(item.sd.shape)
        usual[varies] = np.exp(share * (own - own.mean()) / 2) if len(own) else 0.0
        unsure[varies] = np.sqrt(share * error) / 2
        found.append(Deviations(usual, unsure))
    return found


def simulated_counts(
    sizes: Floats,
    deviations: Deviations,
    pairs: Sequence[tuple[int, int]],
    alpha: float,
    rng: np.random.Generator,
    resamples: int,
) -> NDArray[np.int64]:
    """Significant Welch tests among normal samples of equal means.

    Args:
        sizes: float[k], values in each of k samples; none is taken for less than 2.
        deviations: Of these samples; drawn anew in each made-up study.
        pairs: Which samples are compared; one may be in several pairs.
        alpha: Level of each test.
        rng: Source of the draws.
        resamples: Made-up studies.

    Returns:
        int[resamples].
    """
    if not pairs:
        return np.zeros(resamples, dtype=np.int64)
    first, second = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    n, k = np.maximum(sizes, 2), len(sizes)
    critical = _critical_values(n, alpha)
    counts = []
    for size in _chunks(resamples, k):
        apart = np.exp(deviations.unsure * rng.standard_normal((size, k)))
        variance = (deviations.usual * apart) ** 2 / n  # of means
        mean = rng.standard_normal((size, k)) * np.sqrt(variance)
        error = variance * rng.chisquare(n - 1, (size, k)) / (n - 1)
        counts.append(_significant(mean, error, n, first, second, critical))
    return np.concatenate(counts)


Critical = tuple[Floats, Floats]  # 1 / degrees of freedom, increasing, and Student's quantiles


def _critical_values(n: Floats, alpha: float) -> Critical:
    """Quantiles at the degrees of freedom that Welch's test can have, to interpolate between."""
    inverse = np.linspace(1 / (2 * n.max() - 2), 1 / (n.min() - 1), 1_000)
    return inverse, special.stdtrit(1 / inverse, 1 - alpha / 2)


def _significant(
    mean: Floats, error: Floats, n: Floats, first: Index, second: Index, critical: Critical
) -> NDArray[np.int64]:
    a, b = error[:, first], error[:, second]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = a / (a + b)
        inverse = share**2 / (n[first] - 1) + (1 - share) ** 2 / (n[second] - 1)
        t = np.abs(mean[:, first] - mean[:, second]) / np.sqrt(a + b)
    # Two samples without deviation have equal means here: t is not a number, and none is found.
    return np.asarray((t > np.interp(inverse, *critical)).sum(axis=1), dtype=np.int64)


def _chunks(total: int, width: int) -> list[int]:
    size = max(1, _CHUNK // max(1, width))
    return [min(size, total - start) for start in range(0, total, size)]


def shared_counts(found: Sequence[Floats]) -> Floats:
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
