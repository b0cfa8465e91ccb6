"""Analyses over all tasks, and seed by seed, that change no verdict.

Aggregates are means, profiles, probability of improvement and sample efficiency. Scores of each
task are normalized first, (score - zero) / (one - zero), on the scale of the verdicts over tasks.

The omnibus test asks whether frameworks differ at all, even if no single pair can be named. Its
statistic is the number of pairs that are significant without correction; the null distribution is
simulated (`stats/multiple_testing.py`).
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from parallax.analysis.data.runs import StudyCell, SuiteKey, VariantKey
from parallax.analysis.labels import group_items
from parallax.analysis.stats import multiple_testing
from parallax.analysis.stats.aggregates import (
    EFFICIENCY_RESAMPLES,
    AggregateScores,
    ImprovementProbability,
    PerformanceProfiles,
    SampleEfficiency,
    compute_aggregates,
    compute_improvement,
    compute_profiles,
    compute_sample_efficiency,
    thin_evaluations,
)
from parallax.analysis.stats.moments import FloatArray, stack_moments
from parallax.analysis.stats.pooling import MIN_TASKS, PooledDifferences, pool_differences
from parallax.analysis.stats.two_sample import (
    PairedDifference,
    compute_contrast,
    compute_paired_difference,
)
from parallax.analysis.verdicts.consistency import PairVerdict
from parallax.analysis.verdicts.endpoints import ScoreScale, find_score_scale, find_task_scale
from parallax.analysis.verdicts.groups import GroupPair, ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.statements import DIFFERENT

N_THRESHOLDS = 81
MAX_THRESHOLD = 2.0


@dataclasses.dataclass(frozen=True, eq=False)
class OverallScores:
    """Aggregates of the frameworks of one algorithm and recipe over all tasks.

    Attributes:
        tasks: Tasks included: those in which every framework listed has a run.
        profiles: Per framework, at 81 thresholds from 0 to 2.
        efficiency: Interquartile mean over environment steps, for frameworks whose runs share
            evaluations.
        left_out: Tasks and frameworks that are not included, with the reason.
    """

    study: str
    algorithm: str
    hps: str
    variant: str
    tasks: tuple[str, ...]
    aggregates: AggregateScores
    profiles: PerformanceProfiles
    improvement: ImprovementProbability
    efficiency: SampleEfficiency
    scales: Mapping[str, ScoreScale]
    left_out: tuple[str, ...]


def compute_overall_scores(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[OverallScores, ...]:
    """Compute aggregates for every algorithm, recipe and variant with runs.

    Published numbers without single seeds are ignored.
    """
    known = [group for group in groups if group.scores is not None]
    found = group_items(known, lambda group: group.cell.suite_key)
    results = (_compute_group_overall(key, found[key], options) for key in sorted(found))
    return tuple(result for result in results if result is not None)


def select_failed_parts(groups: Sequence[ScoreGroup]) -> list[ScoreGroup]:
    """Return the groups of every algorithm, recipe and variant in which a run failed."""
    failed = {dataclasses.replace(group.cell, env="") for group in groups if group.failed}
    return [group for group in groups if dataclasses.replace(group.cell, env="") in failed]


def _compute_group_overall(
    key: SuiteKey, groups: Sequence[ScoreGroup], options: VerdictOptions
) -> OverallScores | None:
    table: dict[str, dict[str, ScoreGroup]] = {group.cell.env: {} for group in groups}
    for group in groups:
        if group.n:
            table[group.cell.env][group.framework] = group
    scales = {group.cell.env: find_score_scale(group.cell, options) for group in groups}
    known = {env: scale for env, scale in scales.items() if scale is not None}
    names = sorted({group.framework for group in groups if group.n})
    others = sorted({group.framework for group in groups} - {*names})
    left_out = [f"{name}: no run" for name in others]
    left_out += [f"{env}: no scale is known" for env in sorted(table) if env not in known]
    for env in sorted(set(table) & set(known)):
        lacking = [name for name in names if name not in table[env]]
        left_out += [f"{env}: no run of {', '.join(lacking)}"] if lacking else []
    tasks = [env for env in sorted(table) if env in known and len(table[env]) == len(names)]
    if not tasks or not names:
        return None
    scores = {
        name: [known[env].normalize(table[env][name].scores) for env in tasks] for name in names
    }
    # Curves are of returns, whatever the endpoint is; endpoints of steps need this scale, too.
    scales = {env: find_task_scale(table[env][names[0]].cell, options) for env in tasks}
    of_returns = {env: scale for env, scale in scales.items() if scale is not None}
    progress = {
        name: _normalize_curves([table[env][name] for env in tasks], of_returns) for name in names
    }
    curves = {name: item for name, item in progress.items() if len(item[0])}
    rng = np.random.default_rng(options.seed)
    return OverallScores(
        *key,
        tuple(tasks),
        compute_aggregates(scores, rng, options.resamples),
        compute_profiles(
            scores, np.linspace(0, MAX_THRESHOLD, N_THRESHOLDS), rng, options.resamples
        ),
        compute_improvement(scores, rng, options.resamples),
        compute_sample_efficiency(curves, rng, min(options.resamples, EFFICIENCY_RESAMPLES)),
        {env: known[env] for env in tasks},
        tuple(left_out),
    )


def _normalize_curves(
    groups: Sequence[ScoreGroup], known: Mapping[str, ScoreScale]
) -> tuple[FloatArray, list[FloatArray]]:
    """Return at most 30 shared evaluation steps, and float[n, k] normalized scores of each task."""
    runs = [run for group in groups for run in group.runs]
    shared = functools.reduce(np.intersect1d, [run.timesteps for run in runs])
    steps = shared[thin_evaluations(len(shared))]
    scores = []
    for group in groups:
        at = [run.results[np.searchsorted(run.timesteps, steps)] for run in group.runs]
        means = np.array([found.mean(axis=1) for found in at])
        scores.append(known[group.cell.env].normalize(means))
    return steps.astype(np.float64), scores


MIN_PAIRS = 2  # seeds that two frameworks must have in common


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
            family, multiple_testing.adjust_holm([result.p for _, _, result in family]), strict=True
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


# Study, algorithm, variant, recipe, both frameworks.
PooledPairKey = tuple[str, str, str, str, str, str]


@dataclasses.dataclass(frozen=True, eq=False)
class PooledPair:
    """Differences of two frameworks under one recipe, pooled over tasks.

    Attributes:
        scales: Units of return per unit here, the scale of scores over tasks; where none is known,
            that of the margin.
        pooled: Differences, first minus second, in these units.
        p_holm: P-value of "the mean over tasks is 0", corrected over the pairs of the algorithm
            in this study and variant.
        left_out: Tasks of other pairs, or of this one, that are not included.
    """

    items: tuple[PairVerdict, ...]
    scales: tuple[float, ...]
    pooled: PooledDifferences
    p_holm: float
    left_out: tuple[str, ...] = ()

    @property
    def cell(self) -> StudyCell:
        """The setting, without a task."""
        return dataclasses.replace(self.items[0].cell, env="")


def pool_pairs(items: Sequence[PairVerdict], options: VerdictOptions) -> tuple[PooledPair, ...]:
    """Pool every pair of frameworks over the tasks of an algorithm and recipe.

    Tasks in which neither side varies, or one has a single seed, are left out and named; at least
    four must remain.
    """
    found: dict[PooledPairKey, list[PairVerdict]] = collections.defaultdict(list)
    tasks: dict[SuiteKey, set[str]] = collections.defaultdict(set)
    for item in items:
        tasks[item.cell.suite_key].add(item.cell.env)
        cell, pair = item.cell, (item.first.framework, item.second.framework)
        if _get_variance(item) > 0 and _get_width(item, options) > 0:
            found[cell.study, cell.algorithm, cell.variant, cell.hps, *pair].append(item)
    whole = [(key, found[key]) for key in sorted(found) if len(found[key]) >= MIN_TASKS]
    pairs: list[PooledPair] = []
    for _, members in itertools.groupby(whole, key=lambda entry: entry[0][:3]):
        family = [(own, *_pool_tasks(own, options)) for _, own in members]
        corrected = multiple_testing.adjust_holm([pooled.p for _, _, pooled in family])
        pairs += [
            PooledPair(
                tuple(own),
                scales,
                pooled,
                float(p),
                tuple(sorted(tasks[own[0].cell.suite_key] - {item.cell.env for item in own})),
            )
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
    """Return the squared error of a difference; NaN with one seed."""
    return float(item.first.moments.squared_error + item.second.moments.squared_error)


DIFFERENCES_NAMED, DIFFERENCES_UNNAMED, NO_DIFFERENCES_SHOWN = (
    "named differences",
    "unnamed differences",
    "no difference shown",
)
OMNIBUS_RESAMPLES = 10_000  # simulated studies


@dataclasses.dataclass(frozen=True)
class OmnibusVerdict:
    """Omnibus verdict on all pairs of frameworks of one algorithm.

    Attributes:
        verdict: `named differences` if a pair is different; `unnamed differences` if none is, but
            more pairs are significant without correction than expected by chance; otherwise
            `no difference shown`.
        count: Number of significant pairs, and its null distribution.
    """

    study: str
    algorithm: str
    variant: str
    verdict: str
    different: int
    count: multiple_testing.OmnibusCount


def judge_omnibus(
    items: Sequence[PairVerdict], options: VerdictOptions
) -> tuple[OmnibusVerdict, ...]:
    """Judge every study, algorithm and variant."""
    found = group_items(items, lambda item: item.cell.variant_key)
    return tuple(_judge_study_omnibus(key, found[key], options) for key in sorted(found))


def _judge_study_omnibus(
    key: VariantKey, items: Sequence[PairVerdict], options: VerdictOptions
) -> OmnibusVerdict:
    pairs = [(item.first, item.second) for item in items]
    count = count_differences(pairs, [item.p_welch for item in items], options)
    different = sum(item.verdict == DIFFERENT for item in items)
    verdict = DIFFERENCES_UNNAMED if count.p < options.alpha else NO_DIFFERENCES_SHOWN
    if different:
        verdict = DIFFERENCES_NAMED
    return OmnibusVerdict(*key, verdict, different, count)


def count_differences(
    pairs: Sequence[GroupPair], p_values: Sequence[float], options: VerdictOptions
) -> multiple_testing.OmnibusCount:
    """Compare the number of significant pairs with studies in which all means are the same.

    Args:
        pairs: The groups compared; a group may be in several pairs.
        p_values: Welch's test of each pair; NaN if a sample has fewer than two seeds.
        options: Level, resamples and their seed.
    """
    known = [pair for pair, p in zip(pairs, p_values, strict=True) if not np.isnan(p)]
    observed = sum(p < options.alpha for p in p_values)
    rng = np.random.default_rng(options.seed)
    resamples = min(options.resamples, OMNIBUS_RESAMPLES)
    counts = np.zeros(resamples, dtype=np.int64)
    for setting in _connect_pairs(known):
        groups, places = _index_groups(setting)
        samples = multiple_testing.shrink_deviations(
            stack_moments([group.moments for group in groups])
        )
        counts += multiple_testing.simulate_counts(samples, places, options.alpha, rng, resamples)
    return multiple_testing.evaluate_count(observed, len(known), counts)


def _connect_pairs(pairs: Sequence[GroupPair]) -> list[list[GroupPair]]:
    """Split pairs into connected components, where pairs that share a group are connected.

    Only pairs in one component depend on each other, so each is simulated by itself.
    """
    if not pairs:
        return []
    groups, places = _index_groups(pairs)
    graph = coo_array((np.ones(len(pairs)), np.array(places).T), shape=(len(groups),) * 2)
    _, components = connected_components(graph, directed=False)
    found: dict[int, list[GroupPair]] = collections.defaultdict(list)
    for pair, (first, _) in zip(pairs, places, strict=True):
        found[components[first]].append(pair)
    return list(found.values())


def _index_groups(pairs: Sequence[GroupPair]) -> tuple[list[ScoreGroup], list[tuple[int, int]]]:
    """Return every group once, and each pair as two indices into them."""
    groups = list({id(group): group for pair in pairs for group in pair}.values())
    places = {id(group): place for place, group in enumerate(groups)}
    return groups, [(places[id(first)], places[id(second)]) for first, second in pairs]
