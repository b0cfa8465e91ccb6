"""Crossed design: the recipes of several frameworks, each trained in several frameworks.

It separates the effect of a recipe from that of an implementation and measures their interaction,
which levels of alignment cannot.
"""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from parallax.analysis.stats.decomposition import CrossedVariance, estimate_crossed_variance
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.endpoints import find_solved_scale
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

_RESAMPLES = 2000
_MIN_SEEDS = 2


@dataclasses.dataclass(frozen=True, eq=False)
class CrossedDesign:
    """Scores of all recipes in all implementations, on one task.

    Attributes:
        scores: float64[recipes, frameworks, seeds], normalized: 0 does nothing, 1 is solved.
        low: Lower ends of their 95% bootstrap intervals over seeds, in the order of the
            attributes of `CrossedVariance`.
    """

    algorithm: str
    env: str
    recipes: tuple[str, ...]
    frameworks: tuple[str, ...]
    scores: FloatArray
    variance: CrossedVariance
    low: FloatArray
    high: FloatArray


def judge_crossed_designs(
    groups: Sequence[ScoreGroup], options: VerdictOptions
) -> tuple[CrossedDesign, ...]:
    """Judge every task on which two or more recipes of frameworks were run at `exact`.

    Each cell is cut to the number of seeds of the smallest one, so that the layout is balanced.
    """
    found: dict[tuple[str, ...], dict[tuple[str, str], ScoreGroup]] = collections.defaultdict(dict)
    names = {group.framework for group in groups}
    for group in groups:
        cell = group.cell
        if group.n >= _MIN_SEEDS and group.runs and cell.hps in names:
            spec = group.runs[0].spec
            if spec.get("alignment") == "exact" and spec.get("intervention", "none") == "none":
                key = (cell.study, cell.algorithm, cell.env, cell.variant)
                found[key][cell.hps, group.framework] = group
    designs = [_judge_design(cells, options) for _, cells in sorted(found.items())]
    return tuple(design for design in designs if design is not None)


def _judge_design(
    cells: dict[tuple[str, str], ScoreGroup], options: VerdictOptions
) -> CrossedDesign | None:
    recipes = tuple(sorted({recipe for recipe, _ in cells}))
    frameworks = tuple(sorted({name for _, name in cells}))
    cell = next(iter(cells.values())).cell
    scale = find_solved_scale(cell, options)
    size = min(group.n for group in cells.values())
    # A cell without runs makes the layout unbalanced: its recipe or framework has yet to be run.
    if scale is None or min(len(recipes), len(frameworks)) < 2:
        return None
    if len(cells) < len(recipes) * len(frameworks):
        return None
    scores = np.array(
        [
            [
                (np.asarray(cells[one, name].scores)[:size] - scale.zero) / scale.width
                for name in frameworks
            ]
            for one in recipes
        ]
    )
    low, high = _bootstrap_components(scores, np.random.default_rng(options.seed))
    estimate = estimate_crossed_variance(scores)
    return CrossedDesign(cell.algorithm, cell.env, recipes, frameworks, scores, estimate, low, high)


def _bootstrap_components(
    scores: FloatArray, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return basic bootstrap intervals over seeds (Davison & Hinkley 1997, section 5.2).

    Deviations from the means of cells are scaled so that their variance grows by n / (n - 1), since
    resampling n values makes it too small. The bootstrap treats the observed means as true ones.
    """
    n = scores.shape[2]
    means = scores.mean(axis=2, keepdims=True)
    wide = means + (scores - means) * np.sqrt(n / (n - 1))
    draws = np.empty((_RESAMPLES, 4))
    for number in range(_RESAMPLES):
        places = generator.integers(n, size=scores.shape)
        draws[number] = _to_array(
            estimate_crossed_variance(np.take_along_axis(wide, places, axis=2))
        )
    estimate = _to_array(estimate_crossed_variance(scores))
    # The bootstrap's true means are the observed ones, whose interaction includes seed noise.
    world = estimate + estimate[3] * np.array([0.0, 0.0, 1 / n, 0.0])
    below, above = np.quantile(draws - world, [0.025, 0.975], axis=0)
    return estimate - above, estimate - below


def _to_array(variance: CrossedVariance) -> FloatArray:
    return np.array(dataclasses.astuple(variance), dtype=np.float64)
