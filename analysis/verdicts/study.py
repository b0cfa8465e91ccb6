"""Judge a study once: all verdicts, aggregates, curves and selections that pages show."""

import collections
import dataclasses
import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from parallax.analysis.data.published import get_return_bounds, read_table
from parallax.analysis.data.runs import LoadedRuns, StudyCell, VariantKey
from parallax.analysis.labels import make_file_suffix, sort_recipes
from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval
from parallax.analysis.verdicts.alignment_levels import LevelResults, judge_alignment_levels
from parallax.analysis.verdicts.consistency import (
    PairVerdict,
    judge_consistency,
    judge_library_defaults,
)
from parallax.analysis.verdicts.crossed_design import CrossedDesign, judge_crossed_designs
from parallax.analysis.verdicts.curves import (
    LearningCurve,
    make_curves,
    make_curves_with_failed_runs,
)
from parallax.analysis.verdicts.endpoints import ReferenceScore, settle_options
from parallax.analysis.verdicts.evaluation_noise import EvaluationNoise, measure_evaluation_noise
from parallax.analysis.verdicts.failures import count_failed_as_bottom
from parallax.analysis.verdicts.groups import (
    GroupKey,
    ScoreGroup,
    collect_library_defaults,
    find_main_variants,
    group_runs,
    list_cells,
)
from parallax.analysis.verdicts.level_checks import LongerRuns, NegativeControl
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import (
    OmnibusVerdict,
    OverallScores,
    PairedVerdict,
    PooledPair,
    compute_overall_scores,
    judge_omnibus,
    judge_paired_seeds,
    pool_pairs,
    select_failed_parts,
)
from parallax.analysis.verdicts.ranking import RankingVerdict, judge_rankings
from parallax.analysis.verdicts.references import (
    LEARNED,
    NOT_SHOWN,
    LearningVerdict,
    RandomVerdict,
    find_references,
    judge_learning,
    judge_vs_random,
)
from parallax.analysis.verdicts.reproduction import (
    ReproductionVerdict,
    judge_group_reproductions,
    moments_from_published,
)
from parallax.analysis.verdicts.suite import (
    AllAlikeVerdict,
    SuiteVerdict,
    judge_all_alike,
    judge_suites,
    select_suites_with_failed_runs,
)

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True, eq=False)
class StudyVerdicts:
    """All verdicts on a study, and the selections of them that sections and figures show.

    The main variant of a study, algorithm and task is the one with the most runs, at one level of
    alignment; the others are side experiments, such as interventions, and are reported separately.

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
        learning: Whether each framework in each setting has learned: above doing nothing, random
            actions and its untrained policy by the margin.
        suites: Pairs of frameworks over all tasks of an algorithm and recipe, library defaults
            included.
        all_alike: Whether all frameworks are equivalent, per setting and per suite.
        with_failed_runs: All verdicts once more with failed runs at the bottom of the task's range
            (intention to treat); None where no run failed or no bottom is known.
        counts_failed_runs: Whether these are the verdicts with failed runs.
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
    learning: tuple[LearningVerdict, ...]
    suites: tuple[SuiteVerdict, ...]
    all_alike: tuple[AllAlikeVerdict, ...]
    evaluation_noise: tuple[EvaluationNoise, ...]
    options: VerdictOptions
    with_failed_runs: "StudyVerdicts | None" = None
    counts_failed_runs: bool = False

    @functools.cached_property
    def intention_to_treat(self) -> tuple[PairVerdict, ...]:
        """Pairs of `with_failed_runs` in which a run failed."""
        other = self.with_failed_runs
        pairs = (*other.consistency, *other.defaults) if other else ()
        return tuple(item for item in pairs if item.first.failed or item.second.failed)

    @functools.cached_property
    def suite_intention_to_treat(self) -> tuple[SuiteVerdict, ...]:
        """The same over all tasks of an algorithm and recipe."""
        suites = self.with_failed_runs.suites if self.with_failed_runs else ()
        return select_suites_with_failed_runs(suites, self.groups)

    @functools.cached_property
    def main_variants(self) -> frozenset[VariantKey]:
        """Main variants of each study, algorithm and task."""
        return frozenset(variant for variant, _ in find_main_variants(self.groups))

    @functools.cached_property
    def main_cells(self) -> frozenset[StudyCell]:
        """Settings with a group, of main variants."""
        main = find_main_variants(self.groups)
        return frozenset(
            cell for cell in self.groups_by_cell if (cell.variant_key, cell.env) in main
        )

    @functools.cached_property
    def main_consistency(self) -> tuple[PairVerdict, ...]:
        """Pairs of main variants; all pairs if there are none."""
        main = tuple(item for item in self.consistency if item.cell in self.main_cells)
        return main or self.consistency

    @functools.cached_property
    def main_defaults(self) -> tuple[PairVerdict, ...]:
        """Pairs under library defaults, of main variants."""
        return tuple(item for item in self.defaults if item.cell in self.main_cells)

    @functools.cached_property
    def main_rankings(self) -> tuple[RankingVerdict, ...]:
        """Rankings of main variants; all rankings if there are none."""
        main = tuple(item for item in self.rankings if is_ranking_of(item, self.main_variants))
        return main or self.rankings

    @functools.cached_property
    def group_by_key(self) -> Mapping[GroupKey, ScoreGroup]:
        """Each group by its setting and framework."""
        return {group.key: group for group in self.groups}

    @functools.cached_property
    def groups_by_cell(self) -> Mapping[StudyCell, tuple[ScoreGroup, ...]]:
        """Groups of each setting, including settings under library defaults."""
        return _index_by_cell((group, group) for group in self.groups)

    @functools.cached_property
    def vs_random_by_cell(self) -> Mapping[StudyCell, tuple[RandomVerdict, ...]]:
        """Comparisons with random actions of each setting, as `groups_by_cell`."""
        return _index_by_cell((item.group, item) for item in self.vs_random)

    @functools.cached_property
    def learning_by_cell(self) -> Mapping[StudyCell, tuple[LearningVerdict, ...]]:
        """Verdicts on learning of each setting, as `groups_by_cell`."""
        return _index_by_cell((item.group, item) for item in self.learning)

    @functools.cached_property
    def learned(self) -> frozenset[GroupKey]:
        """Setting and framework of the groups that are shown to have learned."""
        return frozenset(one.group.key for one in self.learning if one.verdict == LEARNED)

    @functools.cached_property
    def not_learned(self) -> frozenset[GroupKey]:
        """Setting and framework of the groups that were tested and are not shown to have."""
        return frozenset(one.group.key for one in self.learning if one.verdict == NOT_SHOWN)

    @functools.cached_property
    def omnibus_by_variant(self) -> Mapping[VariantKey, OmnibusVerdict]:
        """Omnibus verdicts by study, algorithm and variant."""
        return {(item.study, item.algorithm, item.variant): item for item in self.omnibus}

    @functools.cached_property
    def overall(self) -> tuple[OverallScores, ...]:
        """Aggregates over tasks, computed once.

        With failed runs, those of algorithms and recipes with a failed run.
        """
        groups = select_failed_parts(self.groups) if self.counts_failed_runs else self.groups
        return compute_overall_scores(groups, self.options)


def is_ranking_of(item: RankingVerdict, variants: frozenset[VariantKey]) -> bool:
    """Return whether a ranking is of one of these variants of one of its algorithms."""
    return any((item.study, name, item.variant) in variants for name in item.algorithms)


def _index_by_cell(items: Iterable[tuple[ScoreGroup, Item]]) -> dict[StudyCell, tuple[Item, ...]]:
    """Group items by setting: that of an item's group, and its setting under library defaults."""
    found: dict[StudyCell, list[Item]] = collections.defaultdict(list)
    for group, item in items:
        for cell in group.cells:
            found[cell].append(item)
    return {cell: tuple(found[cell]) for cell in sorted(found)}


def judge_runs(loaded: LoadedRuns, options: VerdictOptions) -> StudyVerdicts:
    """Judge runs, without the aggregates and curves of `judge_study`.

    Raises:
        UnknownScaleError: The endpoint needs a solved score that is not known for a task.
    """
    options = settle_options(loaded, options)
    groups = group_runs(loaded, options)
    groups_with_failed = count_failed_as_bottom(groups, options)
    with_failed = None
    if any(one.n > other.n for one, other in zip(groups_with_failed, groups, strict=True)):
        with_failed = _judge_groups(groups_with_failed, options, counts_failed_runs=True)
    return _judge_groups(groups, options, with_failed)


def judge_thesis_tables(options: VerdictOptions) -> StudyVerdicts:
    """Judge the thesis' published tables alone."""
    return _judge_groups(group_published_scores("thesis_tables"), options)


def group_published_scores(table: str) -> tuple[ScoreGroup, ...]:
    """Make one group per row of a published table of means, spreads and numbers of trials."""
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
    options: VerdictOptions,
    with_failed_runs: StudyVerdicts | None = None,
    *,
    counts_failed_runs: bool = False,
) -> StudyVerdicts:
    pairs, defaults = judge_consistency(groups, options), collect_library_defaults(groups)
    finals = [group.final_group for group in groups]
    learning = judge_learning(finals, options)
    suites = judge_suites((*groups, *defaults), options, learning)
    return StudyVerdicts(
        tuple(groups),
        judge_group_reproductions(groups, options),
        pairs,
        judge_library_defaults(defaults, options),
        judge_rankings(groups, options),
        judge_omnibus(pairs, options),
        pool_pairs(pairs, options),
        judge_paired_seeds(pairs),
        judge_vs_random(finals, options),
        learning,
        suites,
        judge_all_alike(pairs, suites, options, learning),
        measure_evaluation_noise(groups, options),
        options,
        with_failed_runs,
        counts_failed_runs,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class StudyVariant:
    """An algorithm and variant of a study, or all algorithms of a variant, with a used run.

    Attributes:
        algorithm: Algorithm; empty for all.
        variant: Other settings that are set equal.
        cells: The settings with a used run, in order.
        suffix: Study and variant for a file name, as far as needed to make it unique.
        pairs: Pairs of frameworks under equal hyperparameters; empty if it has all algorithms.
        overall: Aggregates over tasks by hyperparameters; empty if it has all algorithms.
        overall_with_failed_runs: The same with failed runs, by recipe; only where a run failed.
    """

    study: str
    algorithm: str
    variant: str
    cells: tuple[StudyCell, ...]
    suffix: tuple[str, str]
    context: str
    pairs: tuple[PairVerdict, ...] = ()
    overall: tuple[OverallScores, ...] = ()
    overall_with_failed_runs: Mapping[str, OverallScores] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class StudyResults:
    """All results of a study that reports, figures and commands show.

    Sections and figures only read this. Values that more than one of them needs are fields here or
    in `verdicts`.

    Attributes:
        verdicts: Verdicts, and the groups behind them.
        curves: Learning curve of each setting and framework with a used run.
        finals: Final score with its interval, for the same.
        method: Method of the intervals in `curves` and `finals`.
        levels: Spread at each level of alignment, of studies with several levels.
        crossed: Tasks on which recipes of frameworks were run in several frameworks.
        controls: Frameworks of the same updates; empty unless a negative control was named.
        longer: Runs beside longer ones of the same settings; empty unless these were given.
    """

    loaded: LoadedRuns
    verdicts: StudyVerdicts
    curves: Mapping[GroupKey, LearningCurve]
    finals: Mapping[GroupKey, ConfidenceInterval]
    bounds: Mapping[str, tuple[float, float]]
    method: str
    levels: tuple[LevelResults, ...] = ()
    crossed: tuple[CrossedDesign, ...] = ()
    controls: tuple[NegativeControl, ...] = ()
    longer: tuple[LongerRuns, ...] = ()

    @property
    def groups(self) -> Mapping[GroupKey, ScoreGroup]:
        """Each group by its setting and framework."""
        return self.verdicts.group_by_key

    @functools.cached_property
    def used_cells(self) -> tuple[StudyCell, ...]:
        """Settings with a used run, in order."""
        return tuple(sorted({cell for cell, _ in self.curves}))

    @functools.cached_property
    def parts(self) -> tuple[StudyVariant, ...]:
        """Each study, algorithm and variant with a used run, in order."""
        keys = sorted({cell.variant_key for cell in self.used_cells})
        return tuple(self._make_part(*key) for key in keys)

    @functools.cached_property
    def variants(self) -> Mapping[tuple[str, str], StudyVariant]:
        """Each study and variant with a used run, all algorithms together."""
        keys = sorted({(cell.study, cell.variant) for cell in self.used_cells})
        return {(study, variant): self._make_part(study, "", variant) for study, variant in keys}

    @functools.cached_property
    def framework_cells(self) -> Mapping[StudyCell, Mapping[str, StudyCell]]:
        """Frameworks with a used or failed run in each setting with a used one.

        Each with the setting it was run in: the two differ under library defaults, where each
        framework has its own recipe.
        """
        return _list_framework_cells(self.curves, self.means_with_failed_runs)

    @functools.cached_property
    def means_with_failed_runs(self) -> Mapping[GroupKey, float]:
        """Mean score of each group with a failed run, which counts at the bottom of the range."""
        return {
            group.key: float(group.moments.mean)
            for group in self._groups_with_failed_runs
            if group.n > self.groups[group.key].n
        }

    @functools.cached_property
    def curves_with_failed_runs(self) -> Mapping[GroupKey, LearningCurve]:
        """Learning curve of the same groups."""
        return make_curves_with_failed_runs(self._groups_with_failed_runs)

    @property
    def _groups_with_failed_runs(self) -> tuple[ScoreGroup, ...]:
        other = self.verdicts.with_failed_runs
        return other.groups if other else ()

    @functools.cached_property
    def references(self) -> Mapping[StudyCell, tuple[ReferenceScore, ...]]:
        """Policies without training in each setting of `verdicts.groups_by_cell`."""
        return {
            cell: find_references(cell, [run for group in groups for run in group.runs])
            for cell, groups in self.verdicts.groups_by_cell.items()
        }

    def _make_part(self, study: str, algorithm: str, variant: str) -> StudyVariant:
        key, other = (study, algorithm, variant), self.verdicts.with_failed_runs
        overall, with_failed_runs = (
            {item.hps: item for item in items if (item.study, item.algorithm, item.variant) == key}
            for items in (self.verdicts.overall, other.overall if other else ())
        )
        return StudyVariant(
            study,
            algorithm,
            variant,
            tuple(
                cell
                for cell in self.used_cells
                if (cell.study, cell.variant) == (study, variant)
                and algorithm in ("", cell.algorithm)
            ),
            make_file_suffix(self.used_cells, study, variant, algorithm or None),
            f"study {study}" + (f", {variant}" if variant else ""),
            tuple(item for item in self.verdicts.consistency if item.cell.variant_key == key),
            tuple(overall[hps] for hps in sort_recipes(overall)),
            with_failed_runs,
        )


def _list_framework_cells(
    curves: Collection[GroupKey], failed: Collection[GroupKey]
) -> dict[StudyCell, dict[str, StudyCell]]:
    found: dict[StudyCell, dict[str, StudyCell]] = collections.defaultdict(dict)
    used = set()
    for own, framework in (*curves, *failed):
        for cell in list_cells(own, framework):
            found[cell][framework] = own
            if (own, framework) in curves:
                used.add(cell)
    return {
        cell: {name: found[cell][name] for name in sorted(found[cell])} for cell in sorted(used)
    }


def judge_study(loaded: LoadedRuns, options: VerdictOptions, method: str = "t") -> StudyResults:
    """Judge a study once: verdicts, aggregates, curves and final scores.

    `method` is that of drawn intervals.
    """
    verdicts = judge_runs(loaded, options)
    rng = np.random.default_rng(options.seed)
    curves = {
        key: dataclasses.replace(curve, seeds=())
        for key, curve in make_curves(loaded, method, rng).items()
    }
    finals = {
        group.key: compute_interval(group.scores, method, rng)
        for group in verdicts.groups
        if group.scores is not None and group.n
    }
    bounds = _collect_return_bounds(verdicts)
    levels = judge_alignment_levels(verdicts.groups, verdicts.options)
    crossed = judge_crossed_designs(verdicts.groups, verdicts.options)
    return StudyResults(loaded, verdicts, curves, finals, bounds, method, levels, crossed)


def _collect_return_bounds(verdicts: StudyVerdicts) -> dict[str, tuple[float, float]]:
    """Return the range given for each task, or else the returns that its rewards allow."""
    envs = {group.cell.env for group in verdicts.groups}
    return {
        env: verdicts.options.range_by_env.get(env) or get_return_bounds(env)
        for env in sorted(envs)
    }


def results_from_published(verdicts: StudyVerdicts) -> StudyResults:
    """Make the results of a published table: no curves, and intervals as the thesis prints them."""
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
        nothing, verdicts, curves, finals, _collect_return_bounds(verdicts), "thesis"
    )
