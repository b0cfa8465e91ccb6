"""Scores per setting and framework, the input of all verdicts."""

import collections
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from parallax.analysis.data.runs import CompletedRun, ExcludedRun, LoadedRuns, StudyCell, VariantKey
from parallax.analysis.labels import LIBRARY_DEFAULTS, group_items, split_variant
from parallax.analysis.stats.learning_curves import find_first_reach
from parallax.analysis.stats.moments import FloatArray, SampleMoments, compute_moments
from parallax.analysis.stats.survival import CensoredTimes
from parallax.analysis.verdicts.endpoints import find_task_scale
from parallax.analysis.verdicts.options import VerdictOptions

DEFAULT_OPTIONS = VerdictOptions()
GroupKey = tuple[StudyCell, str]  # setting and framework


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreGroup:
    """Scores of one framework in one setting, from runs or from a published table.

    A score is the endpoint of a run: the final return, unless the study fixed another.

    Attributes:
        cell: The setting.
        framework: Its name.
        moments: Mean, deviation and count of the scores.
        rounding: Half a unit of the last printed digit of a published mean and its interval,
            in units of return; 0 for runs.
        scores: float[n], score per seed, by seed; None for published numbers.
        runs: The run behind each score; empty for published numbers.
        requested: Number of run folders; equal to n for published numbers.
        completed: Number of runs that meet the completeness rule.
        steps: Environment steps at which the scores were taken; several if seeds differ.
        source: Reference of published numbers; empty for runs.
        failed: Number of runs whose training failed or diverged, and which have no score.
        failed_runs: These runs; empty where only their number is known.
        censored: Steps to the threshold of each run, for endpoints of steps; None for others.
        final_scores: float[n], final returns of groups without `runs`; None if unknown.
    """

    cell: StudyCell
    framework: str
    moments: SampleMoments
    rounding: float
    scores: FloatArray | None
    runs: tuple[CompletedRun, ...]
    requested: int
    completed: int
    steps: tuple[int, ...]
    source: str = ""
    failed: int = 0
    failed_runs: tuple[ExcludedRun, ...] = ()
    censored: CensoredTimes | None = None
    final_scores: FloatArray | None = None

    @functools.cached_property
    def n(self) -> int:
        """Number of seeds that enter the statistics."""
        return int(self.moments.n)

    @functools.cached_property
    def seeds(self) -> tuple[int | None, ...]:
        """Seed of each score; empty for published numbers."""
        return tuple(run.id.seed for run in self.runs)

    @property
    def key(self) -> GroupKey:
        """Setting and framework, which stay the same where scores are replaced."""
        return self.cell, self.framework

    @property
    def cells(self) -> tuple[StudyCell, ...]:
        """The settings that it belongs to, see `list_cells`."""
        return list_cells(self.cell, self.framework)

    @functools.cached_property
    def scores_by_seed(self) -> dict[int, float]:
        """Score of each run with a known seed; empty for published numbers."""
        if self.scores is None:
            return {}
        return {
            run.id.seed: float(score)
            for run, score in zip(self.runs, self.scores, strict=True)
            if run.id.seed is not None
        }

    @property
    def paths(self) -> tuple[Path, ...]:
        """Run folder of each score."""
        return tuple(run.path for run in self.runs)

    def score_at_step(self, step: int) -> "ScoreGroup":
        """Return the same runs, scored at each one's evaluation nearest to `step`.

        Of two evaluations equally near, the earlier one counts. Published numbers are returned
        unchanged.
        """
        if not self.runs:
            return self
        at = [int(np.abs(run.timesteps - step).argmin()) for run in self.runs]
        scores = [float(run.results[i].mean()) for run, i in zip(self.runs, at, strict=True)]
        steps = {int(run.timesteps[i]) for run, i in zip(self.runs, at, strict=True)}
        return dataclasses.replace(self.replace_scores(scores), steps=tuple(sorted(steps)))

    def replace_scores(self, scores: Iterable[float]) -> "ScoreGroup":
        """Return the group with other scores, one per run, in order."""
        values = np.array(list(scores), dtype=np.float64)
        return dataclasses.replace(
            self, moments=compute_moments(values), scores=values, censored=None
        )

    @functools.cached_property
    def final_group(self) -> "ScoreGroup":
        """The same runs with their final returns as scores; unchanged where these are unknown."""
        if self.runs:
            return self.replace_scores(run.final_score for run in self.runs)
        return self if self.final_scores is None else self.replace_scores(self.final_scores)


def group_runs(
    loaded: LoadedRuns, options: VerdictOptions = DEFAULT_OPTIONS
) -> tuple[ScoreGroup, ...]:
    """Group runs by setting and framework, in sorted order; a group may have no scores.

    Raises:
        UnknownScaleError: The endpoint needs a solved score that is not known for a task.
    """
    found = group_items(loaded.folders, lambda item: (item.id.cell, item.id.framework))
    return tuple(make_group(*key, found[key], options) for key in sorted(found))


def align_by_seed(*groups: ScoreGroup) -> tuple[tuple[int, ...], list[FloatArray]]:
    """Return the seeds that all of some groups have, and each group's scores in their order."""
    scores = [group.scores_by_seed for group in groups]
    seeds = tuple(sorted(set.intersection(*map(set, scores))))
    return seeds, [np.array([found[seed] for seed in seeds]) for found in scores]


def group_by_cell(groups: Iterable[ScoreGroup]) -> dict[StudyCell, tuple[ScoreGroup, ...]]:
    """Return the groups of each setting, sorted by framework."""
    found = group_items(groups, lambda group: group.cell)
    return {
        cell: tuple(sorted(found[cell], key=lambda group: group.framework))
        for cell in sorted(found)
    }


GroupPair = tuple[ScoreGroup, ScoreGroup]


def list_group_pairs(groups: Iterable[ScoreGroup]) -> list[GroupPair]:
    """Return every pair of frameworks in every setting, in sorted order."""
    return [
        pair
        for members in group_by_cell(groups).values()
        for pair in itertools.combinations(members, 2)
    ]


def make_group(
    cell: StudyCell,
    framework: str,
    items: Sequence[CompletedRun | ExcludedRun],
    options: VerdictOptions = DEFAULT_OPTIONS,
) -> ScoreGroup:
    """Make the group of one framework in one setting from its runs, used and excluded.

    Raises:
        UnknownScaleError: The endpoint needs a solved score that is not known for the task.
    """
    runs = sorted((item for item in items if isinstance(item, CompletedRun)), key=_get_seed_key)
    endpoint, threshold = options.chosen_endpoint, math.nan
    if endpoint.is_steps:
        threshold = find_step_threshold(cell, options)
    curves = [(run.timesteps, average_episodes(run)) for run in runs]
    failed = tuple(item for item in items if isinstance(item, ExcludedRun) and item.failed)
    scores = np.array([endpoint.score(*curve, threshold) for curve in curves], dtype=np.float64)
    reaches = [find_first_reach(*curve, threshold) for curve in curves]
    return ScoreGroup(
        cell=cell,
        framework=framework,
        moments=compute_moments(scores),
        rounding=0.0,
        scores=scores,
        runs=tuple(runs),
        requested=len(items),
        completed=sum(isinstance(item, CompletedRun) or item.completed for item in items),
        steps=tuple(sorted({int(run.timesteps[-1]) for run in runs})),
        failed=len(failed),
        failed_runs=failed,
        censored=CensoredTimes.from_pairs(reaches) if endpoint.is_steps else None,
    )


class UnknownScaleError(ValueError):
    """An endpoint needs the solved score of a task, and none is known."""


def find_step_threshold(cell: StudyCell, options: VerdictOptions) -> float:
    """Return the return that runs of a setting have to reach for `steps-P`.

    Raises:
        UnknownScaleError: No solved score is known for the task.
    """
    scale = find_task_scale(cell, options)
    if scale is None:
        raise UnknownScaleError(
            f"endpoint={options.endpoint} needs the score of a solved {cell.env} for "
            f"{cell.algorithm}, and none is published: give --range {cell.env}=LOW:HIGH, or "
            "another --endpoint."
        )
    return scale.zero + options.chosen_endpoint.threshold_share * scale.width


def average_episodes(run: CompletedRun) -> FloatArray:
    """Return float[E], the mean return of each evaluation of a run."""
    # NumPy sums a contiguous row in the same order as a single row, so that the last mean equals
    # the final score exactly.
    means: FloatArray = np.ascontiguousarray(run.results).mean(axis=1)
    return means


def _get_seed_key(run: CompletedRun) -> int:
    return -1 if run.id.seed is None else run.id.seed


def find_main_variants(groups: Iterable[ScoreGroup]) -> frozenset[tuple[VariantKey, str]]:
    """Find the main variant of each study, algorithm and task, and return it with the task.

    The main variant of an algorithm is that with the most runs used, then with the fewest options,
    then the first by name. A study has one main level of alignment, so that tables do not mix own
    and equal hyperparameters: that with the most runs used, then `exact`. Variants at this level
    come first. A task without runs of the main variant has the next one.
    """
    levels: collections.Counter[tuple[str, str]] = collections.Counter()
    variants: collections.Counter[VariantKey] = collections.Counter()
    groups = tuple(groups)
    for group in groups:
        # Failed runs that count in a second analysis do not make another variant the main one.
        used = group.n - sum(run.is_imputed for run in group.runs)
        levels[group.cell.study, _find_level(group.cell)] += used
        variants[group.cell.variant_key] += used

    def rank(cell: StudyCell) -> tuple[object, ...]:
        key, level = cell.variant_key, _find_level(cell)
        order = (-levels[cell.study, level], level != "exact", level)
        return *order, -variants[key], cell.variant.count("="), cell.variant

    found: dict[tuple[str, str, str], VariantKey] = {}
    for cell in sorted((group.cell for group in groups), key=rank):
        found.setdefault((cell.study, cell.algorithm, cell.env), cell.variant_key)
    return frozenset((key, env) for (_, _, env), key in found.items())


def _find_level(cell: StudyCell) -> str:
    options = dict(part.partition("=")[::2] for part in split_variant(cell.variant))
    return options.get("alignment", "")


def list_cells(cell: StudyCell, framework: str) -> tuple[StudyCell, ...]:
    """Return the settings that a framework's runs in a setting belong to.

    Under its own recipe, these are the setting and `library defaults`; else the setting alone.
    """
    is_own = cell.hps == framework
    return (cell, dataclasses.replace(cell, hps=LIBRARY_DEFAULTS)) if is_own else (cell,)


def to_own_recipe(group: ScoreGroup) -> ScoreGroup:
    """Return a group of the setting `library defaults` in the setting of its framework's recipe."""
    return dataclasses.replace(group, cell=dataclasses.replace(group.cell, hps=group.framework))


def collect_library_defaults(groups: Iterable[ScoreGroup]) -> list[ScoreGroup]:
    """Return the groups under their framework's own recipe, in the setting `library defaults`."""
    return [dataclasses.replace(group, cell=cell) for group in groups for cell in group.cells[1:]]
