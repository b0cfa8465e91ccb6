"""Judge a study once: all verdicts, aggregates, curves and selections that are shown of it."""

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from parallax.analysis.data.published import get_return_bounds, read_table
from parallax.analysis.data.runs import LoadedRuns, StudyCell, VariantKey
from parallax.analysis.labels import make_file_suffix
from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval
from parallax.analysis.verdicts.consistency import (
    PairVerdict,
    judge_consistency,
    judge_library_defaults,
)
from parallax.analysis.verdicts.curves import LearningCurve, make_panels
from parallax.analysis.verdicts.groups import (
    ScoreGroup,
    find_main_variants,
    group_runs,
    to_library_defaults_cell,
)
from parallax.analysis.verdicts.omnibus import OmnibusVerdict, judge_omnibus
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import OverallScores, compute_overall_scores
from parallax.analysis.verdicts.ranking import RankingVerdict, judge_rankings
from parallax.analysis.verdicts.reproduction import (
    ReproductionVerdict,
    judge_group_reproductions,
    moments_from_published,
)
from parallax.analysis.verdicts.sensitivity import (
    PairedVerdict,
    PooledPair,
    judge_paired_seeds,
    pool_pairs,
)
from parallax.analysis.verdicts.vs_random import (
    BETTER_THAN_RANDOM,
    NOT_TESTED,
    RandomVerdict,
    judge_vs_random,
)

GroupKey = tuple[StudyCell, str]  # setting and framework

Item = TypeVar("Item")
Key = TypeVar("Key")


@dataclasses.dataclass(frozen=True, eq=False)
class StudyVerdicts:
    """All verdicts on a study, and the selections of them that sections and figures show.

    The main variant of a study and algorithm is the one with the most runs; the others are side
    experiments, such as interventions, and are reported apart.

    Attributes:
        groups: Final scores per setting and framework, in order.
        reproduction: RQ1: each group against published numbers.
        consistency: RQ2: pairs of frameworks under equal hyperparameters.
        defaults: Pairs of frameworks under their library defaults; not part of RQ2.
        rankings: RQ3: order of the algorithms.
        omnibus: Whether frameworks differ at all, per study, algorithm and variant.
        pooled: Pairs of frameworks over all tasks; descriptive.
        paired: Pairs of frameworks seed by seed; descriptive.
        vs_random: Each framework in each setting against random actions; descriptive.
        options: The settings behind the verdicts.
    """

    groups: tuple[ScoreGroup, ...]
    reproduction: tuple[ReproductionVerdict, ...]
    consistency: tuple[PairVerdict, ...]
    defaults: tuple[PairVerdict, ...]
    rankings: tuple[RankingVerdict, ...]
    omnibus: tuple[OmnibusVerdict, ...]
    pooled: tuple[PooledPair, ...]
    paired: tuple[PairedVerdict, ...]
    vs_random: tuple[RandomVerdict, ...]
    options: VerdictOptions

    @functools.cached_property
    def main_variants(self) -> frozenset[VariantKey]:
        """Main variant of each study and algorithm."""
        return find_main_variants(self.groups)

    def is_main_variant(self, cell: StudyCell) -> bool:
        """Return whether a setting belongs to a main variant."""
        return cell.variant_key in self.main_variants

    def is_main_ranking(self, item: RankingVerdict) -> bool:
        """Return whether a ranking is of a main variant of one of its algorithms."""
        return any(
            (item.study, name, item.variant) in self.main_variants for name in item.algorithms
        )

    @functools.cached_property
    def main_consistency(self) -> tuple[PairVerdict, ...]:
        """Pairs of main variants; all pairs if there are none."""
        return self.select_main(self.consistency, _get_cell) or self.consistency

    @functools.cached_property
    def main_defaults(self) -> tuple[PairVerdict, ...]:
        """Pairs under library defaults, of main variants."""
        return self.select_main(self.defaults, _get_cell)

    @functools.cached_property
    def main_rankings(self) -> tuple[RankingVerdict, ...]:
        """Rankings of main variants; all rankings if there are none."""
        return tuple(filter(self.is_main_ranking, self.rankings)) or self.rankings

    def select_main(
        self, items: Iterable[Item], get_cell: Callable[[Item], StudyCell]
    ) -> tuple[Item, ...]:
        """Return the items of main variants, in their order.

        Args:
            items: Verdicts.
            get_cell: Returns the setting of an item.
        """
        return tuple(item for item in items if self.is_main_variant(get_cell(item)))

    @functools.cached_property
    def group_by_key(self) -> Mapping[GroupKey, ScoreGroup]:
        """Group of each setting and framework."""
        return {(group.cell, group.framework): group for group in self.groups}

    @functools.cached_property
    def groups_by_cell(self) -> Mapping[StudyCell, tuple[ScoreGroup, ...]]:
        """Groups of each setting, among the settings those under library defaults."""
        return _index_by_cell((group, group) for group in self.groups)

    @functools.cached_property
    def vs_random_by_cell(self) -> Mapping[StudyCell, tuple[RandomVerdict, ...]]:
        """Comparisons with random actions of each setting, as `groups_by_cell`."""
        return _index_by_cell((item.group, item) for item in self.vs_random)

    @functools.cached_property
    def vs_random_by_key(self) -> Mapping[GroupKey, RandomVerdict]:
        """Comparison with random actions of each setting and framework that has one."""
        return {(item.group.cell, item.group.framework): item for item in self.vs_random}

    @functools.cached_property
    def consistency_by_cell(self) -> Mapping[StudyCell, tuple[PairVerdict, ...]]:
        """Pairs of each setting, under equal hyperparameters or under library defaults."""
        return _group_items((*self.consistency, *self.defaults), _get_cell)

    @functools.cached_property
    def consistency_by_variant(self) -> Mapping[VariantKey, tuple[PairVerdict, ...]]:
        """Pairs of each study, algorithm and variant, under equal hyperparameters."""
        return _group_items(self.consistency, lambda item: item.cell.variant_key)

    @functools.cached_property
    def omnibus_by_variant(self) -> Mapping[VariantKey, OmnibusVerdict]:
        """Omnibus verdict of each study, algorithm and variant."""
        return {(item.study, item.algorithm, item.variant): item for item in self.omnibus}

    def is_better_than_random(self, group: ScoreGroup) -> bool | None:
        """Return whether a group is shown to be better than random actions; None if untested."""
        found = self.vs_random_by_key.get((group.cell, group.framework))
        if found is None or found.verdict == NOT_TESTED:
            return None
        return found.verdict == BETTER_THAN_RANDOM


def _get_cell(item: PairVerdict) -> StudyCell:
    return item.cell


def _index_by_cell(
    items: Iterable[tuple[ScoreGroup, Item]],
) -> dict[StudyCell, tuple[Item, ...]]:
    """Group items by the settings of their groups: its own, and that of library defaults."""
    found: dict[StudyCell, list[Item]] = collections.defaultdict(list)
    for group, item in items:
        for cell in {group.cell, to_library_defaults_cell(group.cell, group.framework)}:
            found[cell].append(item)
    return {cell: tuple(found[cell]) for cell in sorted(found)}


def _group_items(
    items: Iterable[Item], get_key: Callable[[Item], Key]
) -> dict[Key, tuple[Item, ...]]:
    found: dict[Key, list[Item]] = collections.defaultdict(list)
    for item in items:
        found[get_key(item)].append(item)
    return {key: tuple(members) for key, members in found.items()}


def judge_runs(loaded: LoadedRuns, options: VerdictOptions) -> StudyVerdicts:
    """Judge runs, without the aggregates and curves of `judge_study`."""
    groups = group_runs(loaded)
    return _judge_groups(groups, judge_group_reproductions(groups, options), options)


def judge_published_table(options: VerdictOptions, table: str = "thesis_tables") -> StudyVerdicts:
    """Judge a published table alone.

    Args:
        options: Settings of the verdicts.
        table: Name of a table with a mean, a spread and a number of trials in each row.
    """
    groups = group_published_scores(table)
    return _judge_groups(groups, judge_group_reproductions(groups, options), options)


def group_published_scores(table: str) -> tuple[ScoreGroup, ...]:
    """Make one group per row of a published table."""
    return tuple(
        ScoreGroup(
            cell=StudyCell(table, f"{row.env}-{row.version}", row.algorithm, row.hps, ""),
            framework=row.framework,
            moments=moments_from_published(row),
            rounding=0.05,  # the thesis prints one decimal
            scores=None,
            runs=(),
            requested=row.trials,
            completed=row.trials,
            steps=(row.steps,),
            source=row.source,
        )
        for row in read_table(table)
    )


def _judge_groups(
    groups: Sequence[ScoreGroup],
    reproduction: tuple[ReproductionVerdict, ...],
    options: VerdictOptions,
) -> StudyVerdicts:
    pairs = judge_consistency(groups, options)
    return StudyVerdicts(
        tuple(groups),
        reproduction,
        pairs,
        judge_library_defaults(groups, options),
        judge_rankings(groups, options),
        judge_omnibus(pairs, options),
        pool_pairs(pairs),
        judge_paired_seeds(pairs),
        judge_vs_random(groups, options),
        options,
    )


@dataclasses.dataclass(frozen=True)
class RunCounts:
    """Numbers of runs.

    Attributes:
        requested: Run folders.
        completed: Runs that meet the completeness rule.
        used: Runs that enter the statistics.
    """

    requested: int
    completed: int
    used: int


@dataclasses.dataclass(frozen=True, eq=False)
class StudyResults:
    """Everything that reports, figures and commands show of a study.

    Sections and figures only read this; what more than one of them needs is a field or property
    here or in `verdicts`.

    Attributes:
        loaded: Runs and excluded folders.
        verdicts: Verdicts, and the groups behind them.
        overall: Aggregates over tasks.
        curves: Learning curve of each setting and framework with a used run.
        finals: Final score with its interval, for the same.
        bounds: Least and largest possible return of each task.
        method: Method of the intervals in `curves` and `finals`.
    """

    loaded: LoadedRuns
    verdicts: StudyVerdicts
    overall: tuple[OverallScores, ...]
    curves: Mapping[GroupKey, LearningCurve]
    finals: Mapping[GroupKey, ConfidenceInterval]
    bounds: Mapping[str, tuple[float, float]]
    method: str

    @property
    def groups(self) -> Mapping[GroupKey, ScoreGroup]:
        """Group of each setting and framework."""
        return self.verdicts.group_by_key

    @functools.cached_property
    def settings(self) -> tuple[VariantKey, ...]:
        """Study, algorithm and variant of everything with a used run, in order."""
        return tuple(sorted({cell.variant_key for cell, _ in self.curves}))

    def cells(self, study: str, algorithm: str | None, variant: str) -> tuple[StudyCell, ...]:
        """Return the settings with a used run, in order; those of all algorithms if None."""
        return tuple(
            sorted(
                {
                    cell
                    for cell, _ in self.curves
                    if (cell.study, cell.variant) == (study, variant)
                    and algorithm in (None, cell.algorithm)
                }
            )
        )

    @functools.cached_property
    def framework_cells(self) -> Mapping[StudyCell, Mapping[str, StudyCell]]:
        """Frameworks with a used run in each setting, and the setting each was run in.

        The two settings differ under library defaults, where each framework has its own recipe.
        """
        found: dict[StudyCell, dict[str, StudyCell]] = collections.defaultdict(dict)
        for own, framework in self.curves:
            for cell in {own, to_library_defaults_cell(own, framework)}:
                found[cell][framework] = own
        return {
            cell: {name: found[cell][name] for name in sorted(found[cell])}
            for cell in sorted(found)
        }

    @functools.cached_property
    def run_counts(self) -> Mapping[VariantKey, RunCounts]:
        """Numbers of runs of each study, algorithm and variant that has a folder, in order."""
        found = _group_items(self.verdicts.groups, lambda group: group.cell.variant_key)
        return {
            key: RunCounts(
                sum(group.requested for group in groups),
                sum(group.completed for group in groups),
                sum(group.n for group in groups),
            )
            for key, groups in sorted(found.items())
        }

    def suffix(self, study: str, variant: str, algorithm: str | None = None) -> tuple[str, str]:
        """Return study and variant for a file name, as far as needed to make it unique."""
        return make_file_suffix((cell for cell, _ in self.curves), study, variant, algorithm)

    def context(self, study: str, variant: str) -> str:
        """Return study and variant in words, for captions."""
        return f"study {study}" + (f", {variant}" if variant else "")


def judge_study(loaded: LoadedRuns, options: VerdictOptions, method: str = "t") -> StudyResults:
    """Judge a study once: verdicts, aggregates, curves and final scores.

    Args:
        loaded: The study's runs.
        options: Settings of the verdicts; their seed is that of all resampling.
        method: One of `parallax.analysis.stats.intervals.INTERVAL_METHODS`, for drawn intervals.
    """
    verdicts = judge_runs(loaded, options)
    rng = np.random.default_rng(options.seed)
    curves = {
        (panel.cell, curve.framework): dataclasses.replace(curve, seeds=())
        for panel in make_panels(loaded, method, rng)
        for curve in panel.curves
    }
    finals = {
        (group.cell, group.framework): compute_interval(group.scores, method, rng)
        for group in verdicts.groups
        if group.scores is not None and group.n
    }
    aggregates = compute_overall_scores(verdicts.groups, options)
    return StudyResults(
        loaded, verdicts, aggregates, curves, finals, _collect_return_bounds(verdicts), method
    )


def _collect_return_bounds(verdicts: StudyVerdicts) -> dict[str, tuple[float, float]]:
    """Return the range given for each task, or else the returns that its rewards allow."""
    envs = {group.cell.env for group in verdicts.groups}
    return {
        env: verdicts.options.get_given_range(env) or get_return_bounds(env) for env in sorted(envs)
    }


def results_from_published(verdicts: StudyVerdicts) -> StudyResults:
    """Make the results of a published table: no curves, and intervals as the thesis prints them.

    Args:
        verdicts: Those of `judge_published_table`.
    """
    empty = np.empty(0)
    curves = {
        key: LearningCurve(key[1], (), np.empty(0, np.int64), empty, empty, empty, 0)
        for key in verdicts.group_by_key
    }
    finals = {}
    for key, group in verdicts.group_by_key.items():
        mean, n = float(group.moments.mean), group.n
        # The tables print 1.96 d / sqrt(n) with the population deviation d = s sqrt((n - 1) / n).
        half = 1.96 * float(group.moments.sd) * math.sqrt(n - 1) / n
        finals[key] = ConfidenceInterval(mean, mean - half, mean + half, n, "thesis")
    nothing = LoadedRuns(Path(), (), ())
    return StudyResults(
        nothing, verdicts, (), curves, finals, _collect_return_bounds(verdicts), "thesis"
    )
