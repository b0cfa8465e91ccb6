"""Checks of levels of alignment: longer runs, and a negative control."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from parallax.analysis.data.settings import describe_result_versions, find_differing_settings
from parallax.analysis.labels import get_label, group_items, split_variant
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
from parallax.analysis.verdicts.code_differences import is_same_algorithm
from parallax.analysis.verdicts.endpoints import ScoreScale, find_solved_scale
from parallax.analysis.verdicts.groups import ScoreGroup, average_episodes
from parallax.analysis.verdicts.options import VerdictOptions


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


@dataclasses.dataclass(frozen=True, eq=False)
class LongerRuns:
    """Runs of one task, algorithm and recipe, and longer runs of the same frameworks.

    A score is the mean of a run's last `LATE_EVALUATIONS` evaluations, normalized: 0 does nothing,
    1 is solved. A run that failed has 0.

    Attributes:
        level: Level of alignment of both.
        steps: Environment steps of the runs and of the longer ones.
        studies: Study of both.
        scores: Scores of the runs by framework, float64[n].
        longer: Scores of the longer runs by framework, float64[n].
        versions: Sentence on packages of which runs have several versions; empty if none.
    """

    algorithm: str
    env: str
    level: str
    steps: tuple[int, int]
    scores: dict[str, FloatArray]
    longer: dict[str, FloatArray]
    studies: tuple[str, str] = ("", "")
    is_named_by_studies: bool = False
    versions: str = ""

    @property
    def name(self) -> str:
        """Algorithm and task, and the studies if others have the same setting."""
        name = f"{get_label(self.algorithm)} on {self.env}"
        return f"{name} ({' and '.join(self.studies)})" if self.is_named_by_studies else name

    def has_same_name(self, other: "LongerRuns") -> bool:
        """Return whether another one has the same task, level and numbers of steps."""
        places = [(one.algorithm, one.env, one.level, one.steps) for one in (self, other)]
        return places[0] == places[1]

    @property
    def gains(self) -> dict[str, float]:
        """Mean of the longer runs minus that of the others, by framework."""
        return {
            name: float(scores.mean() - self.scores[name].mean())
            for name, scores in self.longer.items()
        }

    @property
    def gain(self) -> ConfidenceInterval:
        """Mean of `gains`, with a t interval over frameworks."""
        return compute_interval(list(self.gains.values()))


def judge_longer_runs(
    groups: Sequence[ScoreGroup], longer: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[LongerRuns, ...]:
    """Compare the runs of each setting at one level of alignment with longer ones.

    The number of steps is all that may differ in the settings. Tasks without a known solved score
    and frameworks without longer runs are left out.
    """
    found: dict[tuple[object, ...], list[tuple[ScoreGroup, ScoreGroup]]] = {}
    by_setting = group_items((one for one in groups if one.runs or one.failed), _describe_setting)
    for group in sorted(longer, key=lambda one: one.key):
        for own in by_setting.get(_describe_setting(group), ()):
            if (group.runs or group.failed) and _is_longer(own, group):
                key = (*_describe_setting(own)[1:], _count_steps(own), _count_steps(group))
                studies = own.cell.study, group.cell.study
                found.setdefault((*key, *studies), []).append((own, group))
    judged = (_judge_pairs(found[key], options) for key in sorted(found, key=str))
    made = [one for one in judged if one is not None]
    return tuple(
        one
        if sum(one.has_same_name(other) for other in made) == 1
        else dataclasses.replace(one, is_named_by_studies=True)
        for one in made
    )


def _describe_setting(group: ScoreGroup) -> tuple[str, ...]:
    cell = group.cell
    parts = (part for part in split_variant(cell.variant) if not part.startswith("steps="))
    return (group.framework, cell.algorithm, cell.env, cell.hps, *parts)


def _is_longer(own: ScoreGroup, longer: ScoreGroup) -> bool:
    """Return whether two groups of one setting differ in the number of steps, and in no more."""
    runs = [one.runs[0] for one in (own, longer) if one.runs]
    levels = [find_level(one) for one in (own, longer) if one.runs]
    if not levels or None in levels or _count_steps(own) >= _count_steps(longer):
        return False
    return set(find_differing_settings(runs)) <= {"steps"}


def _count_steps(group: ScoreGroup) -> int:
    steps = (group.runs or group.failed_runs)[0].spec.get("steps")
    return steps if isinstance(steps, int) else 0  # nobody checks the records of failed runs


def _judge_pairs(
    pairs: Sequence[tuple[ScoreGroup, ScoreGroup]], options: VerdictOptions
) -> LongerRuns | None:
    own, longer = pairs[0]
    scale = find_solved_scale(own.cell, options)
    if scale is None:
        return None
    before = {one.framework: _score_late(one, scale) for one, _ in pairs}
    after = {one.framework: _score_late(one, scale) for _, one in pairs}
    steps = _count_steps(own), _count_steps(longer)
    cell = own.cell
    level = find_level(own if own.runs else longer) or ""
    studies = cell.study, longer.cell.study
    versions = describe_result_versions(
        run for pair in pairs for group in pair for run in group.runs
    )
    names = cell.algorithm, cell.env, level, steps
    return LongerRuns(*names, before, after, studies, versions=versions)


def _score_late(group: ScoreGroup, scale: ScoreScale) -> FloatArray:
    late = [average_episodes(run)[-LATE_EVALUATIONS:].mean() for run in group.runs]
    return np.append(scale.normalize(np.array(late)), np.zeros(group.failed))
