"""Crossed design: recipes of frameworks in other frameworks."""

import numpy as np
from score_groups import make_score_group

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.verdicts.crossed_design import judge_crossed_designs
from parallax.analysis.verdicts.options import VerdictOptions

OPTIONS = VerdictOptions(ranges=(("CartPole-v1", 0, 500),))

RECIPES = ("f0", "f1", "f2")


def make_cell(generator, recipe, number, effect, seeds=5):
    cell = StudyCell("crossed", "CartPole-v1", "ppo", recipe, "")
    scores = 100 + 300 * effect + 5 * generator.normal(size=seeds)
    return make_score_group(cell, f"f{number}", scores, {"alignment": "exact"})


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


def test_zero_is_the_lower_end_of_the_range():
    generator = np.random.default_rng(0)
    groups = [make_cell(generator, recipe, n, 0.0) for recipe in RECIPES for n in range(3)]
    options = VerdictOptions(ranges=(("CartPole-v1", 100, 500),))
    (found,) = judge_crossed_designs(groups, options)  # scores of about 100
    assert abs(found.scores).max() < 0.1


def test_two_recipes_in_two_frameworks_are_the_smallest_layout():
    generator = np.random.default_rng(0)
    groups = [make_cell(generator, recipe, n, 0.5) for recipe in RECIPES[:2] for n in range(2)]
    (found,) = judge_crossed_designs(groups, OPTIONS)
    assert found.scores.shape == (2, 2, 5)
    assert judge_crossed_designs(groups[:2], OPTIONS) == ()
    assert judge_crossed_designs(groups[::2], OPTIONS) == ()
