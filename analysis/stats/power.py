"""How many seeds decide a comparison, if the measured means and deviations are the true ones."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from analysis.stats.moments import Floats

POWER = 0.8
MOST_SEEDS = 1000


def difference_power(
    gap: ArrayLike, sds: tuple[ArrayLike, ArrayLike], n: ArrayLike, alpha: ArrayLike
) -> Floats:
    """Chance that Welch's two-sided test finds a true difference.

    From the noncentral t distribution with Satterthwaite's degrees of freedom.

    Args:
        gap: float[...], true difference of means.
        sds: The two true standard deviations, each float[...].
        n: float[...], seeds per framework, at least 2.
        alpha: float[...], level of the test.
    """
    error, freedom = _error(sds, n)
    critical = stats.t.isf(np.asarray(alpha) / 2, freedom)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.abs(gap) / error
    shift = np.minimum(shift, 30.0)  # beyond that, scipy's series are slow and the power is 1
    # scipy gives NaN for the far tail on the other side where that is next to nothing.
    wrong_side = np.nan_to_num(stats.nct.cdf(-critical, freedom, shift))
    power = stats.nct.sf(critical, freedom, shift) + wrong_side
    power = np.where(shift > critical + 8, 1.0, power)
    return np.where(error == 0, np.asarray(gap) != 0, power).astype(np.float64)


def equivalence_power(
    gap: ArrayLike,
    sds: tuple[ArrayLike, ArrayLike],
    n: ArrayLike,
    alpha: ArrayLike,
    margin: ArrayLike,
) -> Floats:
    """Chance that two one-sided tests show a true difference to be within the margin.

    Args:
        gap: float[...], true difference of means.
        sds: The two true standard deviations, each float[...].
        n: float[...], seeds per framework, at least 2.
        alpha: float[...], level of the test.
        margin: float[...], largest difference that counts as none.
    """
    error, freedom = _error(sds, n)
    critical = stats.t.isf(np.asarray(alpha), freedom)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Seen from the nearer end; the chance to miss the farther one is taken off.
        near = (np.asarray(margin) - np.abs(gap)) / error - critical
        far = (np.asarray(margin) + np.abs(gap)) / error - critical
    power = np.maximum(0.0, stats.t.cdf(near, freedom) + stats.t.cdf(far, freedom) - 1)
    return np.where(error == 0, np.abs(gap) < np.asarray(margin), power).astype(np.float64)


def seeds_to_decide(
    gap: Floats, sds: tuple[Floats, Floats], alpha: Floats, margin: Floats, power: float = POWER
) -> Floats:
    """Seeds per framework after which a verdict, either way, is likely.

    Args:
        gap: float[k], differences of means.
        sds: The two standard deviations, each float[k].
        alpha: float[k], levels of the tests.
        margin: float[k], margins of equivalence.
        power: Chance of a verdict asked for.

    Returns:
        float[k], whole numbers from 2 to `MOST_SEEDS`; infinite where more are needed, NaN
        where a deviation is not known.
    """
    sizes = _grid()
    shape = (len(sizes), 1)
    n = sizes.reshape(shape)
    chance = np.maximum(
        difference_power(gap, sds, n, alpha), equivalence_power(gap, sds, n, alpha, margin)
    )
    enough = chance >= power
    needed = np.where(enough.any(axis=0), sizes[enough.argmax(axis=0)], np.inf)
    unknown = np.isnan(gap) | np.isnan(sds[0]) | np.isnan(sds[1])
    return np.where(unknown, np.nan, needed)


def _grid() -> Floats:
    """Every size up to 50, then steps of about 3%, rounded up: more is not known anyway."""
    coarse = np.unique(np.ceil(np.geomspace(50, MOST_SEEDS, 100)))
    return np.concatenate([np.arange(2.0, 50.0), coarse])


def _error(sds: tuple[ArrayLike, ArrayLike], n: ArrayLike) -> tuple[Floats, Floats]:
    first, second = (np.asarray(sd, dtype=np.float64) ** 2 / np.asarray(n) for sd in sds)
    total = first + second
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (np.asarray(n) - 1) * total**2 / (first**2 + second**2)
    return np.sqrt(total), np.where(total == 0, np.inf, freedom)
