"""Crossed design: recipes of frameworks in other frameworks."""

from pathlib import Path

import numpy as np

from parallax.analysis.data.runs import CompletedRun, RunId, StudyCell
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.crossed_design import judge_crossed_designs
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions

OPTIONS = VerdictOptions(ranges=(("CartPole-v1", 0, 500),))

RECIPES = ("f0", "f1", "f2")


def make_cell(generator, recipe, number, effect, seeds=5):
    cell = StudyCell("crossed", "CartPole-v1", "ppo", recipe, "")
    scores = 100 + 300 * effect + 5 * generator.normal(size=seeds)
    zeros = np.zeros((1, 1))
    runs = tuple(
        CompletedRun(
            RunId(cell, f"f{number}", seed),
            Path(),
            np.array([1000]),
            zeros,
            zeros.astype(int),
            {"alignment": "exact"},
        )
        for seed in range(seeds)
    )
    moments = compute_moments(scores)
    return ScoreGroup(cell, f"f{number}", moments, 0.0, scores, runs, seeds, seeds, (1000,))


def test_recipes_and_implementations_are_told_apart():
    generator = np.random.default_rng(0)
    groups = [
        make_cell(generator, recipe, number, 0.3 * RECIPES.index(recipe))
        for recipe in RECIPES
        for number in range(3)
    ]
    (found,) = judge_crossed_designs(groups, OPTIONS)
    assert found.recipes == found.frameworks == RECIPES
    assert found.scores.shape == (3, 3, 5)
    assert found.low[0] > 0.01
    assert found.low[1] < found.variance.implementation < found.high[1] < 0.01
    assert (found.low < found.high).all()


def test_a_layout_with_an_empty_cell_is_not_judged():
    generator = np.random.default_rng(0)
    groups = [make_cell(generator, recipe, n, 0.5) for recipe in RECIPES for n in range(3)][:-1]
    assert judge_crossed_designs(groups, VerdictOptions()) == ()
