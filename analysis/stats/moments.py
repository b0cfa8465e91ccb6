"""Mean, standard deviation and count of samples, measured or recovered from a printed interval."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Moments:
    """What most tests need of samples, for one sample or for many at once.

    Attributes:
        mean: float[...], means; NaN where n is 0.
        sd: float[...], sample standard deviations (n - 1); NaN where n is below 2.
        n: float[...], numbers of values.
    """

    mean: Floats
    sd: Floats
    n: Floats

    @property
    def squared_error(self) -> Floats:
        """float[...], estimated variance of the mean, NaN where n is below 2."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.sd**2 / self.n)


def moments(values: Floats) -> Moments:
    """Moments of one sample.

    Args:
        values: float[n], finite.
    """
    n = len(values)
    mean = float(values.mean()) if n else math.nan
    # A sum of equal values is rarely exact: without this, constant samples have a deviation.
    constant = n > 1 and float(np.ptp(values)) == 0
    sd = 0.0 if constant else float(values.std(ddof=1)) if n > 1 else math.nan
    if constant:
        mean = float(values[0])
    return Moments(np.float64(mean), np.float64(sd), np.float64(n))  # type: ignore[arg-type]


def stack(items: Sequence[Moments]) -> Moments:
    """Moments of many samples as arrays of one more dimension."""
    return Moments(
        np.array([item.mean for item in items], dtype=np.float64),
        np.array([item.sd for item in items], dtype=np.float64),
        np.array([item.n for item in items], dtype=np.float64),
    )


def from_thesis_interval(mean: Floats, half_width: Floats, n: Floats) -> Moments:
    """Moments behind mean +- 1.96 d / sqrt(n) with the population deviation d.

    Args:
        mean: float[...], means.
        half_width: float[...], what stands behind the sign +-.
        n: float[...], number of values in the formula, at least 2.
    """
    mean, half_width, n = (np.asarray(item, dtype=np.float64) for item in (mean, half_width, n))
    return from_population_sd(mean, half_width * np.sqrt(n) / 1.96, n)


def from_population_sd(mean: Floats, population_sd: Floats, n: Floats) -> Moments:
    """Moments with the sample deviation that belongs to a population deviation (divisor n)."""
    mean, d, n = (np.asarray(item, dtype=np.float64) for item in (mean, population_sd, n))
    return Moments(mean, d * np.sqrt(n / (n - 1)), n)
