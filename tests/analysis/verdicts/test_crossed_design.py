"""Crossed design: recipes of frameworks in other frameworks."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
from score_groups import install_torch, make_score_group

from parallax.analysis.data.runs import ExcludedRun, RunId, StudyCell
from parallax.analysis.report.document import Document
from parallax.analysis.report.render_markdown import render_markdown
from parallax.analysis.report.sections.crossed_design import make_crossed_section
from parallax.analysis.verdicts.crossed_design import judge_crossed_designs
from parallax.analysis.verdicts.options import VerdictOptions

OPTIONS = VerdictOptions(ranges=(("CartPole-v1", 0, 500),))

RECIPES = ("f0", "f1", "f2")


def make_cell(generator, recipe, number, effect, seeds=5):
    cell = StudyCell("crossed", "CartPole-v1", "ppo", recipe, "")
    scores = 100 + 300 * effect + 5 * generator.normal(size=seeds)
    return make_score_group(cell, f"f{number}", scores, {"alignment": "exact"})


def test_effects_of_recipes_and_implementations_are_separated():
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


def test_intervals_of_components_are_around_their_estimates():
    """The bootstrap neither shrinks the seeds' variance nor takes it for an interaction."""
    generator = np.random.default_rng(4)
    groups = []
    for recipe, number in itertools.product(range(7), range(7)):
        cell = StudyCell("crossed", "CartPole-v1", "ppo", f"f{recipe}", "")
        scores = 100 + 40 * recipe + 20 * number + 30 * generator.normal(size=3)
        groups.append(make_score_group(cell, f"f{number}", scores, {"alignment": "exact"}))
    (found,) = judge_crossed_designs(groups, OPTIONS)
    estimate = np.array(dataclasses.astuple(found.variance))
    middle, half = (found.high + found.low) / 2, (found.high - found.low) / 2
    assert (abs(middle - estimate) < 0.3 * half).all()
    # A mean square has the variance 2 / degrees of freedom.
    assert half[3] == pytest.approx(1.96 * np.sqrt(2 / 98) * (30 / 500) ** 2, rel=0.35)


def test_only_unchanged_runs_of_frameworks_recipes_at_equal_hyperparameters_are_judged():
    generator = np.random.default_rng(0)
    groups = [make_cell(generator, recipe, n, 0.5) for recipe in RECIPES[:2] for n in range(2)]
    more = [
        make_cell(generator, "original", 0, 0.5),
        make_cell(generator, "f9", 0, 0.5),
        make_cell(generator, "f0", 2, 0.5, seeds=1),
    ]
    for spec in ({"alignment": "common"}, {"alignment": "exact", "intervention": "huber-loss"}):
        cell = StudyCell("crossed", "CartPole-v1", "ppo", "f1", "")
        more.append(make_score_group(cell, "f3", np.arange(5.0), spec))
    (found,) = judge_crossed_designs([*groups, *more], OPTIONS)
    assert (found.recipes, found.frameworks) == (("f0", "f1"), ("f0", "f1"))
    assert (found.algorithm, found.env) == ("ppo", "CartPole-v1")
    scores = np.append(groups[0].scores, 900.0)
    many = make_score_group(groups[0].cell, "f0", scores, {"alignment": "exact"})
    (cut,) = judge_crossed_designs([many, *groups[1:]], OPTIONS)
    assert np.array_equal(cut.scores, found.scores) and cut.scores.shape == (2, 2, 5)
    assert (cut.left_out, found.left_out) == (1, 0)
    page = render_markdown(Document("", (make_crossed_section(cut),)))
    assert "equally many runs: 1." in page
    no_scale = [
        dataclasses.replace(one, cell=dataclasses.replace(one.cell, env="My-v1")) for one in groups
    ]
    assert judge_crossed_designs(no_scale, OPTIONS) == ()


def make_failed_run(cell, framework, seed):
    return ExcludedRun(RunId(cell, framework, seed), Path(f"{seed}"), "failed", failed=True)


def test_failed_runs_of_a_crossed_design_count_as_0():
    generator = np.random.default_rng(0)
    groups = [make_cell(generator, recipe, n, 0.5) for recipe in RECIPES[:2] for n in range(2)]
    first, other = groups[0], groups[3]
    runs = tuple(run for run in first.runs if run.id.seed != 1)
    groups[0] = dataclasses.replace(
        first.replace_scores(np.delete(first.scores, 1)),
        runs=runs,
        failed=1,
        failed_runs=(make_failed_run(first.cell, "f0", 1),),
    )
    failed = tuple(make_failed_run(other.cell, "f1", seed) for seed in range(5))
    groups[3] = dataclasses.replace(other.replace_scores([]), runs=(), failed=5, failed_runs=failed)
    (found,) = judge_crossed_designs(groups, OPTIONS)
    assert found.scores.shape == (2, 2, 5) and (found.failed, found.left_out) == (6, 0)
    assert found.scores[0, 0, 1] == 0 and not found.scores[1, 1].any()
    assert np.count_nonzero(found.scores) == 14
    page = render_markdown(Document("", (make_crossed_section(found),)))
    assert "Failed runs count as 0: 6." in page


def test_versions_that_differ_in_a_crossed_design_are_named():
    generator = np.random.default_rng(0)
    groups = [make_cell(generator, recipe, n, 0.5) for recipe in RECIPES[:2] for n in range(2)]
    mixed = [install_torch(one, f"2.{number}") for number, one in enumerate(groups)]
    pages = []
    for items in (groups, mixed):
        (found,) = judge_crossed_designs(items, OPTIONS)
        pages.append(render_markdown(Document("", (make_crossed_section(found),))))
    text = "Compared runs have different versions of torch 2.0 and 2.1 and 2.2 and 2.3."
    assert [text in page for page in pages] == [False, True]


def test_shares_of_training_are_not_normalized_by_returns():
    generator = np.random.default_rng(0)
    groups = [make_cell(generator, recipe, n, 0.5) for recipe in RECIPES[:2] for n in range(2)]
    groups = [group.replace_scores(np.linspace(0.2, 0.6, 5)) for group in groups]
    options = dataclasses.replace(OPTIONS, endpoint="steps-90")
    (found,) = judge_crossed_designs(groups, options)
    assert found.scores[1, 1] == pytest.approx(np.linspace(0.2, 0.6, 5))
    page = render_markdown(Document("", (make_crossed_section(found),)))
    assert "shares of training" in page and "1 is solved" not in page


def test_designs_of_one_task_are_named_by_their_variants():
    generator = np.random.default_rng(0)
    groups = [make_cell(generator, recipe, n, 0.5) for recipe in RECIPES[:2] for n in range(2)]
    (alone,) = judge_crossed_designs(groups, OPTIONS)
    others = [
        dataclasses.replace(one, cell=dataclasses.replace(one.cell, variant="n_envs=8"))
        for one in groups
    ]
    found = judge_crossed_designs([*groups, *others], OPTIONS)
    assert alone.settings == "" and [one.settings for one in found] == [
        "crossed",
        "crossed, n_envs=8",
    ]
    assert found[1].name == "PPO on CartPole-v1 (crossed, n_envs=8)"
