"""The answers to the three questions, from a folder of runs or from the published tables."""

import dataclasses
from collections.abc import Sequence

from analysis.consistency import PairVerdict, consistency
from analysis.groups import Group, groups_of_runs
from analysis.options import Options
from analysis.published import read_table
from analysis.ranking import RankingVerdict, rankings
from analysis.reproduction import (
    ReproductionVerdict,
    published_moments,
    reproduction_of_groups,
)
from analysis.runs import Cell, Loaded


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """Everything that is said of a study.

    Attributes:
        groups: Final scores per setting and framework, in order.
        reproduction: RQ1, against published numbers.
        consistency: RQ2, pairs of frameworks.
        rankings: RQ3, order of the algorithms.
        options: The settings behind the verdicts.
    """

    groups: tuple[Group, ...]
    reproduction: tuple[ReproductionVerdict, ...]
    consistency: tuple[PairVerdict, ...]
    rankings: tuple[RankingVerdict, ...]
    options: Options


def answer_runs(loaded: Loaded, options: Options) -> Answers:
    """The answers from runs."""
    groups = groups_of_runs(loaded)
    return _answer(groups, reproduction_of_groups(groups, options), options)


def answer_published(options: Options, table: str = "thesis_tables") -> Answers:
    """The answers from a published table alone.

    Args:
        options: Settings of the verdicts.
        table: Name of a table with a mean, a spread and a number of trials in each row.
    """
    groups = groups_of_published(table)
    return _answer(groups, reproduction_of_groups(groups, options), options)


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


def _answer(
    groups: Sequence[Group], reproduction: tuple[ReproductionVerdict, ...], options: Options
) -> Answers:
    return Answers(
        tuple(groups),
        reproduction,
        consistency(groups, options),
        rankings(groups, options),
        options,
    )
