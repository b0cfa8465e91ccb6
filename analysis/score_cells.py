"""Final scores with their intervals, the best and those tied with it marked."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from analysis.answers import Answers
from analysis.consistency import PairVerdict
from analysis.groups import Group
from analysis.intervals import interval
from analysis.runs import Cell

BEST, TIED = "best", "tied"
Sizes = tuple[int, int, int]  # runs requested, completed, used


@dataclasses.dataclass(frozen=True)
class ScoreCell:
    """One framework in one setting.

    Attributes:
        mean: Mean over seeds of the final score; NaN without a run.
        low: Lower end of the interval; NaN below two runs.
        high: Upper end.
        sizes: Runs requested, completed and used.
        mark: `best`, `tied` or empty.
        key: Setting and framework.
    """

    mean: float
    low: float
    high: float
    sizes: Sizes
    mark: str
    key: tuple[Cell, str]


def marked_cells(
    answers: Answers, method: str, rng: np.random.Generator
) -> dict[tuple[Cell, str], ScoreCell]:
    """Every group as a cell, with the best and those tied with it marked."""
    groups: dict[Cell, list[Group]] = {}
    for group in answers.groups:
        groups.setdefault(group.cell, []).append(group)
    verdicts = {
        (item.cell, frozenset((item.first.framework, item.second.framework))): item
        for item in answers.consistency
    }
    return {
        (cell, group.framework): _cell(group, mark, method, rng)
        for cell, members in groups.items()
        for group, mark in _marks(members, verdicts)
    }


def _marks(
    members: list[Group], verdicts: Mapping[tuple[Cell, frozenset[str]], PairVerdict]
) -> list[tuple[Group, str]]:
    scored = [group for group in members if group.n]
    if len(scored) < 2:
        return [(group, "") for group in members]
    top = max(scored, key=lambda group: float(group.moments.mean))
    found = []
    for group in members:
        item = verdicts.get((group.cell, frozenset((top.framework, group.framework))))
        best = bool(group.n) and float(group.moments.mean) == float(top.moments.mean)
        tied = item is not None and not math.isnan(item.p_holm) and not item.detectable
        found.append((group, BEST if best else TIED if tied else ""))
    return found


def _cell(group: Group, mark: str, method: str, rng: np.random.Generator) -> ScoreCell:
    scores = np.zeros(0) if group.scores is None else group.scores
    found = interval(scores, method, rng)
    sizes = (group.requested, group.completed, group.n)
    key = (group.cell, group.framework)
    return ScoreCell(found.mean, found.low, found.high, sizes, mark, key)
