"""Frameworks as they come: each under its own defaults, so that recipes differ as well as code."""

import dataclasses
from collections.abc import Sequence

from analysis.data.runs import Cell
from analysis.verdicts.consistency import PairVerdict, consistency
from analysis.verdicts.groups import Group
from analysis.verdicts.options import Options
from analysis.words import OWN


def as_they_come(cell: Cell, framework: str) -> Cell:
    """The setting that a framework's own recipe shares with every other's; others as they are."""
    return dataclasses.replace(cell, hps=OWN) if cell.hps == framework else cell


def members(cell: Cell, groups: Sequence[Group]) -> list[Group]:
    """The groups of a setting, be it that of own defaults."""
    return [
        group for group in groups if cell in (group.cell, as_they_come(group.cell, group.framework))
    ]


def defaults(groups: Sequence[Group], options: Options) -> tuple[PairVerdict, ...]:
    """A verdict for every pair of frameworks of which each was run under its own defaults.

    As `consistency`, corrected over families of their own: the question is another one.

    Args:
        groups: Final scores.
        options: Level, margins, family and the seed of the permutations.
    """
    own = {
        (as_they_come(group.cell, group.framework), group.framework): group
        for group in groups
        if group.cell.hps == group.framework
    }
    together = [dataclasses.replace(group, cell=cell) for (cell, _), group in own.items()]
    return tuple(
        dataclasses.replace(
            item,
            first=own[item.cell, item.first.framework],
            second=own[item.cell, item.second.framework],
        )
        for item in consistency(together, options)
    )
