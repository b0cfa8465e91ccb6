"""Final scores in the layout of the thesis' Tables 9 to 11: one table per algorithm."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from analysis.answers import Answers
from analysis.consistency import PairVerdict
from analysis.groups import Group
from analysis.intervals import interval
from analysis.naming import file_name, suffix
from analysis.notes import FORMULAS
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


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """The frameworks under all sets of hyperparameters, on all tasks.

    Attributes:
        name: Name of its files, without ending.
        title: Heading.
        tasks: Columns.
        rows: Hyperparameters, framework, and one cell per task; None where nothing was run.
        sizes: The most frequent numbers of runs; cells say where theirs differ.
        method: Method of the intervals.
        caption: What it shows and what marks mean.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[ScoreCell | None, ...]], ...]
    sizes: Sizes
    method: str
    caption: str


def score_tables(answers: Answers, method: str = "t") -> tuple[ScoreTable, ...]:
    """A table for each study, algorithm and variant.

    Args:
        answers: Groups, and the verdicts that say which of them are tied.
        method: One of `analysis.intervals.METHODS`.
    """
    rng = np.random.default_rng(answers.options.seed)
    cells = marked_cells(answers, method, rng)
    keys = sorted({(cell.study, cell.algorithm, cell.variant) for cell, _ in cells})
    return tuple(_table(*key, cells, answers, method) for key in keys)


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


def _table(
    study: str,
    algorithm: str,
    variant: str,
    cells: Mapping[tuple[Cell, str], ScoreCell],
    answers: Answers,
    method: str,
) -> ScoreTable:
    own = {
        key: cell
        for key, cell in cells.items()
        if (key[0].study, key[0].algorithm, key[0].variant) == (study, algorithm, variant)
    }
    tasks = tuple(sorted({cell.env for cell, _ in own}))
    heads = sorted({(recipe_order(cell.hps), framework) for cell, framework in own})
    rows = tuple(
        (
            hps,
            framework,
            tuple(own.get((Cell(study, env, algorithm, hps, variant), framework)) for env in tasks),
        )
        for (_, hps), framework in heads
    )
    counts = [cell.sizes for cell in own.values()]
    sizes = max(sorted(set(counts), reverse=True), key=counts.count)
    steps = sorted(
        {
            step
            for group in answers.groups
            if (group.cell, group.framework) in own
            for step in group.steps
        }
    )
    apart = suffix((cell for cell, _ in cells), study, variant, algorithm)
    name = file_name("scores", algorithm, *apart)
    title = ", ".join(part for part in (algorithm.upper(), *apart) if part)
    caption = _caption(algorithm.upper(), study, variant, steps, sizes, answers, method)
    return ScoreTable(name, title, tasks, rows, sizes, method, caption)


def recipe_order(name: str) -> tuple[int, str]:
    """Sorts sets of hyperparameters as the thesis does, others by name behind them."""
    order = ("sb3", "cleanrl", "torchrl", "tianshou", "original")
    return (order.index(name) if name in order else len(order), name)


def _caption(
    algorithm: str,
    study: str,
    variant: str,
    steps: list[int],
    sizes: Sizes,
    answers: Answers,
    method: str,
) -> str:
    at = " to ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1]))) if steps else "-"
    return (
        f"Final scores of {algorithm} (study {study}{', ' * bool(variant)}{variant}): mean over "
        f"seeds of the mean return of the last evaluation, at {at} steps, with 95% interval "
        f"({method}: {FORMULAS[method]}). HPS: hyperparameters; FW: framework. Bold: best mean "
        "under the same hyperparameters. Italic: tied with it, that is not different at "
        f"{answers.options.alpha:.0%} by Welch's test after Holm's correction and a permutation "
        f"test, which does not show equality. n = {'/'.join(map(str, sizes))} runs "
        "requested/completed/used unless a cell says otherwise."
    )
