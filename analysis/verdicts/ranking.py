"""Ranking verdicts (RQ3): whether frameworks rank the algorithms in the same order."""

import collections
import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from parallax.analysis.data.settings import describe_result_versions
from parallax.analysis.labels import LIBRARY_DEFAULTS
from parallax.analysis.stats import effect_size_and_power, ranks, two_sample
from parallax.analysis.stats.moments import FloatArray, SampleMoments, stack_moments
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

PRESERVED, MAGNITUDE_CHANGED, NOT_PRESERVED, INCONCLUSIVE = (
    "preserved",
    "magnitude changed",
    "not preserved",
    "inconclusive",
)


# Simulated samples of tied algorithms, and resamples of each.
_TIED_RESAMPLING = (300, 100)

# From the worst finding to the best, for several frameworks at once.
WORST_FIRST = (NOT_PRESERVED, MAGNITUDE_CHANGED, INCONCLUSIVE, PRESERVED)


@dataclasses.dataclass(frozen=True, eq=False)
class AlgorithmRanking:
    """Ranking of the algorithms of one framework in one task.

    Attributes:
        groups: One per algorithm, in the order of `RankingVerdict.algorithms`.
        ranks: float[k], 1 is best; ties share the mean of their ranks.
        signs: float[k, k], 1 where the row's algorithm is significantly better than the
            column's, -1 where it is worse, 0 where they tie.
    """

    framework: str
    groups: tuple[ScoreGroup, ...]
    ranks: FloatArray
    signs: FloatArray

    @property
    def moments(self) -> SampleMoments:
        """Moments with float[k] arrays."""
        return stack_moments([group.moments for group in self.groups])

    def compute_gap(self, i: int, j: int) -> tuple[float, float, float]:
        """Return the mean of algorithm i - that of algorithm j, with Welch's 95% interval."""
        first, second = (stack_moments([self.groups[k].moments]) for k in (i, j))
        item = two_sample.compute_contrast([first], [second])
        low, high = two_sample.compute_contrast_bounds(item)
        return float(item.difference[0]), float(low[0]), float(high[0])


@dataclasses.dataclass(frozen=True)
class RankPair:
    """Verdict on two frameworks' rankings of the same algorithms.

    Attributes:
        verdict: `preserved`, `magnitude changed`, `not preserved` or `inconclusive`.
        tau_b: Kendall's tau-b of the rankings with ties; NaN if one is all ties.
        tau_b_means: Kendall's tau-b of the order of the means.
        same_order: Bootstrap probability that no two algorithms' means are in opposite orders.
        chance: `same_order` as it would be if all algorithms tied.
        reversed_pairs: Pairs of algorithms separated in opposite directions.
        changed_gaps: Pairs of algorithms whose gap differs significantly, and that are separated
            in one of the two.
        seeds_needed: Seeds per framework and algorithm that would separate two algorithms in both
            with the requested power, if the measured values are the true ones; NaN if decided.
    """

    first: str
    second: str
    verdict: str
    tau_b: float
    tau_b_means: float
    same_order: float
    chance: ranks.SameOrderChance
    reversed_pairs: tuple[tuple[str, str], ...]
    changed_gaps: tuple[tuple[str, str], ...]
    seeds_needed: float


@dataclasses.dataclass(frozen=True, eq=False)
class RankingVerdict:
    """Verdict on all frameworks' rankings in one task under one configuration.

    Attributes:
        hps: Hyperparameters of all algorithms, or `library defaults`.
        algorithms: At least two, ranked by every framework listed.
        verdict: The worst over the pairs, `not preserved` being the worst.
        same_order: Bootstrap probability of the same order in all frameworks.
        chance: `same_order` as it would be if all algorithms tied.
        left_out: Frameworks without a run of some algorithm, with the algorithms they lack.
    """

    study: str
    env: str
    hps: str
    variant: str
    algorithms: tuple[str, ...]
    rankings: tuple[AlgorithmRanking, ...]
    pairs: tuple[RankPair, ...]
    verdict: str
    same_order: float
    chance: ranks.SameOrderChance
    left_out: tuple[str, ...]

    @functools.cached_property
    def versions(self) -> str:
        """Sentence on packages of which runs have several versions; empty if none."""
        groups = (group for one in self.rankings for group in one.groups)
        return describe_result_versions(run for group in groups for run in group.runs)


def judge_rankings(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[RankingVerdict, ...]:
    """Judge every task and configuration in which two frameworks ran two algorithms.

    Two algorithms are separated where Welch's test is significant after Holm's correction
    over the framework's pairs of algorithms. For two frameworks the verdict is

    - `not preserved`: some two algorithms are separated in both, in opposite directions;
    - otherwise `magnitude changed`: some gap between two algorithms differs between the
      frameworks (Welch's test on the four means, Holm-corrected over the gaps), and the two
      algorithms are separated in at least one framework;
    - otherwise `preserved`: some two algorithms are separated in the same direction in both, and
      no two are separated in one framework while their means are reversed in the other;
    - otherwise `inconclusive`.
    """
    found: dict[tuple[str, str, str, str], dict[str, dict[str, ScoreGroup]]] = (
        collections.defaultdict(lambda: collections.defaultdict(dict))
    )
    for group in groups:
        for cell in group.cells:
            key = (cell.study, cell.env, cell.hps, cell.variant)
            own = found[key][group.framework]  # also without a run, so that it is named
            if group.n:
                own[cell.algorithm] = group
    keys = sorted(found, key=lambda key: (key[:2], key[2] == LIBRARY_DEFAULTS, key[2:]))
    verdicts = (_judge_ranking(key, found[key], options) for key in keys)
    return tuple(verdict for verdict in verdicts if verdict is not None)


def _judge_ranking(
    key: tuple[str, str, str, str],
    table: Mapping[str, Mapping[str, ScoreGroup]],
    options: VerdictOptions,
) -> RankingVerdict | None:
    algorithms = tuple(sorted(set().union(*table.values())))
    whole = [name for name in sorted(table) if len(table[name]) == len(algorithms)]
    if len(algorithms) < 2 or len(whole) < 2:
        return None
    ranked = [
        _rank_algorithms(name, [table[name][a] for a in algorithms], options) for name in whole
    ]
    rng = np.random.default_rng(options.seed)
    orders = [_bootstrap_orders(item, options, rng) for item in ranked]
    tied = [ranks.simulate_tied_orders(item.moments, *_TIED_RESAMPLING, rng) for item in ranked]
    pairs = tuple(
        _compare_rankings(
            (ranked[i], ranked[j]),
            algorithms,
            float(ranks.compute_same_order_probability([orders[i], orders[j]])),
            ranks.compute_same_order_chance([tied[i], tied[j]]),
            options,
        )
        for i, j in itertools.combinations(range(len(ranked)), 2)
    )
    left_out = tuple(
        f"{name} (no {', '.join(sorted(set(algorithms) - set(table[name])))})"
        for name in sorted(set(table) - set(whole))
    )
    worst = min((pair.verdict for pair in pairs), key=WORST_FIRST.index)
    return RankingVerdict(
        *key,
        algorithms,
        tuple(ranked),
        pairs,
        worst,
        float(ranks.compute_same_order_probability(orders)),
        ranks.compute_same_order_chance(tied),
        left_out,
    )


def _rank_algorithms(
    framework: str, groups: Sequence[ScoreGroup], options: VerdictOptions
) -> AlgorithmRanking:
    items = stack_moments([group.moments for group in groups])
    signs = ranks.compute_separation_signs(items, options.alpha)
    return AlgorithmRanking(framework, tuple(groups), ranks.compute_mid_ranks(signs), signs)


def _bootstrap_orders(
    item: AlgorithmRanking, options: VerdictOptions, rng: np.random.Generator
) -> FloatArray:
    scores = [group.scores for group in item.groups]
    means = ranks.bootstrap_means(item.moments, scores, options.resamples, rng)
    return ranks.compute_difference_signs(means)


def _compare_rankings(
    two: tuple[AlgorithmRanking, AlgorithmRanking],
    names: Sequence[str],
    same_order: float,
    chance: ranks.SameOrderChance,
    options: VerdictOptions,
) -> RankPair:
    first, second = two
    a, b = first.moments, second.moments
    means = ranks.compute_difference_signs(a.mean), ranks.compute_difference_signs(b.mean)
    pairs = list(itertools.combinations(range(len(names)), 2))
    product = first.signs * second.signs
    reverse = [pair for pair in pairs if product[pair] < 0]
    gaps = ranks.compute_gap_p(a, b)
    separated = (first.signs != 0) | (second.signs != 0)
    changed = [pair for pair in pairs if gaps[pair][1] < options.alpha and separated[pair]]
    against = (first.signs * means[1] < 0) | (second.signs * means[0] < 0)
    if reverse:
        verdict = NOT_PRESERVED
    elif changed:
        verdict = MAGNITUDE_CHANGED
    elif (product > 0).any() and not against.any():
        verdict = PRESERVED
    else:
        verdict = INCONCLUSIVE
    return RankPair(
        first.framework,
        second.framework,
        verdict,
        ranks.compute_tau_b(first.signs, second.signs),
        ranks.compute_tau_b(*means),
        same_order,
        chance,
        tuple((names[i], names[j]) for i, j in reverse),
        tuple((names[i], names[j]) for i, j in changed),
        _estimate_seeds_needed((a, b), pairs, options) if verdict == INCONCLUSIVE else math.nan,
    )


def _estimate_seeds_needed(
    two: tuple[SampleMoments, SampleMoments],
    pairs: Sequence[tuple[int, int]],
    options: VerdictOptions,
) -> float:
    """Estimate the seeds that separate some two algorithms in both frameworks.

    The level is the first one of Holm's procedure, alpha / pairs.
    """
    i, j = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    # Both frameworks have to succeed independently: sqrt(power) each.
    power = np.sqrt(options.power)
    level = np.full(len(pairs), options.alpha / len(pairs))
    # A margin of 0: only a difference separates two algorithms, not an equivalence.
    needed = [
        effect_size_and_power.estimate_seeds_needed(
            item.mean[i] - item.mean[j], (item.sd[i], item.sd[j]), level, np.zeros(len(i)), power
        )
        for item in two
    ]
    worse = np.maximum(*needed)
    return float("nan") if np.isnan(worse).all() else float(np.nanmin(worse))
