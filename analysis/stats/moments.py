"""Mean, standard deviation and count of samples, measured or recovered from a printed interval."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Z_975 = 1.959963984540054  # 97.5% quantile of the normal distribution


@dataclasses.dataclass(frozen=True, eq=False)
class SampleMoments:
    """Mean, standard deviation and size of samples, for one sample or for many at once.

    Attributes:
        mean: float[...], means; NaN where n is 0.
        sd: float[...], sample standard deviations (n - 1); NaN where n is below 2.
        n: float[...], numbers of values.
    """

    mean: FloatArray
    sd: FloatArray
    n: FloatArray

    @property
    def squared_error(self) -> FloatArray:
        """float[...], estimated variance of the mean, NaN where n is below 2."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.sd**2 / self.n)


def compute_moments(values: FloatArray) -> SampleMoments:
    """Compute the moments of one sample.

    Args:
        values: float[n], finite.
    """
    n = len(values)
    mean = float(values.mean()) if n else math.nan
    sd = float(values.std(ddof=1)) if n > 1 else math.nan
    # The mean of equal values is rarely exact: constant samples would get a deviation above 0.
    if n > 1 and float(np.ptp(values)) == 0:
        mean, sd = float(values[0]), 0.0
    return SampleMoments(np.float64(mean), np.float64(sd), np.float64(n))  # type: ignore[arg-type]


def stack_moments(items: Sequence[SampleMoments]) -> SampleMoments:
    """Stack the moments of many samples into arrays with one more dimension."""
    return SampleMoments(
        np.array([item.mean for item in items], dtype=np.float64),
        np.array([item.sd for item in items], dtype=np.float64),
        np.array([item.n for item in items], dtype=np.float64),
    )


def moments_from_thesis_interval(
    mean: FloatArray, half_width: FloatArray, n: FloatArray
) -> SampleMoments:
    """Recover moments from an interval mean +- 1.96 d / sqrt(n) with the population deviation d.

    Args:
        mean: float[...], means.
        half_width: float[...], half-width of the interval.
        n: float[...], number of values in the formula, at least 2.
    """
    mean, half_width, n = (np.asarray(item, dtype=np.float64) for item in (mean, half_width, n))
    return moments_from_population_sd(mean, half_width * np.sqrt(n) / 1.96, n)


def moments_from_population_sd(
    mean: FloatArray, population_sd: FloatArray, n: FloatArray
) -> SampleMoments:
    """Return moments with sample deviations s = d sqrt(n / (n - 1)) of population deviations d."""
    mean, d, n = (np.asarray(item, dtype=np.float64) for item in (mean, population_sd, n))
    return SampleMoments(mean, d * np.sqrt(n / (n - 1)), n)
