"""Checks of the answer of a study with several levels: other recipes, longer runs, a control."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from parallax.analysis.stats.decomposition import (
    compute_paired_framework_p,
    compute_spread_interval,
    estimate_framework_variance,
)
from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.alignment_levels import (
    LATE_EVALUATIONS,
    MIN_SEEDS,
    LevelResults,
    LevelTask,
    find_level,
    pair_by_seed,
)
from parallax.analysis.verdicts.endpoints import ScoreScale, find_solved_scale
from parallax.analysis.verdicts.groups import ScoreGroup, average_episodes
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.run_differences import is_same_algorithm
from parallax.analysis.verdicts.variance_components import CrossedDesign


@dataclasses.dataclass(frozen=True)
class NegativeControl:
    """Spread between frameworks that lockstep training shows to compute the same updates.

    Attributes:
        seeds: Number of seeds that all of them have.
        spread: Standard deviation between their expected scores; 0 if none is found.
        interval: Bootstrap interval of `spread`.
        p: p-value of "these frameworks score alike", with runs permuted within each seed.
    """

    task: LevelTask
    frameworks: tuple[str, ...]
    seeds: int
    spread: float
    interval: tuple[float, float]
    p: float


def judge_negative_controls(
    results: LevelResults, frameworks: Sequence[str], generator: np.random.Generator
) -> tuple[NegativeControl, ...]:
    """Judge the named frameworks on each task where their runs compute the same updates."""
    found = []
    for task, levels in results.by_task.items():
        groups = levels["lockstep"].groups if "lockstep" in levels else {}
        if len(frameworks) < 2 or not set(frameworks) <= set(groups):
            continue
        pairs = itertools.combinations([groups[name] for name in frameworks], 2)
        scores = pair_by_seed(levels["lockstep"], frameworks)
        if len(scores) >= MIN_SEEDS and all(is_same_algorithm(*pair) for pair in pairs):
            variance = estimate_framework_variance([list(scores.T)])
            found.append(
                NegativeControl(
                    task,
                    tuple(frameworks),
                    len(scores),
                    float(np.sqrt(max(variance.between, 0.0))),
                    compute_spread_interval([list(scores.T)], generator),
                    compute_paired_framework_p(scores, generator),
                )
            )
    return tuple(found)


def exchange_recipe(results: LevelResults, design: CrossedDesign) -> tuple[float, ...]:
    """Return the share at equal hyperparameters, over all tasks, if one task had other recipes.

    Returns:
        The share with each recipe of the design; empty if its task is not in the decomposition, or
        the decomposition has other frameworks than the study.
    """
    found = results.decomposition
    if found is None or list(found.frameworks) != results.frameworks:
        return ()
    place = design.algorithm, design.env
    tasks = [task for task in found.tasks if (task.algorithm, task.env) == place]
    own = [results.by_task[task]["defaults"].variance for task in found.tasks]
    total = sum(one.between + one.within for one in own if one)
    if len(tasks) != 1 or not (before := results.by_task[tasks[0]]["exact"].variance):
        return ()
    recipes = (estimate_framework_variance([list(row)]).between for row in design.scores)
    return tuple(found.shares.equal[0] + (one - before.between) / total for one in recipes)


@dataclasses.dataclass(frozen=True, eq=False)
class LongerRuns:
    """Runs of one task, algorithm and recipe, and longer runs of the same frameworks.

    A score is the mean of a run's last `LATE_EVALUATIONS` evaluations, normalized: 0 does nothing,
    1 is solved. A run that failed has 0.

    Attributes:
        level: Level of alignment of both.
        steps: Environment steps of the runs and of the longer ones.
        scores: Scores of the runs by framework, float64[n].
        longer: Scores of the longer runs by framework, float64[n].
        gain: Mean of the longer runs minus that of the others, averaged over frameworks, with a t
            interval over frameworks.
    """

    algorithm: str
    env: str
    level: str
    steps: tuple[int, int]
    scores: dict[str, FloatArray]
    longer: dict[str, FloatArray]
    gain: ConfidenceInterval

    @property
    def gains(self) -> dict[str, float]:
        """Mean of the longer runs minus that of the others, by framework."""
        return {
            name: float(scores.mean() - self.scores[name].mean())
            for name, scores in self.longer.items()
        }


def judge_longer_runs(
    groups: Sequence[ScoreGroup], longer: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[LongerRuns, ...]:
    """Compare the runs of each setting at one level of alignment with longer ones.

    The number of steps is all that may differ in the settings. Tasks without a known solved score
    and frameworks without longer runs are left out.
    """
    found: dict[tuple[object, ...], list[tuple[ScoreGroup, ScoreGroup]]] = {}
    by_setting = {_describe_setting(group): group for group in groups if group.runs}
    for group in sorted(longer, key=lambda one: one.key):
        own = by_setting.get(_describe_setting(group)) if group.runs else None
        if own is None or find_level(own) is None or find_level(group) is None:
            continue
        if _count_steps(own) < _count_steps(group):
            key = (*_describe_setting(own)[1:], _count_steps(own), _count_steps(group))
            found.setdefault(key, []).append((own, group))
    judged = (_judge_pairs(found[key], options) for key in sorted(found, key=str))
    return tuple(one for one in judged if one is not None)


def _describe_setting(group: ScoreGroup) -> tuple[str, ...]:
    cell = group.cell
    parts = (part for part in cell.variant.split(",") if not part.startswith("steps="))
    return (group.framework, cell.algorithm, cell.env, cell.hps, *parts)


def _count_steps(group: ScoreGroup) -> int:
    return int(group.runs[0].spec["steps"])


def _judge_pairs(
    pairs: Sequence[tuple[ScoreGroup, ScoreGroup]], options: VerdictOptions
) -> LongerRuns | None:
    own, longer = pairs[0]
    scale = find_solved_scale(own.cell, options)
    if scale is None:
        return None
    before = {one.framework: _score_late(one, scale) for one, _ in pairs}
    after = {one.framework: _score_late(one, scale) for _, one in pairs}
    gains = [float(np.mean(after[name]) - np.mean(before[name])) for name in before]
    steps = _count_steps(own), _count_steps(longer)
    cell = own.cell
    level = find_level(own) or ""
    return LongerRuns(
        cell.algorithm, cell.env, level, steps, before, after, compute_interval(gains)
    )


def _score_late(group: ScoreGroup, scale: ScoreScale) -> FloatArray:
    late = [average_episodes(run)[-LATE_EVALUATIONS:].mean() for run in group.runs]
    return np.append(scale.normalize(np.array(late)), np.zeros(group.failed))
