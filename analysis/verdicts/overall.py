"""Aggregates over tasks: means, profiles, probability of improvement, sample efficiency.

Scores of each task are normalized first: (score - zero) / (one - zero).
"""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from parallax.analysis.data.published import read_table, split_version
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
from parallax.analysis.verdicts.endpoints import ScoreScale
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

SCALE_KINDS = ("reference", "min-max")


def find_scales(groups: Iterable[ScoreGroup], kind: str = "reference") -> Mapping[str, ScoreScale]:
    """Return the scale of every task that has one.

    `reference`: 0 is the score of random actions, 1 the best of the original papers' scores on
    the task, read off by the thesis; neither depends on the runs compared. `min-max`: 0 and 1
    are the worst and the best seed of the runs compared, so adding a run changes all scores.

    Args:
        groups: The scores compared.
        kind: One of `KINDS`.

    Raises:
        ValueError: The kind is unknown.
    """
    if kind not in SCALE_KINDS:
        raise ValueError(f"normalisation={kind!r} is not known. Known: {', '.join(SCALE_KINDS)}.")
    groups = list(groups)
    envs = sorted({group.cell.env for group in groups})
    if kind == "reference":
        found = {env: get_reference_scale(env) for env in envs}
    else:
        found = {
            env: _get_min_max_scale([group for group in groups if group.cell.env == env])
            for env in envs
        }
    return {env: scale for env, scale in found.items() if scale is not None}


def get_reference_scale(env: str) -> ScoreScale | None:
    """Return the scale from random to best published score of a task; None if either is unknown.

    Random scores are known for versions v4 and v5; the published ones are of earlier versions.
    """
    task, version = split_version(env)
    random = [row for row in read_table("random") if (row.env, row.version) == (task, version)]
    best = max(
        (row for row in read_table("thesis_targets") if row.env == task),
        key=lambda row: row.mean,
        default=None,
    )
    if not random or best is None:
        return None
    source = f"0: random actions on {env}; 1: {best.algorithm} of the original paper, {best.mean:g}"
    return ScoreScale(random[0].mean, best.mean, source)


def _get_min_max_scale(groups: list[ScoreGroup]) -> ScoreScale | None:
    values = [
        float(value) for group in groups if group.scores is not None for value in group.scores
    ]
    if not values or min(values) == max(values):
        return None
    return ScoreScale(min(values), max(values), "0 and 1: worst and best seed of the runs compared")


N_THRESHOLDS = 81
MAX_THRESHOLD = 2.0


@dataclasses.dataclass(frozen=True, eq=False)
class OverallScores:
    """Aggregates of the frameworks of one algorithm and recipe over all tasks.

    Attributes:
        study: Name of the study.
        algorithm: Algorithm.
        hps: Hyperparameters.
        variant: Options that differ from the defaults.
        tasks: Tasks included: those in which every framework listed has a run.
        aggregates: Per framework; normalised scores.
        profiles: Per framework, at 81 thresholds from 0 to 2.
        improvement: Per pair of frameworks.
        efficiency: Interquartile mean after so many steps, for frameworks whose runs share
            evaluations.
        scales: Scale of each task.
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
    groups: Sequence[ScoreGroup], options: VerdictOptions, normalisation: str = "reference"
) -> tuple[OverallScores, ...]:
    """Compute aggregates for every algorithm, recipe and variant with runs.

    Args:
        groups: Final scores; published numbers without single seeds are ignored.
        options: Number of resamples and their seed.
        normalisation: One of `parallax.analysis.verdicts.overall.SCALE_KINDS`.
    """
    usable = [group for group in groups if group.scores is not None and group.n]
    known: Mapping[str, ScoreScale]
    if options.chosen_endpoint.is_steps:
        share = ScoreScale(0.0, 1.0, "share of training that is left")
        known = {group.cell.env: share for group in usable}
    else:
        known = find_scales(usable, normalisation)
    found: dict[tuple[str, str, str, str], list[ScoreGroup]] = collections.defaultdict(list)
    for group in usable:
        cell = group.cell
        found[cell.study, cell.algorithm, cell.hps, cell.variant].append(group)
    results = (_compute_group_overall(key, found[key], known, options) for key in sorted(found))
    return tuple(result for result in results if result is not None)


def _compute_group_overall(
    key: tuple[str, str, str, str],
    groups: Sequence[ScoreGroup],
    known: Mapping[str, ScoreScale],
    options: VerdictOptions,
) -> OverallScores | None:
    table: dict[str, dict[str, ScoreGroup]] = collections.defaultdict(dict)
    for group in groups:
        table[group.cell.env][group.framework] = group
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
    progress = {
        name: _normalize_curves([table[env][name] for env in tasks], known) for name in names
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
    return (group.scores - scale.zero) / (scale.one - scale.zero)


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
        scores.append((returns - scale.zero) / (scale.one - scale.zero))
    return steps.astype(np.float64), scores
