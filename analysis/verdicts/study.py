"""The answers to the three questions, from a folder of runs or from the published tables.

`gather` adds the aggregates and curves that figures and the report show.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from analysis.data.bounds import known_bounds
from analysis.data.published import read_table
from analysis.data.runs import Cell, Loaded
from analysis.stats.intervals import Interval, interval
from analysis.verdicts.consistency import PairVerdict, consistency
from analysis.verdicts.curves import Curve, make_panels
from analysis.verdicts.defaults import defaults
from analysis.verdicts.existence import Existence, existence
from analysis.verdicts.groups import Group, groups_of_runs
from analysis.verdicts.learning import Learning, learning
from analysis.verdicts.options import Options
from analysis.verdicts.overall import Overall, overall
from analysis.verdicts.paired import PairedVerdict, paired_verdicts
from analysis.verdicts.pooling import PooledPair, pooled_pairs
from analysis.verdicts.ranking import RankingVerdict, rankings
from analysis.verdicts.reproduction import (
    ReproductionVerdict,
    published_moments,
    reproduction_of_groups,
)
from analysis.verdicts.variants import Variant, main_variants
from analysis.words import suffix


@dataclasses.dataclass(frozen=True, eq=False)
class StudyVerdicts:
    """Everything that is said of a study.

    Attributes:
        groups: Final scores per setting and framework, in order.
        reproduction: RQ1, against published numbers.
        consistency: RQ2, pairs of frameworks.
        defaults: Pairs of frameworks, each under its own defaults: not RQ2.
        rankings: RQ3, order of the algorithms.
        existence: Whether frameworks differ at all, per study, algorithm and variant.
        pooled: Pairs of frameworks over all tasks; no verdict hangs on it.
        paired: Pairs of frameworks seed by seed; no verdict hangs on it.
        learning: Each framework in each setting against random actions; nothing hangs on it.
        options: The settings behind the verdicts.
    """

    groups: tuple[Group, ...]
    reproduction: tuple[ReproductionVerdict, ...]
    consistency: tuple[PairVerdict, ...]
    defaults: tuple[PairVerdict, ...]
    rankings: tuple[RankingVerdict, ...]
    existence: tuple[Existence, ...]
    pooled: tuple[PooledPair, ...]
    paired: tuple[PairedVerdict, ...]
    learning: tuple[Learning, ...]
    options: Options

    @functools.cached_property
    def main(self) -> frozenset[Variant]:
        """Study, algorithm and variant of what the study is about; the rest stands apart."""
        return main_variants(self.groups)

    def is_main(self, cell: Cell) -> bool:
        """Whether a setting is no side experiment."""
        return (cell.study, cell.algorithm, cell.variant) in self.main

    def ranks_main(self, item: RankingVerdict) -> bool:
        """Whether a ranking is of what the study is about."""
        return any((item.study, name, item.variant) in self.main for name in item.algorithms)


def judge_runs(loaded: Loaded, options: Options) -> StudyVerdicts:
    """The verdicts on runs."""
    groups = groups_of_runs(loaded)
    return _judge(groups, reproduction_of_groups(groups, options), options)


def judge_published(options: Options, table: str = "thesis_tables") -> StudyVerdicts:
    """The verdicts on a published table alone.

    Args:
        options: Settings of the verdicts.
        table: Name of a table with a mean, a spread and a number of trials in each row.
    """
    groups = groups_of_published(table)
    return _judge(groups, reproduction_of_groups(groups, options), options)


def groups_of_published(table: str) -> tuple[Group, ...]:
    """One group per row of a published table."""
    return tuple(
        Group(
            cell=Cell(table, f"{row.env}-{row.version}", row.algorithm, row.hps, ""),
            framework=row.framework,
            moments=published_moments(row),
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


def _judge(
    groups: Sequence[Group], reproduction: tuple[ReproductionVerdict, ...], options: Options
) -> StudyVerdicts:
    pairs = consistency(groups, options)
    return StudyVerdicts(
        tuple(groups),
        reproduction,
        pairs,
        defaults(groups, options),
        rankings(groups, options),
        existence(pairs, options),
        pooled_pairs(pairs),
        paired_verdicts(pairs),
        learning(groups, options),
        options,
    )


Setting = tuple[str, str, str]  # study, algorithm, variant


@dataclasses.dataclass(frozen=True, eq=False)
class Material:
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

    loaded: Loaded
    verdicts: StudyVerdicts
    overall: tuple[Overall, ...]
    curves: Mapping[tuple[Cell, str], Curve]
    finals: Mapping[tuple[Cell, str], Interval]
    bounds: Mapping[str, tuple[float, float]]
    method: str

    @functools.cached_property
    def groups(self) -> dict[tuple[Cell, str], Group]:
        """Every group by setting and framework."""
        return {(group.cell, group.framework): group for group in self.verdicts.groups}

    @functools.cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Study, algorithm and variant of everything that has a run used, in order."""
        return tuple(
            sorted({(cell.study, cell.algorithm, cell.variant) for cell, _ in self.curves})
        )

    def cells(self, study: str, algorithm: str | None, variant: str) -> tuple[Cell, ...]:
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
        return suffix((cell for cell, _ in self.curves), study, variant, algorithm)

    def context(self, study: str, variant: str) -> str:
        """Study and variant in words, for captions."""
        return f"study {study}" + (f", {variant}" if variant else "")


def gather(loaded: Loaded, options: Options, method: str = "t") -> Material:
    """Judges and aggregates everything in a results folder.

    Args:
        loaded: What was found.
        options: Settings of the verdicts; their seed is that of all resampling.
        method: One of `analysis.stats.intervals.METHODS`, for drawn intervals.
    """
    verdicts = judge_runs(loaded, options)
    rng = np.random.default_rng(options.seed)
    curves = {
        (panel.cell, curve.framework): dataclasses.replace(curve, seeds=())
        for panel in make_panels(loaded, method, rng)
        for curve in panel.curves
    }
    finals = {
        (group.cell, group.framework): interval(group.scores, method, rng)
        for group in verdicts.groups
        if group.scores is not None and group.n
    }
    aggregates = overall(verdicts.groups, options)
    return Material(loaded, verdicts, aggregates, curves, finals, _bounds(verdicts), method)


def _bounds(verdicts: StudyVerdicts) -> dict[str, tuple[float, float]]:
    """What was given for a task, or else what its rewards allow."""
    envs = {group.cell.env for group in verdicts.groups}
    return {env: verdicts.options.range_of(env) or known_bounds(env) for env in sorted(envs)}


def material_of_published(verdicts: StudyVerdicts) -> Material:
    """What can be drawn of published tables alone: no curves, and intervals as the thesis has them.

    Args:
        verdicts: Those on published numbers, of `judge_published`.
    """
    empty = np.empty(0)
    keys = {(group.cell, group.framework): group for group in verdicts.groups}
    curves = {key: Curve(key[1], (), np.empty(0, np.int64), empty, empty, empty, 0) for key in keys}
    finals = {}
    for key, group in keys.items():
        mean, n = float(group.moments.mean), group.n
        half = 1.96 * float(group.moments.sd) * math.sqrt(n - 1) / n  # as the tables print it
        finals[key] = Interval(mean, mean - half, mean + half, n, "thesis")
    nothing = Loaded(Path(), (), ())
    return Material(nothing, verdicts, (), curves, finals, _bounds(verdicts), "thesis")


def frameworks_of(keys: Iterable[tuple[Cell, str]]) -> list[str]:
    """Every framework among them, sorted."""
    return sorted({name for _, name in keys})
