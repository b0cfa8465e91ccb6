"""The answers to the three questions, from a folder of runs or from the published tables.

`gather` adds the aggregates and curves that figures and the report show.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from parallax.analysis.data.published import get_return_bounds, read_table
from parallax.analysis.data.runs import LoadedRuns, StudyCell
from parallax.analysis.labels import make_file_suffix
from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval
from parallax.analysis.verdicts.consistency import (
    PairVerdict,
    judge_consistency,
    judge_library_defaults,
)
from parallax.analysis.verdicts.curves import LearningCurve, make_panels
from parallax.analysis.verdicts.groups import ScoreGroup, VariantKey, find_main_variants, group_runs
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
from parallax.analysis.verdicts.vs_random import RandomVerdict, judge_vs_random


@dataclasses.dataclass(frozen=True, eq=False)
class StudyVerdicts:
    """Everything that is said of a study.

    Attributes:
        groups: Final scores per setting and framework, in order.
        reproduction: RQ1, against published numbers.
        consistency: RQ2, pairs of frameworks.
        defaults: Pairs of frameworks, each under its own defaults: not RQ2.
        rankings: RQ3, order of the algorithms.
        omnibus: Whether frameworks differ at all, per study, algorithm and variant.
        pooled: Pairs of frameworks over all tasks; no verdict hangs on it.
        paired: Pairs of frameworks seed by seed; no verdict hangs on it.
        vs_random: Each framework in each setting against random actions; nothing hangs on it.
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
        """Study, algorithm and variant of what the study is about; the rest stands apart."""
        return find_main_variants(self.groups)

    def is_main_variant(self, cell: StudyCell) -> bool:
        """Whether a setting is no side experiment."""
        return (cell.study, cell.algorithm, cell.variant) in self.main_variants

    def is_main_ranking(self, item: RankingVerdict) -> bool:
        """Whether a ranking is of what the study is about."""
        return any(
            (item.study, name, item.variant) in self.main_variants for name in item.algorithms
        )


def judge_runs(loaded: LoadedRuns, options: VerdictOptions) -> StudyVerdicts:
    """The verdicts on runs."""
    groups = group_runs(loaded)
    return _judge_groups(groups, judge_group_reproductions(groups, options), options)


def judge_published_table(options: VerdictOptions, table: str = "thesis_tables") -> StudyVerdicts:
    """The verdicts on a published table alone.

    Args:
        options: Settings of the verdicts.
        table: Name of a table with a mean, a spread and a number of trials in each row.
    """
    groups = group_published_scores(table)
    return _judge_groups(groups, judge_group_reproductions(groups, options), options)


def group_published_scores(table: str) -> tuple[ScoreGroup, ...]:
    """One group per row of a published table."""
    return tuple(
        ScoreGroup(
            cell=StudyCell(table, f"{row.env}-{row.version}", row.algorithm, row.hps, ""),
            framework=row.framework,
            moments=moments_from_published(row),
            rounding=0.05,
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


StudySettingKey = tuple[str, str, str]  # study, algorithm, variant


@dataclasses.dataclass(frozen=True, eq=False)
class StudyResults:
    """All that can be drawn.

    Attributes:
        loaded: Runs, and folders that are not used.
        verdicts: Verdicts, and the groups behind them.
        overall: Aggregates over tasks.
        curves: Learning curve of each setting and framework with a run.
        finals: Final score with its interval, for the same.
        bounds: Least and largest return that there can be, of each task.
        method: Method of the intervals.
    """

    loaded: LoadedRuns
    verdicts: StudyVerdicts
    overall: tuple[OverallScores, ...]
    curves: Mapping[tuple[StudyCell, str], LearningCurve]
    finals: Mapping[tuple[StudyCell, str], ConfidenceInterval]
    bounds: Mapping[str, tuple[float, float]]
    method: str

    @functools.cached_property
    def groups(self) -> dict[tuple[StudyCell, str], ScoreGroup]:
        """Every group by setting and framework."""
        return {(group.cell, group.framework): group for group in self.verdicts.groups}

    @functools.cached_property
    def settings(self) -> tuple[StudySettingKey, ...]:
        """Study, algorithm and variant of everything that has a run used, in order."""
        return tuple(
            sorted({(cell.study, cell.algorithm, cell.variant) for cell, _ in self.curves})
        )

    def cells(self, study: str, algorithm: str | None, variant: str) -> tuple[StudyCell, ...]:
        """The settings with a run used, in order; of all algorithms where None."""
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

    def suffix(self, study: str, variant: str, algorithm: str | None = None) -> tuple[str, str]:
        """Study and variant for a file's name, as far as they are needed to tell files apart."""
        return make_file_suffix((cell for cell, _ in self.curves), study, variant, algorithm)

    def context(self, study: str, variant: str) -> str:
        """Study and variant in words, for captions."""
        return f"study {study}" + (f", {variant}" if variant else "")


def judge_study(loaded: LoadedRuns, options: VerdictOptions, method: str = "t") -> StudyResults:
    """Judges and aggregates everything in a results folder.

    Args:
        loaded: What was found.
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
    """What was given for a task, or else what its rewards allow."""
    envs = {group.cell.env for group in verdicts.groups}
    return {
        env: verdicts.options.get_given_range(env) or get_return_bounds(env) for env in sorted(envs)
    }


def results_from_published(verdicts: StudyVerdicts) -> StudyResults:
    """What can be drawn of published tables alone: no curves, and intervals as the thesis has them.

    Args:
        verdicts: Those on published numbers, of `judge_published_table`.
    """
    empty = np.empty(0)
    keys = {(group.cell, group.framework): group for group in verdicts.groups}
    curves = {
        key: LearningCurve(key[1], (), np.empty(0, np.int64), empty, empty, empty, 0)
        for key in keys
    }
    finals = {}
    for key, group in keys.items():
        mean, n = float(group.moments.mean), group.n
        half = 1.96 * float(group.moments.sd) * math.sqrt(n - 1) / n  # as the tables print it
        finals[key] = ConfidenceInterval(mean, mean - half, mean + half, n, "thesis")
    nothing = LoadedRuns(Path(), (), ())
    return StudyResults(
        nothing, verdicts, (), curves, finals, _collect_return_bounds(verdicts), "thesis"
    )


def list_frameworks(keys: Iterable[tuple[StudyCell, str]]) -> list[str]:
    """Every framework among them, sorted."""
    return sorted({name for _, name in keys})
