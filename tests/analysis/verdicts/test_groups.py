"""Runs of a group are in the order of their seeds."""

import dataclasses
import types
from pathlib import Path

import numpy as np
import pytest
from score_groups import make_curve_run, make_score_group

from parallax.analysis.data.runs import ExcludedRun, LoadedRuns, RunId, StudyCell
from parallax.analysis.verdicts.groups import (
    UnknownScaleError,
    _get_seed_key,
    collect_library_defaults,
    find_main_variants,
    find_step_threshold,
    group_by_cell,
    group_runs,
    list_group_pairs,
    make_group,
    to_own_recipe,
)
from parallax.analysis.verdicts.options import VerdictOptions


def test_runs_are_ordered_by_seed_with_unknown_seeds_first():
    runs = [types.SimpleNamespace(id=types.SimpleNamespace(seed=seed)) for seed in (3, None, 0, 2)]
    assert [run.id.seed for run in sorted(runs, key=_get_seed_key)] == [None, 0, 2, 3]


def test_runs_without_a_known_seed_or_score_are_not_paired():
    cell = StudyCell("s", "Hopper-v4", "ppo", "original", "")
    whole = make_score_group(cell, "a", np.array([1.0, 2.0, 3.0]), {})
    assert whole.scores_by_seed == {0: 1.0, 1: 2.0, 2: 3.0}
    assert whole.paths == (Path(), Path(), Path())
    unknown = dataclasses.replace(
        whole.runs[1], id=dataclasses.replace(whole.runs[1].id, seed=None)
    )
    runs = (whole.runs[0], unknown, whole.runs[2])
    changed = dataclasses.replace(whole, runs=runs)
    assert changed.scores_by_seed == {0: 1.0, 2: 3.0} and changed.seeds == (0, None, 2)
    assert dataclasses.replace(whole, scores=None).scores_by_seed == {}
    with pytest.raises(ValueError, match="longer"):
        dataclasses.replace(whole, scores=np.arange(4.0)).scores_by_seed  # noqa: B018


CELL = StudyCell("s", "Mine-v1", "ppo", "original", "")
STEPS = VerdictOptions(endpoint="steps-80", ranges=(("Mine-v1", 100.0, 200.0),))


def make_items():
    gone = RunId(CELL, "sb3", 9)
    return [
        make_curve_run(CELL, "sb3", 3, [100, 200], [[1.0, 3.0], [190.0, 170.0]]),
        ExcludedRun(gone, Path("copy"), "a copy", completed=True),
        make_curve_run(CELL, "sb3", 1, [100, 300], [[150.0, 210.0], [8.0, 8.0]]),
        ExcludedRun(gone, Path("broken"), "broke", failed=True),
        make_curve_run(CELL, "sb3", 2, [100, 200], [[1.0, 3.0], [179.0, 179.0]]),
        ExcludedRun(gone, Path("running"), "running"),
    ]


def test_a_group_has_its_runs_by_seed_and_counts_all_folders():
    items = make_items()
    group = make_group(CELL, "sb3", items)
    assert (group.requested, group.completed, group.failed, group.n) == (6, 4, 1, 3)
    assert group.seeds == (1, 2, 3) and group.steps == (200, 300)
    assert group.scores.tolist() == [8.0, 179.0, 180.0]
    assert group.failed_runs == (items[3],) and group.censored is None
    assert (group.rounding, group.source, group.final_scores) == (0.0, "", None)
    timed = make_group(CELL, "sb3", items, STEPS)
    assert timed.scores.tolist() == [1 - 100 / 300, 0.0, 0.0]  # from 180 on, at the very end
    assert timed.censored.times.tolist() == [100.0, 200.0, 200.0]
    assert timed.censored.reached.tolist() == [True, False, True]
    assert timed.final_group.scores.tolist() == group.scores.tolist()
    assert timed.final_group.censored is None
    assert dataclasses.replace(group, runs=()).final_group.scores is group.scores
    finals = dataclasses.replace(timed, runs=(), final_scores=np.array([4.0, 5.0]))
    assert finals.final_group.scores.tolist() == [4.0, 5.0] and finals.final_group.n == 2


def test_score_at_a_step_is_that_of_the_nearest_evaluation():
    group = make_group(CELL, "sb3", make_items())
    near = group.score_at_step(150)
    assert near.scores.tolist() == [180.0, 2.0, 2.0] and near.steps == (100,)
    later = group.score_at_step(201)
    assert later.scores.tolist() == [8.0, 179.0, 180.0] and later.steps == (200, 300)
    printed = dataclasses.replace(group, runs=())
    assert printed.score_at_step(150) is printed


def test_threshold_is_on_the_task_scale_or_names_the_missing_option():
    assert find_step_threshold(CELL, STEPS) == pytest.approx(180.0)
    unknown = dataclasses.replace(STEPS, ranges=())
    with pytest.raises(UnknownScaleError) as raised:
        find_step_threshold(CELL, unknown)
    assert str(raised.value) == (
        "endpoint=steps-80 needs the score of a solved Mine-v1 for ppo, and none is published: "
        "give --range Mine-v1=LOW:HIGH, or another --endpoint."
    )


def make_named(study, env, framework, n=1, variant="", hps="original"):
    cell = StudyCell(study, env, "ppo", hps, variant)
    return make_score_group(cell, framework, np.arange(float(n)), {})


def test_groups_and_pairs_are_in_the_order_of_settings_and_frameworks():
    names = [("t", "A", "b"), ("s", "B", "a"), ("s", "A", "c"), ("s", "A", "a"), ("s", "A", "b")]
    groups = [make_named(*name) for name in names]
    found = group_by_cell(groups)
    assert [(cell.study, cell.env) for cell in found] == [("s", "A"), ("s", "B"), ("t", "A")]
    assert [group.framework for group in next(iter(found.values()))] == ["a", "b", "c"]
    pairs = [(one.framework, two.framework) for one, two in list_group_pairs(groups)]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]
    runs = [
        make_curve_run(StudyCell(study, env, "ppo", "x", ""), framework, 0, [1], [1.0])
        for study, env, framework in names
    ]
    ordered = group_runs(LoadedRuns(Path(), tuple(runs), ()))
    assert [(one.cell.study, one.cell.env, one.framework) for one in ordered] == sorted(names)


def test_main_variant_is_chosen_by_runs_options_and_name():
    def find(*groups):
        return {variant for (_, _, variant), _ in find_main_variants(groups)}

    many, few = make_named("s", "A", "a", 3, "x=1"), make_named("s", "A", "a", 2, "a")
    assert find(many, few) == {"x=1"}
    assert find(many, few, make_named("s", "B", "a", 2, "a")) == {"a"}
    same = [make_named("s", "A", "a", 2, name) for name in ("a=1,b=1", "z=1", "b=1", "y")]
    assert find(*same) == {"y"} and find(*same[:3]) == {"b=1"}
    assert find_main_variants([many, make_named("t", "A", "a")]) == {
        (("s", "ppo", "x=1"), "A"),
        (("t", "ppo", ""), "A"),
    }
    imputed = tuple(dataclasses.replace(run, is_imputed=True) for run in many.runs)
    assert find(dataclasses.replace(many, runs=imputed), few) == {"a"}


def test_main_variants_are_of_one_level_of_alignment():
    """Tables with own hyperparameters of one algorithm and equal ones of another mislead."""
    own, equal, tuned = "alignment=defaults,steps=9", "alignment=exact,steps=9", "alignment=exact"
    groups = [make_named("s", "A", "a", 4, own), make_named("s", "A", "a", 4, equal)]
    groups += [make_named("s", "B", "a", 4, own), make_named("s", "B", "a", 4, tuned)]
    assert find_main_variants(groups) == {(("s", "ppo", equal), "A"), (("s", "ppo", tuned), "B")}
    groups += [make_named("s", "C", "a", 1, own)]
    assert {key[2] for key, _ in find_main_variants(groups)} == {own}
    alone = [make_named("s", "C", "a", 2, tuned), *groups[-1:]]
    assert find_main_variants([*groups, *alone]) >= {(("s", "ppo", tuned), "C")}


def test_own_recipes_are_the_setting_of_library_defaults():
    groups = [make_named("s", "A", name, hps=hps) for name, hps in (("a", "a"), ("a", "b"))]
    (own,) = collect_library_defaults(groups)
    assert (own.cell.hps, own.framework, own.key) == ("library defaults", "a", (own.cell, "a"))
    assert to_own_recipe(own).cell == groups[0].cell
