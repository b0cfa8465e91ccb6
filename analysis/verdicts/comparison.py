"""Compares frameworks in each setting by the final score of their seeds."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from analysis.data.runs import Cell, Loaded
from analysis.stats.intervals import Interval, interval, welch
from analysis.stats.moments import Floats
from analysis.verdicts.groups import Group, by_cell, groups_of_runs


@dataclasses.dataclass(frozen=True)
class Score:
    """How one framework did in one setting.

    Attributes:
        group: The framework's runs in the setting.
        final: Their final score over seeds, in units of return.
    """

    group: Group
    final: Interval


@dataclasses.dataclass(frozen=True)
class Furthest:
    """The two frameworks whose means are furthest apart.

    Attributes:
        higher: The framework with the higher mean.
        lower: The other.
        difference: Higher minus lower mean, with Welch's interval for this pair.
    """

    higher: str
    lower: str
    difference: Interval


@dataclasses.dataclass(frozen=True)
class Comparison:
    """All frameworks in one setting.

    Attributes:
        cell: The setting.
        scores: One per framework, by name.
        furthest: None if fewer than two frameworks have a run that is used.
    """

    cell: Cell
    scores: tuple[Score, ...]
    furthest: Furthest | None


def compare(loaded: Loaded, method: str, rng: np.random.Generator) -> tuple[Comparison, ...]:
    """One comparison per setting that has a folder, whether or not its runs are used.

    Args:
        loaded: What was found.
        method: One of `analysis.stats.intervals.METHODS`, for the frameworks' own intervals.
        rng: Source of bootstrap resamples.
    """
    cells = by_cell(groups_of_runs(loaded))
    return tuple(_compare_cell(cell, groups, method, rng) for cell, groups in cells.items())


def furthest_apart(finals: Mapping[str, Floats]) -> Furthest | None:
    """The pair of frameworks with the largest difference of means.

    The interval belongs to this pair alone: it is not widened for the pair having been
    chosen because it differs most.

    Args:
        finals: float[n] final scores by framework; empty ones are passed over.
    """
    present = {name: values for name, values in sorted(finals.items()) if len(values)}
    if len(present) < 2:
        return None
    higher, lower = max(
        itertools.permutations(present, 2),
        key=lambda pair: present[pair[0]].mean() - present[pair[1]].mean(),
    )
    return Furthest(higher, lower, welch(present[higher], present[lower]))


def _compare_cell(
    cell: Cell, groups: Sequence[Group], method: str, rng: np.random.Generator
) -> Comparison:
    finals = {group.framework: group.scores for group in groups if group.scores is not None}
    scores = tuple(Score(g, interval(finals[g.framework], method, rng)) for g in groups)
    return Comparison(cell, scores, furthest_apart(finals))
