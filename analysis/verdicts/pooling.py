"""How far two frameworks are apart over all tasks, and in each task in the light of the others."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from analysis.stats.pairwise import contrast
from analysis.stats.pooling import LEAST, Pooled, pool
from analysis.verdicts.consistency import PairVerdict

Key = tuple[str, str, str, str, str, str]  # study, algorithm, hps, variant, both frameworks


@dataclasses.dataclass(frozen=True, eq=False)
class PooledPair:
    """Two frameworks under one set of hyperparameters.

    Attributes:
        items: The verdict in each task that went in.
        scales: Units of return that are 1 here: the way that margins are a share of.
        pooled: Differences, first minus second, in these units.
    """

    items: tuple[PairVerdict, ...]
    scales: tuple[float, ...]
    pooled: Pooled


def pooled_pairs(items: Sequence[PairVerdict]) -> tuple[PooledPair, ...]:
    """Pools every pair of frameworks over the tasks of an algorithm and set of hyperparameters.

    Tasks without a deviation on either side, or with one seed, do not go in; where fewer than
    four are left, nothing is pooled.

    Args:
        items: Verdicts on pairs.
    """
    found: dict[Key, list[PairVerdict]] = collections.defaultdict(list)
    for item in items:
        cell, pair = item.cell, (item.first.framework, item.second.framework)
        if _variance(item) > 0 and item.margin.reference != item.margin.zero:
            found[cell.study, cell.algorithm, cell.hps, cell.variant, *pair].append(item)
    return tuple(_pooled(found[key]) for key in sorted(found) if len(found[key]) >= LEAST)


def _pooled(items: Sequence[PairVerdict]) -> PooledPair:
    scales = np.array([abs(item.margin.reference - item.margin.zero) for item in items])
    differences = np.array([item.difference for item in items]) / scales
    variances = np.array([_variance(item) for item in items]) / scales**2
    freedom = [
        float(contrast([item.first.moments], [item.second.moments]).freedom) for item in items
    ]
    pooled = pool(differences, variances, np.array(freedom))
    return PooledPair(tuple(items), tuple(map(float, scales)), pooled)


def _variance(item: PairVerdict) -> float:
    """Squared error of a difference; NaN with one seed."""
    return float(item.first.moments.squared_error + item.second.moments.squared_error)
