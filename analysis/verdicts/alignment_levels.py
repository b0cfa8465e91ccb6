"""Spread between frameworks at each level of alignment, and its decomposition.

The question is how much of the difference between frameworks comes from hyperparameters, how much
from code and how much from seeds. It needs runs of the same tasks at `defaults`, `exact` and
`lockstep`.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats.decomposition import (
    FrameworkVariance,
    ShareIntervals,
    decompose_spread,
    estimate_framework_variance,
)
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.scales import find_task_scale

LEVELS = ("defaults", "exact", "lockstep")
"""Levels of the decomposition, from the least to the most that is equal."""
MIN_SEEDS = 2


@dataclasses.dataclass(frozen=True, order=True)
class LevelTask:
    """A task and algorithm that frameworks were trained on at several levels.

    Attributes:
        study: Name of the study.
        algorithm: Algorithm.
        env: Task.
        length: Environment steps of the runs.
    """

    study: str
    algorithm: str
    env: str
    length: int


@dataclasses.dataclass(frozen=True, eq=False)
class LevelSpread:
    """Scores of all frameworks in one task at one level.

    Attributes:
        task: The task.
        level: Level of alignment.
        cell: The setting of its runs.
        scores: Normalized scores by framework, float64[n]: 0 does nothing, 1 solves the task.
        groups: The groups of runs behind them, by framework.
        variance: Variance components; None with fewer than two frameworks of two seeds.
    """

    task: LevelTask
    level: str
    cell: StudyCell
    scores: Mapping[str, FloatArray]
    groups: Mapping[str, ScoreGroup]
    variance: FrameworkVariance | None

    @property
    def spread(self) -> float:
        """Standard deviation between the frameworks' expected scores, 0 where none is seen."""
        return float(np.sqrt(max(self.variance.between, 0.0))) if self.variance else np.nan


@dataclasses.dataclass(frozen=True, eq=False)
class LevelDecomposition:
    """Shares of hyperparameters, code and seeds in the variance of scores.

    Attributes:
        tasks: Tasks with runs of the same frameworks at all levels.
        frameworks: These frameworks.
        shares: Over all tasks, with intervals.
        without_framework: Shares of hyperparameters and code if one framework is left out.
        without_task: The same for tasks.
    """

    tasks: tuple[LevelTask, ...]
    frameworks: tuple[str, ...]
    shares: ShareIntervals
    without_framework: Mapping[str, ShareIntervals]
    without_task: Mapping[LevelTask, ShareIntervals]


def list_level_spreads(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[LevelSpread, ...]:
    """List the scores of all tasks and levels of studies with more than one level.

    Runs with interventions of their own or with other replay strategies are no part of a level.

    Args:
        groups: Scores by setting and framework.
        options: Endpoint and given ranges of tasks.
    """
    found: dict[tuple[LevelTask, str], list[ScoreGroup]] = collections.defaultdict(list)
    for group in groups:
        if group.runs and (level := _get_level(group)) is not None:
            found[_make_task(group), level].append(group)
    levels_by_study: dict[str, set[str]] = collections.defaultdict(set)
    for task, level in found:
        levels_by_study[task.study].add(level)
    return tuple(
        _make_spread(task, level, found[task, level], options)
        for task, level in sorted(found, key=lambda key: (key[0], LEVELS.index(key[1])))
        if len(levels_by_study[task.study]) > 1
    )


def _get_level(group: ScoreGroup) -> str | None:
    spec = group.runs[0].spec
    level, changed = spec.get("alignment"), spec.get("intervention", "none") != "none"
    replay = spec.get("replay") or {}
    is_uniform = not isinstance(replay, Mapping) or replay.get("name", "uniform") == "uniform"
    return str(level) if level in LEVELS and not changed and is_uniform else None


def _make_task(group: ScoreGroup) -> LevelTask:
    cell = group.cell
    return LevelTask(cell.study, cell.algorithm, cell.env, int(group.runs[0].spec["steps"]))


def _make_spread(
    task: LevelTask, level: str, groups: Sequence[ScoreGroup], options: VerdictOptions
) -> LevelSpread:
    scale = find_task_scale(groups[0].cell, options)
    scores = {
        group.framework: (np.asarray(group.scores) - scale.zero) / scale.width
        for group in groups
        if scale is not None and group.scores is not None and len(group.scores)
    }
    several = [values for values in scores.values() if len(values) >= MIN_SEEDS]
    variance = estimate_framework_variance([several]) if len(several) > 1 else None
    return LevelSpread(
        task, level, groups[0].cell, scores, {g.framework: g for g in groups}, variance
    )


def decompose_levels(
    spreads: Sequence[LevelSpread], generator: np.random.Generator, resamples: int = 2000
) -> LevelDecomposition | None:
    """Decompose the variance of scores over the tasks that were trained at all levels.

    Args:
        spreads: Of one study.
        generator: For bootstrap intervals over seeds.
        resamples: Number of bootstrap samples.

    Returns:
        None where no task has two frameworks of two seeds at all levels.
    """
    by_task: dict[LevelTask, dict[str, LevelSpread]] = collections.defaultdict(dict)
    for spread in spreads:
        by_task[spread.task][spread.level] = spread
    whole = {task: found for task, found in by_task.items() if set(found) == set(LEVELS)}
    frameworks = _find_common_frameworks(whole)
    if not whole or len(frameworks) < 2:
        return None

    def decompose(tasks: Sequence[LevelTask], names: Sequence[str]) -> ShareIntervals:
        levels = {
            level: [[whole[task][level].scores[name] for name in names] for task in tasks]
            for level in LEVELS
        }
        return decompose_spread(levels, generator, resamples=resamples)

    tasks = sorted(whole)
    return LevelDecomposition(
        tuple(tasks),
        tuple(frameworks),
        decompose(tasks, frameworks),
        {
            name: decompose(tasks, [other for other in frameworks if other != name])
            for name in frameworks
            if len(frameworks) > 2
        },
        {
            task: decompose([other for other in tasks if other != task], frameworks)
            for task in tasks
            if len(tasks) > 1
        },
    )


def _find_common_frameworks(
    whole: Mapping[LevelTask, Mapping[str, LevelSpread]],
) -> list[str]:
    """Return the frameworks with two seeds or more in every task at every level."""
    sets = [
        {name for name, values in spread.scores.items() if len(values) >= MIN_SEEDS}
        for found in whole.values()
        for spread in found.values()
    ]
    return sorted(set.intersection(*sets)) if sets else []
