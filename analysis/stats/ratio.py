"""The ratio of two means of values that belong together one by one."""

import dataclasses
import math

import numpy as np
from scipy import stats

from analysis.stats.moments import Floats


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A mean as a share of another one.

    Attributes:
        n: Pairs.
        share: First mean over second.
        low: Lower end of its interval; NaN where the interval has no ends, since the second mean
            may as well be 0, or where there are fewer than three pairs.
        high: Upper end.
    """

    n: int
    share: float
    low: float
    high: float

    @property
    def is_bounded(self) -> bool:
        """Whether the data tell between what the share lies."""
        return math.isfinite(self.low) and math.isfinite(self.high)


def ratio_of_means(first: Floats, second: Floats, level: float = 0.95) -> Ratio:
    """The share with Fieller's interval, exact for pairs that are normal together.

    The ends are the values r at which the mean of `first - r * second` is just not significant:
    Fieller, E. C. (1954), Some problems in interval estimation, JRSS B 16 (2), section 3.

    Args:
        first: float[n].
        second: float[n], in the order of the first.
        level: Level of the interval.
    """
    n, above, below = len(first), float(np.mean(first)), float(np.mean(second))
    share = above / below if below else math.nan
    if n < 3:
        return Ratio(n, share, math.nan, math.nan)
    (v11, v12), (_, v22) = (np.cov(first, second, ddof=1) / n).tolist()
    t2 = float(stats.t.ppf((1 + level) / 2, n - 1)) ** 2
    # (above - r below)^2 = t^2 (v11 - 2 r v12 + r^2 v22), as a r^2 - 2 b r + c = 0.
    a, b, c = below**2 - t2 * v22, above * below - t2 * v12, above**2 - t2 * v11
    root = b * b - a * c
    if a <= 0 or root < 0:
        return Ratio(n, share, math.nan, math.nan)
    return Ratio(n, share, (b - math.sqrt(root)) / a, (b + math.sqrt(root)) / a)
