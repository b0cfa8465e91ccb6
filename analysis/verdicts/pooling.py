"""How far two frameworks are apart over all tasks, and in each task in the light of the others."""

import collections
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from analysis.data.runs import Cell
from analysis.stats.moments import stack
from analysis.stats.pairwise import contrast, holm
from analysis.stats.pooling import LEAST, Pooled, pool
from analysis.verdicts.consistency import PairVerdict

Key = tuple[str, str, str, str, str, str]  # study, algorithm, variant, hps, both frameworks


@dataclasses.dataclass(frozen=True, eq=False)
class PooledPair:
    """Two frameworks under one set of hyperparameters.

    Attributes:
        items: The verdict in each task that went in.
        scales: Units of return that are 1 here: the way that margins are a share of.
        pooled: Differences, first minus second, in these units.
        p_holm: P-value of "the mean over tasks is 0", corrected over the pairs of the algorithm
            in this study and variant.
    """

    items: tuple[PairVerdict, ...]
    scales: tuple[float, ...]
    pooled: Pooled
    p_holm: float

    @property
    def cell(self) -> Cell:
        """The setting, without a task."""
        return dataclasses.replace(self.items[0].cell, env="")


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
            found[cell.study, cell.algorithm, cell.variant, cell.hps, *pair].append(item)
    whole = [(key, found[key]) for key in sorted(found) if len(found[key]) >= LEAST]
    pairs: list[PooledPair] = []
    for _, members in itertools.groupby(whole, key=lambda entry: entry[0][:3]):
        family = [(own, *_pooled(own)) for _, own in members]
        corrected = holm([pooled.p for _, _, pooled in family])
        pairs += [
            PooledPair(tuple(own), scales, pooled, float(p))
            for (own, scales, pooled), p in zip(family, corrected, strict=True)
        ]
    return tuple(pairs)


def _pooled(items: Sequence[PairVerdict]) -> tuple[tuple[float, ...], Pooled]:
    scales = np.array([abs(item.margin.reference - item.margin.zero) for item in items])
    differences = np.array([item.difference for item in items]) / scales
    variances = np.array([_variance(item) for item in items]) / scales**2
    freedom = contrast(
        [stack([item.first.moments for item in items])],
        [stack([item.second.moments for item in items])],
    ).freedom
    return tuple(map(float, scales)), pool(differences, variances, freedom)


def _variance(item: PairVerdict) -> float:
    """Squared error of a difference; NaN with one seed."""
    return float(item.first.moments.squared_error + item.second.moments.squared_error)
