"""Data utilisation: after how many environment steps a score is reached."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from analysis.stats.moments import Floats


@dataclasses.dataclass(frozen=True)
class Reached:
    """Steps that runs needed to reach a score.

    Attributes:
        n: Runs.
        reached: Runs that did, at one evaluation at least.
        median: Median of the steps of all, infinite where half of them or more did not.
    """

    n: int
    reached: int
    median: float


def reached(curves: Sequence[tuple[Floats, Floats]], score: float) -> Reached:
    """How many steps it took.

    Args:
        curves: Of each run steps and mean returns of its evaluations, each float[k].
        score: That is to be reached.
    """
    first = []
    for steps, returns in curves:
        above = np.flatnonzero(returns >= score)
        first.append(float(steps[above[0]]) if len(above) else math.inf)
    done = sum(math.isfinite(step) for step in first)
    return Reached(len(first), done, _median(first))


def _median(values: Sequence[float]) -> float:
    if not values:
        return math.nan
    ordered, half = sorted(values), len(values) // 2
    if len(values) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2
