"""All families of figures by name."""

import dataclasses
from collections.abc import Callable, Sequence

from analysis.figures import (
    actions,
    curves,
    efficiency,
    highlights,
    improvement,
    intervals,
    profiles,
    ranks,
    reproduction,
    verdicts,
)
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.verdicts.study import Material


@dataclasses.dataclass(frozen=True)
class Family:
    """Figures that show the same thing of different parts of a study.

    Attributes:
        name: What it is called on the command line.
        summary: What it shows.
        sheets: Lists its figures, and those that have no data.
    """

    name: str
    summary: str
    sheets: Callable[[Material], list[Sheet | NotDrawn]]


FAMILIES = tuple(
    Family(*row)
    for row in (
        ("reproduction", "how often worse, similar, better than published", reproduction.sheets),
        ("highlights", "the settings that differ most, curves over scores", highlights.sheets),
        ("wrappers", "curves without and with wrappers", curves.wrapper_sheets),
        ("vectorised", "curves with one and several environments", curves.copies_sheets),
        ("actions", "distributions of actions under clipping and tanh", actions.sheets),
        ("intervals", "final scores with intervals, per algorithm", intervals.sheets),
        ("consistency", "curves of all frameworks, per algorithm", curves.consistency_sheets),
        ("ranking", "curves of all algorithms, per configuration", curves.ranking_sheets),
        ("verdicts", "matrix of verdicts on pairs of frameworks", verdicts.sheets),
        ("ranks", "ranks of algorithms in each framework", ranks.sheets),
        ("profiles", "performance profiles over all tasks", profiles.sheets),
        (
            "aggregates",
            "median, mean, interquartile mean, optimality gap",
            profiles.aggregate_sheets,
        ),
        ("efficiency", "interquartile mean over tasks, over steps", efficiency.sheets),
        ("improvement", "chance that one framework's run beats another's", improvement.sheets),
    )
)


def names() -> list[str]:
    """The names of all families."""
    return [family.name for family in FAMILIES]


def sheets(material: Material, only: Sequence[str]) -> dict[str, list[Sheet | NotDrawn]]:
    """The figures of some families, or of all where none is named; names are unique."""
    return {
        family.name: family.sheets(material)
        for family in FAMILIES
        if not only or family.name in only
    }
