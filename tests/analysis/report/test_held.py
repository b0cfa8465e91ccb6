"""Which hyperparameters differ between the frameworks of a setting."""

import dataclasses
import json
from pathlib import Path

import numpy as np

from parallax.analysis.data.runs import CompletedRun, RunId, StudyCell
from parallax.analysis.report.sections.hyperparameters import (
    describe_differences,
    describe_equal_hyperparameters,
    describe_pair_differences,
    describe_recipe_coverage,
    describe_unequal_recipes,
    render_hyperparameter_differences,
)


def run(framework, seed=0, algorithm="dqn", **held):
    cell = StudyCell("study", "CartPole-v1", algorithm, "zoo", "")
    scores = np.zeros((1, 2))
    where = Path(framework)
    return CompletedRun(
        RunId(cell, framework, seed),
        where,
        np.array([1]),
        scores,
        scores.astype(int),
        {},
        effective_hyperparameters=held,
    )


def test_what_differs_is_told_with_every_value():
    runs = [run("sb3", tau=1.0, hidden_sizes=[64, 64]), run("cleanrl", tau=1.0, hidden_sizes=None)]
    assert "[listed](#hyperparameters-set-equal-and-those-that-are-not)" in describe_differences(
        runs, False
    )
    assert (
        describe_pair_differences(runs[:1], runs[1:])
        == "; 1 of 2 hyperparameters differs (`hidden_sizes`)"
    )
    assert describe_equal_hyperparameters(runs).startswith(
        " 1 of 2 hyperparameters are [equal](#hyperparameters-set"
    )
    assert describe_equal_hyperparameters([run("sb3")]) == ""
    assert describe_unequal_recipes(runs).endswith(
        "1 of 2 of DQN under RL Baselines3 Zoo's values."
    )
    words, table = render_hyperparameter_differences(runs)
    assert "2 frameworks: 1 of 2 set equal: `tau`." in words
    (row,) = [line for line in table.splitlines() if "hidden_sizes" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "`hidden_sizes`",
        "none",
        "64, 64",
    ]


def test_values_of_a_framework_that_differ_by_seed_are_all_told():
    runs = [run("sb3", 0, tau=1.0), run("sb3", 1, tau=0.5), run("cleanrl", tau=1.0)]
    assert "1 or 0.5" in render_hyperparameter_differences(runs)[1]


def test_where_all_is_alike_nothing_is_said_to_be_ones_own():
    runs = [run("sb3", tau=1.0), run("cleanrl", tau=1.0)]
    assert "is the framework and the seed" in describe_differences(runs, False)
    assert (
        not describe_unequal_recipes(runs) and describe_pair_differences(runs[:1], runs[1:]) == ""
    )
    assert (
        len(render_hyperparameter_differences(runs)) == 1
        and render_hyperparameter_differences([run("sb3")]) == []
    )


def test_what_says_why_is_told_only_with_ablations():
    runs = [run("sb3", tau=1.0), run("cleanrl", tau=1.0)]
    assert "comparisons alone do not say" in describe_differences(runs, False)
    assert "ablations" not in describe_differences(
        runs, False
    ) and "ablations" in describe_differences(runs, True)


def asked(one, **values):
    return dataclasses.replace(one, spec={"hyperparameters": values})


def test_the_recipe_stands_beside_what_frameworks_have_instead():
    recipe = {"tau": 1.0, "interval": 10, "hidden_sizes": [256, 256]}
    runs = [
        asked(run("sb3", tau=1.0, interval=10000, hidden_sizes=[64, 64]), **recipe),
        asked(run("cleanrl", tau=1.0, interval=500, hidden_sizes=[64, 64]), **recipe),
    ]
    assert describe_recipe_coverage([runs[:1], runs[1:]]) == " (1 of 3 set)"
    words, table = render_hyperparameter_differences(runs)
    assert "2 of 3 set equal: `tau`, `hidden_sizes` (but 64, 64, recipe 256, 256)." in words
    (row,) = [line for line in table.splitlines() if "interval" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")][1:] == ["10", "500", "10000"]


def test_a_recipe_that_is_held_whole_or_is_ones_own_needs_no_word():
    assert describe_recipe_coverage([[asked(run("sb3", tau=1.0), tau=1.0)]]) == ""
    own = asked(run("zoo", tau=0.5), tau=1.0)  # recipes of frameworks may have other units
    assert (
        describe_recipe_coverage([[own]]) == describe_recipe_coverage([[run("sb3", tau=1.0)]]) == ""
    )


def counted(one, **update_schedule):
    return dataclasses.replace(one, record=json.dumps({"update_schedule": update_schedule}))


def test_two_that_learn_at_another_pace_are_told_though_their_hyperparameters_are_alike():
    every = counted(run("sbx", tau=1.0), total_gradient_steps=3000, target_updates=3000)
    second = counted(run("sb3", tau=1.0), total_gradient_steps=2999, target_updates=1499)
    told = "; updates of the target: SB3 1499, sbx 3000"
    assert describe_pair_differences([second], [every]) == told
    assert describe_pair_differences([every], [every]) == ""


def test_how_often_each_learned_stands_beside_what_it_was_held_to():
    runs = [
        counted(run("sb3", 0, tau=1.0), total_gradient_steps=3000, target_updates=1500),
        counted(run("sb3", 1, tau=1.0), total_gradient_steps=3000, target_updates=1499),
        counted(run("sbx", 0, tau=1.0), total_gradient_steps=3000, target_updates=3000),
        run("old", tau=1.0),  # tells nothing
    ]
    _, table = render_hyperparameter_differences(runs)
    assert "gradient steps" not in table  # all alike
    (row,) = [line for line in table.splitlines() if "updates of the target" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")][1:] == ["-", "1499 to 1500", "3000"]
