"""Sensitivity analyses of consistency: paired by seed, and pooled over tasks."""

import collections
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats.moments import stack_moments
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.pooling import MIN_TASKS, PooledDifferences, pool_differences
from parallax.analysis.stats.two_sample import (
    PairedDifference,
    compute_contrast,
    compute_paired_difference,
)
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.endpoints import find_score_scale
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

MIN_PAIRS = 2  # pairs


@dataclasses.dataclass(frozen=True, eq=False)
class PairedVerdict:
    """Paired comparison of two frameworks in one setting, over shared seeds.

    Attributes:
        item: The unpaired verdict.
        p_holm: p-value of `result` after Holm's correction over the pairs of the family.
    """

    item: PairVerdict
    seeds: tuple[int, ...]
    result: PairedDifference
    p_holm: float


def judge_paired_seeds(items: Sequence[PairVerdict]) -> tuple[PairedVerdict, ...]:
    """Compare frameworks seed by seed, where their last evaluations share initial states.

    Initial states follow from the task, the seed, `evaluation_seed` of the study, the index of the
    evaluation and the number of episodes. Pairs without two such seeds are left out.
    """
    found: dict[str, list[tuple[PairVerdict, tuple[int, ...], PairedDifference]]] = {}
    for item in items:
        first, second = (_index_by_initial_states(group) for group in (item.first, item.second))
        shared = sorted(set(first) & set(second))
        if len(shared) >= MIN_PAIRS:
            one, two = (np.array([scores[key] for key in shared]) for scores in (first, second))
            entry = item, tuple(key[0] for key in shared), compute_paired_difference(one, two)
            found.setdefault(item.family, []).append(entry)
    judged = {
        id(item): PairedVerdict(item, seeds, result, float(p))
        for family in found.values()
        for (item, seeds, result), p in zip(
            family, adjust_holm([result.p for _, _, result in family]), strict=True
        )
    }
    return tuple(judged[id(item)] for item in items if id(item) in judged)


def _index_by_initial_states(group: ScoreGroup) -> dict[tuple[int, int, int, int], float]:
    """Index scores by seed, evaluation seed, number of evaluations and of episodes."""
    if group.scores is None:
        return {}
    return {
        (run.id.seed, int(run.spec["evaluation_seed"]), len(run.timesteps), run.results.shape[1]): (
            float(score)
        )
        for run, score in zip(group.runs, group.scores, strict=False)
        if run.id.seed is not None and isinstance(run.spec.get("evaluation_seed"), int)
    }


PooledPairKey = tuple[
    str, str, str, str, str, str
]  # study, algorithm, variant, hps, both frameworks


@dataclasses.dataclass(frozen=True, eq=False)
class PooledPair:
    """Differences of two frameworks under one recipe, pooled over tasks.

    Attributes:
        scales: Units of return per unit here, the scale of scores over tasks; where none is known,
            that of the margin.
        pooled: Differences, first minus second, in these units.
        p_holm: P-value of "the mean over tasks is 0", corrected over the pairs of the algorithm
            in this study and variant.
    """

    items: tuple[PairVerdict, ...]
    scales: tuple[float, ...]
    pooled: PooledDifferences
    p_holm: float

    @property
    def cell(self) -> StudyCell:
        """The setting, without a task."""
        return dataclasses.replace(self.items[0].cell, env="")


def pool_pairs(items: Sequence[PairVerdict], options: VerdictOptions) -> tuple[PooledPair, ...]:
    """Pool every pair of frameworks over the tasks of an algorithm and recipe.

    Tasks in which neither side varies, or one has a single seed, are left out; at least four must
    remain.
    """
    found: dict[PooledPairKey, list[PairVerdict]] = collections.defaultdict(list)
    for item in items:
        cell, pair = item.cell, (item.first.framework, item.second.framework)
        if _get_variance(item) > 0 and _get_width(item, options) > 0:
            found[cell.study, cell.algorithm, cell.variant, cell.hps, *pair].append(item)
    whole = [(key, found[key]) for key in sorted(found) if len(found[key]) >= MIN_TASKS]
    pairs: list[PooledPair] = []
    for _, members in itertools.groupby(whole, key=lambda entry: entry[0][:3]):
        family = [(own, *_pool_tasks(own, options)) for _, own in members]
        corrected = adjust_holm([pooled.p for _, _, pooled in family])
        pairs += [
            PooledPair(tuple(own), scales, pooled, float(p))
            for (own, scales, pooled), p in zip(family, corrected, strict=True)
        ]
    return tuple(pairs)


def _get_width(item: PairVerdict, options: VerdictOptions) -> float:
    """Return the units of return that count as 1."""
    scale = find_score_scale(item.cell, options)
    return scale.width if scale else abs(item.margin.reference - item.margin.zero)


def _pool_tasks(
    items: Sequence[PairVerdict], options: VerdictOptions
) -> tuple[tuple[float, ...], PooledDifferences]:
    scales = np.array([_get_width(item, options) for item in items])
    differences = np.array([item.difference for item in items]) / scales
    variances = np.array([_get_variance(item) for item in items]) / scales**2
    freedom = compute_contrast(
        [stack_moments([item.first.moments for item in items])],
        [stack_moments([item.second.moments for item in items])],
    ).degrees_of_freedom
    return tuple(map(float, scales)), pool_differences(differences, variances, freedom)


def _get_variance(item: PairVerdict) -> float:
    """Squared error of a difference; NaN with one seed."""
    return float(item.first.moments.squared_error + item.second.moments.squared_error)
