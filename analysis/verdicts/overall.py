"""Aggregates over tasks: means, profiles, probability of improvement, sample efficiency.

Scores of each task are normalized first, (score - zero) / (one - zero), on the scale of the
verdicts over tasks.
"""

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from parallax.analysis.stats import aggregates as efficiency
from parallax.analysis.stats.aggregates import (
    AggregateScores,
    ImprovementProbability,
    PerformanceProfiles,
    compute_aggregates,
    compute_improvement,
    compute_profiles,
)
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.endpoints import ScoreScale, find_score_scale, find_task_scale
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

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
    efficiency: efficiency.SampleEfficiency
    scales: Mapping[str, ScoreScale]
    left_out: tuple[str, ...]


def compute_overall_scores(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[OverallScores, ...]:
    """Compute aggregates for every algorithm, recipe and variant with runs.

    Published numbers without single seeds are ignored.
    """
    usable = [group for group in groups if group.scores is not None and group.n]
    found: dict[tuple[str, str, str, str], list[ScoreGroup]] = collections.defaultdict(list)
    for group in usable:
        cell = group.cell
        found[cell.study, cell.algorithm, cell.hps, cell.variant].append(group)
    results = (_compute_group_overall(key, found[key], options) for key in sorted(found))
    return tuple(result for result in results if result is not None)


def select_failed_parts(groups: Sequence[ScoreGroup]) -> list[ScoreGroup]:
    """Return the groups of every algorithm, recipe and variant in which a run failed."""
    failed = {dataclasses.replace(group.cell, env="") for group in groups if group.failed}
    return [group for group in groups if dataclasses.replace(group.cell, env="") in failed]


def _compute_group_overall(
    key: tuple[str, str, str, str], groups: Sequence[ScoreGroup], options: VerdictOptions
) -> OverallScores | None:
    table: dict[str, dict[str, ScoreGroup]] = collections.defaultdict(dict)
    for group in groups:
        table[group.cell.env][group.framework] = group
    scales = {group.cell.env: find_score_scale(group.cell, options) for group in groups}
    known = {env: scale for env, scale in scales.items() if scale is not None}
    names = sorted({group.framework for group in groups})
    left_out = [f"{env}: no scale is known" for env in sorted(table) if env not in known]
    for env in sorted(set(table) & set(known)):
        lacking = [name for name in names if name not in table[env]]
        left_out += [f"{env}: no run of {', '.join(lacking)}"] if lacking else []
    tasks = [env for env in sorted(table) if env in known and len(table[env]) == len(names)]
    if not tasks:
        return None
    scores = {
        name: [_normalize_scores(table[env][name], known[env]) for env in tasks] for name in names
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
        efficiency.compute_sample_efficiency(
            curves, rng, min(options.resamples, efficiency.EFFICIENCY_RESAMPLES)
        ),
        {env: known[env] for env in tasks},
        tuple(left_out),
    )


def _normalize_scores(group: ScoreGroup, scale: ScoreScale) -> FloatArray:
    assert group.scores is not None
    return (group.scores - scale.zero) / scale.width


def _normalize_curves(
    groups: Sequence[ScoreGroup], known: Mapping[str, ScoreScale]
) -> tuple[FloatArray, list[FloatArray]]:
    """Return at most 30 shared evaluation steps, and float[n, k] normalized scores of each task."""
    runs = [run for group in groups for run in group.runs]
    shared = functools.reduce(np.intersect1d, [run.timesteps for run in runs])
    steps = shared[efficiency.thin_evaluations(len(shared))]
    scores = []
    for group in groups:
        scale = known[group.cell.env]
        at = [run.results[np.searchsorted(run.timesteps, steps)] for run in group.runs]
        returns = np.array([found.mean(axis=1) for found in at])
        scores.append((returns - scale.zero) / scale.width)
    return steps.astype(np.float64), scores
