"""Hyperparameters that differ between the frameworks of a setting."""

import dataclasses
import json
from pathlib import Path

import numpy as np

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.runs import CompletedRun, RunId, StudyCell
from parallax.analysis.report.render_markdown import render_blocks, render_words
from parallax.analysis.report.sections.hyperparameters import (
    describe_differences,
    describe_equal_hyperparameters,
    describe_pair_differences,
    describe_recipe_coverage,
    describe_unequal_recipes,
    list_hyperparameter_differences,
)
from parallax.analysis.report.sections.pair_tables import make_consistency_table
from parallax.analysis.report.sections.pairs_by_setting import make_setting_sections
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_study


def words_of(describe, *arguments):
    return render_words(describe(*arguments))


def tables_of(runs):
    return list(render_blocks(list_hyperparameter_differences(runs)))


def run(framework, seed=0, algorithm="dqn", **values):
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
        effective_hyperparameters=values,
    )


def test_a_difference_is_listed_with_every_value():
    runs = [run("sb3", tau=1.0, hidden_sizes=[64, 64]), run("cleanrl", tau=1.0, hidden_sizes=None)]
    assert "[listed](#hyperparameters-set-equal-and-those-that-are-not)" in words_of(
        describe_differences, runs, False
    )
    assert (
        words_of(describe_pair_differences, runs[:1], runs[1:])
        == "; 1 of 2 hyperparameters differs (`hidden_sizes`); in code, by the interventions that "
        "remove it: CleanRL uniform-warmup"
    )
    assert words_of(describe_equal_hyperparameters, runs).startswith(
        " 1 of 2 hyperparameters are [equal](#hyperparameters-set"
    )
    assert words_of(describe_equal_hyperparameters, [run("sb3")]) == ""
    assert describe_unequal_recipes(runs).endswith(
        "1 of 2 of DQN under RL Baselines3 Zoo's values."
    )
    words, table = tables_of(runs)
    assert "2 frameworks: 1 of 2 set equal: `tau`." in words
    (row,) = [line for line in table.splitlines() if "hidden_sizes" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "`hidden_sizes`",
        "none",
        "64, 64",
    ]


def test_values_of_a_framework_that_differ_by_seed_are_all_listed():
    runs = [run("sb3", 0, tau=1.0), run("sb3", 1, tau=0.5), run("cleanrl", tau=1.0)]
    assert "1 or 0.5" in tables_of(runs)[1]


def test_equal_hyperparameters_are_not_listed():
    runs = [run("sb3", tau=1.0), run("torchrl", tau=1.0)]
    assert "differ in the framework and the seed" in words_of(describe_differences, runs, False)
    assert (
        not describe_unequal_recipes(runs)
        and words_of(describe_pair_differences, runs[:1], runs[1:]) == ""
    )
    assert len(tables_of(runs)) == 1 and tables_of([run("sb3")]) == []


def test_causes_are_mentioned_only_with_ablations():
    runs = [run("sb3", tau=1.0), run("cleanrl", tau=1.0)]
    assert "Comparisons alone do not show" in words_of(describe_differences, runs, False)
    assert "ablations" not in words_of(
        describe_differences, runs, False
    ) and "ablations" in words_of(describe_differences, runs, True)


def with_request(one, **values):
    return dataclasses.replace(one, spec={"hyperparameters": values})


def test_recipe_values_are_listed_next_to_those_of_frameworks():
    recipe = {"tau": 1.0, "interval": 10, "hidden_sizes": [256, 256]}
    runs = [
        with_request(run("sb3", tau=1.0, interval=10000, hidden_sizes=[64, 64]), **recipe),
        with_request(run("cleanrl", tau=1.0, interval=500, hidden_sizes=[64, 64]), **recipe),
    ]
    assert describe_recipe_coverage([runs[:1], runs[1:]]) == " (1 of 3 set)"
    words, table = tables_of(runs)
    assert "2 of 3 set equal: `tau`, `hidden_sizes` (but 64, 64, recipe 256, 256)." in words
    (row,) = [line for line in table.splitlines() if "interval" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")][1:] == ["10", "500", "10000"]


def test_complete_or_own_recipe_needs_no_remark():
    assert describe_recipe_coverage([[with_request(run("sb3", tau=1.0), tau=1.0)]]) == ""
    own = with_request(run("zoo", tau=0.5), tau=1.0)  # recipes of frameworks may have other units
    assert (
        describe_recipe_coverage([[own]]) == describe_recipe_coverage([[run("sb3", tau=1.0)]]) == ""
    )


def counted(one, **update_schedule):
    return dataclasses.replace(one, record=json.dumps({"update_schedule": update_schedule}))


def test_different_numbers_of_updates_are_listed_though_hyperparameters_are_equal():
    every = counted(run("sbx", tau=1.0), total_gradient_steps=3000, target_updates=3000)
    second = counted(run("sb3", tau=1.0), total_gradient_steps=2999, target_updates=1499)
    expected = "; updates of the target: SB3 1499, sbx 3000"
    assert words_of(describe_pair_differences, [second], [every]) == expected
    assert words_of(describe_pair_differences, [every], [every]) == ""


def test_numbers_of_updates_are_listed_with_hyperparameters():
    runs = [
        counted(run("sb3", 0, tau=1.0), total_gradient_steps=3000, target_updates=1500),
        counted(run("sb3", 1, tau=1.0), total_gradient_steps=3000, target_updates=1499),
        counted(run("sbx", 0, tau=1.0), total_gradient_steps=3000, target_updates=3000),
        run("old", tau=1.0),  # records nothing
    ]
    _, table = tables_of(runs)
    assert "gradient steps" not in table  # all alike
    (row,) = [line for line in table.splitlines() if "updates of the target" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")][1:] == ["-", "1499 to 1500", "3000"]


def test_numbers_of_updates_that_a_divergence_may_end_are_bounds():
    runs = [
        counted(run("sb3", target_kl=0.1), total_gradient_steps=30),
        counted(run("skrl", target_kl=0.1), total_gradient_steps=20),
    ]
    _, table = tables_of(runs)
    assert "gradient steps made, at most" in table


def test_library_defaults_are_described_as_intended_differences():
    cell = StudyCell("study", "CartPole-v1", "dqn", "defaults", "steps=10,alignment=defaults")
    runs = [
        dataclasses.replace(one, id=dataclasses.replace(one.id, cell=cell))
        for one in (run("sb3", tau=1.0), run("cleanrl", tau=0.5))
    ]
    assert describe_unequal_recipes(runs) == ""
    assert "the seed and, with own hyperparameters, these" in words_of(
        describe_differences, runs, False
    )


def test_rows_of_pairs_list_what_still_differs(results, make_run):
    for framework, gamma in (("sb3", 0.99), ("skrl", 0.9), ("torchrl", 0.99)):
        for seed in range(2):
            file = make_run(framework=framework, seed=seed) / "run.json"
            record = json.loads(file.read_text())
            record["hyperparameters"] = {"gamma": gamma, "clip_range": 0.2}
            file.write_text(json.dumps(record))
    verdicts = judge_study(load_runs(results), VerdictOptions(resamples=100)).verdicts
    table = make_consistency_table(verdicts)
    found = {
        (item.first.framework, item.second.framework): {
            column.key: column.get_value(item) for column in table.columns
        }
        for item in table.items
    }
    (section,) = make_setting_sections(verdicts, verdicts.main_consistency)
    grid = section.blocks[-1]
    shown = {row[0]: row[-1] for row in grid.rows}
    assert shown["SB3 - skrl"].startswith("gamma; ") and "unsquashed" in shown["SB3 - TorchRL"]
    skrl, torchrl = found["sb3", "skrl"], found["sb3", "torchrl"]
    assert skrl["hyperparameter_differences"] == "gamma"
    assert torchrl["hyperparameter_differences"] == ""
    assert "unsquashed-gaussian" in torchrl["code_differences"]
