"""Final scores in the layout of the thesis' Tables 9 to 11: one table per algorithm."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from analysis.answers import Answers
from analysis.naming import file_name, recipe_order, suffix
from analysis.notes import FORMULAS
from analysis.runs import Cell
from analysis.score_cells import ScoreCell, Sizes, marked_cells


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
    table = {(cell.hps, framework, cell.env): item for (cell, framework), item in own.items()}
    heads = sorted({(recipe_order(cell.hps), framework) for cell, framework in own})
    rows = tuple(
        (hps, framework, tuple(table.get((hps, framework, env)) for env in tasks))
        for (_, hps), framework in heads
    )
    counts = [cell.sizes for cell in own.values()]
    sizes = max(sorted(set(counts), reverse=True), key=counts.count)
    shown = [group for group in answers.groups if (group.cell, group.framework) in own]
    steps = sorted({step for group in shown for step in group.steps})
    apart = suffix((cell for cell, _ in cells), study, variant, algorithm)
    name = file_name("scores", algorithm, *apart)
    title = ", ".join(part for part in (algorithm.upper(), *apart) if part)
    caption = _caption(algorithm.upper(), study, variant, steps, sizes, answers, method)
    return ScoreTable(name, title, tasks, rows, sizes, method, caption)


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
