"""Levels of alignment: spreads by task, and the decomposition over tasks."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from loops import iterate_some
from score_groups import make_curve_run, make_score_group

from parallax.analysis.data.runs import ExcludedRun, RunId, StudyCell
from parallax.analysis.stats.decomposition import estimate_framework_variance
from parallax.analysis.verdicts import alignment_levels
from parallax.analysis.verdicts.alignment_levels import (
    LEVELS,
    collect_reaching_times,
    compare_reaching_times,
    compute_late_rise,
    decompose_levels,
    find_common_frameworks,
    judge_alignment_levels,
    list_level_spreads,
)
from parallax.analysis.verdicts.groups import make_group as group_items
from parallax.analysis.verdicts.options import VerdictOptions

TASKS = ("CartPole-v1", "Pendulum-v1")
OPTIONS = VerdictOptions(ranges=(("CartPole-v1", 0, 500), ("Pendulum-v1", -1200, -150)))
SHIFTS = {"defaults": 0.2, "exact": 0.1, "lockstep": 0.0}


def make_group(generator, env, level, number, seeds=8, intervention="none"):
    low, high = {"CartPole-v1": (0, 500), "Pendulum-v1": (-1200, -150)}[env]
    share = 0.5 + number * SHIFTS[level] + 0.02 * generator.normal(size=seeds)
    scores = low + share * (high - low)
    cell = StudyCell("ladder", env, "ppo", "original", f"alignment={level}")
    spec = {"alignment": level, "steps": 1000, "intervention": intervention}
    return make_score_group(cell, f"f{number}", scores, spec)


def make_groups(levels=LEVELS, frameworks=4, **more):
    generator = np.random.default_rng(0)
    return [
        make_group(generator, env, level, number, **more)
        for env in TASKS
        for level in levels
        for number in range(frameworks)
    ]


def test_spreads_shrink_from_level_to_level():
    spreads = list_level_spreads(make_groups(), OPTIONS)
    assert [(s.task.env, s.level) for s in spreads] == [(e, x) for e in TASKS for x in LEVELS]
    by_level = {s.level: s.spread for s in spreads if s.task.env == "Pendulum-v1"}
    assert by_level["defaults"] > by_level["exact"] > by_level["lockstep"]
    assert by_level["defaults"] == pytest.approx(0.2 * np.std(range(4), ddof=1), rel=0.1)


def test_shares_are_those_of_the_levels():
    found = decompose_levels(
        list_level_spreads(make_groups(), OPTIONS), np.random.default_rng(1), resamples=200
    )
    # Variances between frameworks stand as 4 to 1 to 0.
    assert found.shares.shares.hyperparameters == pytest.approx(0.75, abs=0.05)
    assert found.shares.shares.code == pytest.approx(0.25, abs=0.05)
    assert abs(found.shares.shares.residual) < 0.01
    assert found.frameworks == ("f0", "f1", "f2", "f3")
    assert set(found.without_framework) == set(found.frameworks)
    assert {task.env for task in found.without_task} == set(TASKS)


def test_studies_of_one_level_have_no_levels():
    assert list_level_spreads(make_groups(levels=("exact",)), OPTIONS) == ()


def test_interventions_are_no_part_of_a_level():
    changed = make_groups(intervention="value-loss-x1")
    assert list_level_spreads(changed, OPTIONS) == ()


def test_a_framework_that_lacks_a_level_is_left_out():
    groups = [
        group
        for group in make_groups()
        if not (group.framework == "f3" and "lockstep" in group.cell.variant)
    ]
    found = decompose_levels(
        list_level_spreads(groups, OPTIONS), np.random.default_rng(1), resamples=50
    )
    assert found.frameworks == ("f0", "f1", "f2")
    few = [dataclasses.replace(group) for group in groups if group.framework == "f0"]
    assert decompose_levels(list_level_spreads(few, OPTIONS), np.random.default_rng(1)) is None


def test_sizes_name_the_smallest_and_the_largest_number_of_runs():
    generator = np.random.default_rng(0)
    groups = [
        make_group(generator, "Pendulum-v1", level, number, seeds=seeds)
        for level in LEVELS
        for number, seeds in enumerate((3, 5, 4))
    ]
    spread = list_level_spreads(groups, OPTIONS)[0]
    assert spread.format_sizes() == "n = 3 to 5 each" and spread.n == 12
    assert dataclasses.replace(spread, scores={}).format_sizes() == "n = 0"


def move_to_study(group, study):
    return dataclasses.replace(group, cell=dataclasses.replace(group.cell, study=study))


def test_every_study_with_several_levels_is_judged_by_itself():
    groups = make_groups()
    assert judge_alignment_levels(make_groups(levels=("exact",)), OPTIONS) == ()
    both = [*groups, *(move_to_study(group, "another") for group in groups)]
    first, second = judge_alignment_levels(both, OPTIONS)
    assert [{spread.task.study for spread in one.spreads} for one in (first, second)] == [
        {"another"},
        {"ladder"},
    ]
    assert first.endpoint == OPTIONS.chosen_endpoint.description
    assert first.frameworks == ["f0", "f1", "f2", "f3"] and len(first.by_task) == len(TASKS)
    # The same scores have the same intervals, whichever studies are judged beside them.
    (alone,) = judge_alignment_levels(groups, OPTIONS)
    intervals = [[spread.interval for spread in one.spreads] for one in (first, second, alone)]
    assert intervals[0] == intervals[1] == intervals[2]
    for spread in iterate_some(alone.spreads):
        assert spread.interval[0] <= spread.spread <= spread.interval[1]
        assert spread.interval[1] > 0
    assert alone.decomposition.shares.shares.hyperparameters == pytest.approx(0.75, abs=0.05)
    # The runs' own evaluations are all 0: without any variance, no share is known.
    assert alone.secondary is None
    assert sum(part for _, part in alone.decomposition.alone.values()) == pytest.approx(1)
    (other,) = judge_alignment_levels(groups, dataclasses.replace(OPTIONS, seed=7))
    assert [spread.interval for spread in other.spreads] != intervals[2]


def test_runs_of_a_task_without_a_scale_count_as_not_learned():
    (group, *_) = make_groups()
    assert alignment_levels._count_learned_runs(group, None, OPTIONS) == 0


def test_a_spread_of_single_seeds_has_no_interval():
    spreads = list_level_spreads(make_groups(seeds=1), OPTIONS)
    assert {spread.variance for spread in spreads} == {None}
    assert all(
        alignment_levels._add_interval(spread, np.random.default_rng(0)) is spread
        for spread in iterate_some(spreads)
    )


def test_half_of_the_trainings_may_fail():
    groups = [dataclasses.replace(group, failed=3) for group in make_groups(seeds=3)]
    spread = list_level_spreads(groups, OPTIONS)[0]
    assert {len(scores) for scores in spread.scores.values()} == {6} and len(spread.scores) == 4
    assert {tuple(scores[3:]) for scores in spread.scores.values()} == {(0.0, 0.0, 0.0)}


def test_sizes_that_are_all_the_same_are_named_once():
    assert list_level_spreads(make_groups(seeds=5), OPTIONS)[0].format_sizes() == "n = 5 each"


KNOWN = VerdictOptions(ranges=(("My-v1", 100.0, 600.0),))


def make_curves(framework, level, curves, failed=0, **spec):
    """A framework's runs with the returns of evaluations after 100, 200, ... steps."""
    cell = StudyCell("ladder", "My-v1", "ppo", "original", f"alignment={level}")
    spec = {"alignment": level, "steps": 400, **spec}
    items = [
        make_curve_run(cell, framework, seed, np.arange(1, len(c) + 1) * 100, c, spec=spec)
        for seed, c in enumerate(curves)
    ]
    gone = RunId(cell, framework, 99)
    items += [ExcludedRun(gone, items[0].path if items else None, "failed", failed=True)] * failed
    return group_items(cell, framework, items, KNOWN)


def test_runs_are_nearly_solved_from_nine_tenths_of_the_scale():
    first = make_curves("a", "exact", [[0, 549, 550, 0], [550, 0, 0], [0, 549, 549, 549]], 2)
    other = make_curves("b", "exact", [[0, 0], [600, 600]])
    only_failed = make_curves("c", "exact", [], 3)
    groups = [first, other, only_failed, make_curves("a", "lockstep", [[0]])]
    (spread, _) = list_level_spreads(groups, KNOWN)
    assert (spread.level, list(spread.groups)) == ("exact", ["a", "b", "c"])
    found = collect_reaching_times(first, spread)
    assert found.times.tolist() == [300, 100, 400, 400, 400]
    assert found.reached.tolist() == [True, True, False, False, False]
    complete = collect_reaching_times(first, spread, with_failed_runs=False)
    assert complete.times.tolist() == [300, 100, 400]
    assert collect_reaching_times(only_failed, spread).times.tolist() == [400] * 3
    assert collect_reaching_times(only_failed, spread, with_failed_runs=False) is None
    assert collect_reaching_times(first, dataclasses.replace(spread, scale=None)) is None
    test = compare_reaching_times(spread, np.random.default_rng(0))
    assert (test.reached, test.runs) == (3, 10) and 0 < test.p <= 1
    nothing = compare_reaching_times(
        dataclasses.replace(spread, scale=None), np.random.default_rng(0)
    )
    assert (nothing.reached, nothing.runs) == (0, 0) and np.isnan(nothing.p)


def test_run_has_learned_if_above_zero_by_more_than_the_margin():
    group = make_curves("a", "exact", [[150.0], [150.001], [600.0], [0.0]], 1)
    (spread, _) = list_level_spreads([group, make_curves("a", "lockstep", [[0]])], KNOWN)
    assert spread.learned == {"a": 2}  # 100 is zero, and the margin a tenth of 500
    assert spread.scores["a"] == pytest.approx([0.1, 0.100002, 1.0, -0.2, 0.0])
    assert (spread.task.length, spread.n) == (400, 5)


def test_the_late_rise_is_that_of_the_last_evaluations_by_seed():
    flat, short = [0, 300, 300, 300, 300, 300, 300], [0, 600]
    first = make_curves("a", "exact", [[0, 0, 0, 0, 50, 50, 50], flat, short])
    other = make_curves("b", "exact", [[0, 0, 0, 0, 150, 150, 150], flat])
    groups = [first, other, make_curves("a", "lockstep", [flat])]
    both, alone = list_level_spreads(groups, KNOWN)
    rise = compute_late_rise(both)
    # Seed 0 rises by 50 and by 150 of 500, seed 1 not at all; seed 2 is too short to say.
    assert (rise.mean, rise.n) == (pytest.approx((0.2 + 0.0) / 2), 2)
    assert rise.low < 0 < rise.high
    rise = compute_late_rise(alone)
    assert (rise.mean, rise.n) == (0, 1) and np.isnan(rise.low)
    assert compute_late_rise(dataclasses.replace(both, scale=None)).n == 0


@pytest.mark.parametrize(
    ("spec", "is_level"),
    [
        ({}, True),
        ({"intervention": "none"}, True),
        ({"intervention": "huber-loss"}, False),
        ({"replay": None}, True),
        ({"replay": {"name": "uniform"}}, True),
        ({"replay": {"alpha": 1}}, True),
        ({"replay": "uniform"}, True),
        ({"replay": {"name": "per"}}, False),
        ({"alignment": "common"}, False),
    ],
)
def test_only_unchanged_runs_with_uniform_replay_are_of_a_level(spec, is_level):
    groups = [make_curves("a", "exact", [[0]], **spec), make_curves("a", "lockstep", [[0]])]
    assert len(list_level_spreads(groups, KNOWN)) == 2 * is_level


def test_shares_of_steps_are_on_their_scale_already():
    groups = [
        dataclasses.replace(make_curves("a", level, [[0], [0]]), scores=np.array([0.25, 0.5]))
        for level in ("exact", "lockstep")
    ]
    steps = dataclasses.replace(KNOWN, endpoint="steps-90")
    assert list_level_spreads(groups, steps)[0].scores["a"].tolist() == [0.25, 0.5]
    unknown = list_level_spreads(groups, VerdictOptions())[0]
    assert (unknown.scores, unknown.variance, unknown.n) == ({}, None, 0)
    assert np.isnan(unknown.spread)


def test_two_levels_are_decomposed_without_a_third():
    spreads = list_level_spreads(make_groups(levels=LEVELS[:2], frameworks=2), OPTIONS)
    found = decompose_levels(spreads, np.random.default_rng(1), resamples=50)
    assert not found.has_lockstep and found.shares.shares.residual == 0
    assert found.shares.shares.code > 0.05 and found.frameworks == ("f0", "f1")
    assert found.without_framework == {}  # one framework alone has no variance between
    assert len(found.tasks) == len(found.without_task) == 2
    one = [spread for spread in spreads if spread.task.env == TASKS[0]]
    assert decompose_levels(one, np.random.default_rng(1), resamples=50).without_task == {}
    own = {
        spread.task: estimate_framework_variance([list(spread.scores.values())])
        for spread in spreads
        if spread.level == "defaults"
    }
    sizes = {task: part.between + part.within for task, part in own.items()}
    for task, (shares, part) in iterate_some(found.alone.items()):
        assert part == pytest.approx(sizes[task] / sum(sizes.values()))
        assert shares.shares.array.sum() == pytest.approx(1)


def test_tasks_are_decomposed_by_algorithm_and_with_equal_weights():
    spreads = list_level_spreads(make_groups(), OPTIONS)
    third = [
        dataclasses.replace(
            one,
            task=dataclasses.replace(one.task, algorithm="td3"),
            scores={name: 10 * values**2 for name, values in one.scores.items()},
        )
        for one in spreads
        if one.task.env == TASKS[0]
    ]
    assert not decompose_levels(spreads, np.random.default_rng(1), 50).by_algorithm
    found = decompose_levels([*spreads, *third], np.random.default_rng(1), resamples=50)
    ((name, (only, others)),) = found.by_algorithm.items()
    alone = {task.algorithm: shares.shares.array for task, (shares, _) in found.alone.items()}
    plain = decompose_levels(spreads, np.random.default_rng(1), resamples=50)
    assert name == "ppo" and only.shares.array == pytest.approx(plain.shares.shares.array)
    assert others.shares.array == pytest.approx(alone["td3"])
    every = [shares.shares.array for shares, _ in found.alone.values()]
    assert found.equal_weights.shares.array == pytest.approx(np.mean(every, axis=0))
    assert found.shares.shares.array != pytest.approx(np.mean(every, axis=0))


def test_leave_one_out_needs_three_frameworks_and_unequal_scores():
    spreads = list_level_spreads(make_groups(frameworks=3), OPTIONS)
    found = decompose_levels(spreads, np.random.default_rng(1), resamples=50)
    assert found.has_lockstep and set(found.without_framework) == {"f0", "f1", "f2"}
    equal = [
        dataclasses.replace(one, scores={name: np.ones(4) for name in one.scores})
        for one in spreads
    ]
    assert decompose_levels(equal, np.random.default_rng(1), resamples=50) is None


@pytest.mark.parametrize(
    ("sizes", "common"),
    [
        ((2, 2, 1), ["f0", "f1"]),
        ((2, 2, 1, 1), []),
        ((2, 1), []),
        ((2, 2, 2, 2, 1, 1), ["f0", "f1", "f2", "f3"]),
        ((2, 2, 2, 1, 1), []),
    ],
)
def test_two_thirds_of_the_frameworks_need_two_seeds_at_each_level(sizes, common):
    names = [f"f{number}" for number in range(len(sizes))]
    (spread, *_) = list_level_spreads(make_groups(), OPTIONS)
    groups = dict.fromkeys(names)
    exact, whole = (
        dataclasses.replace(
            spread, groups=groups, scores={n: np.zeros(k) for n, k in zip(names, ks, strict=True)}
        )
        for ks in (sizes, [5] * len(sizes))
    )
    assert find_common_frameworks({"exact": exact, "defaults": whole}, LEVELS[:2]) == common
    assert find_common_frameworks({"exact": exact, "defaults": whole}, LEVELS) == []


def test_the_second_decomposition_is_of_the_last_three_evaluations():
    curves = {"a": [[0, 200, 300, 400], [0, 200, 300, 430]], "b": [[9, 500, 500, 500]] * 2}
    levels = LEVELS
    groups = [make_curves(name, level, found) for level in levels for name, found in curves.items()]
    (found,) = judge_alignment_levels(groups, KNOWN)
    rescored = [alignment_levels._rescore_group(group) for group in groups]
    assert rescored[0].scores == pytest.approx([300, 310]) and rescored[0].runs == groups[0].runs
    ends = found.decomposition.shares.shares, found.secondary.shares.shares
    assert ends[0] != ends[1] and found.secondary.frameworks == ("a", "b")


def test_scores_are_paired_by_the_seeds_that_all_frameworks_have():
    cell = StudyCell("ladder", "CartPole-v1", "ppo", "original", "alignment=exact")
    runs = {
        "a": [make_curve_run(cell, "a", seed, [1], [100.0 + seed]) for seed in (1, 2, 3)],
        "b": [make_curve_run(cell, "b", seed, [1], [200.0 + seed]) for seed in (3, 1)],
    }
    failed = ExcludedRun(RunId(cell, "b", 2), Path("b-2"), "diverged", failed=True)
    groups = [
        group_items(cell, "a", runs["a"], OPTIONS),
        group_items(cell, "b", [*runs["b"], failed], OPTIONS),
    ]
    spread = dataclasses.replace(
        list_level_spreads(make_groups(), OPTIONS)[0],
        scores={
            "a": np.array([0.1, 0.2, 0.3]),
            "b": np.append(groups[1].scores / 1000, 0.0),
            "c": np.array([0.5]),  # with one seed, a framework does not count
        },
        groups={"a": groups[0], "b": groups[1]},
    )
    found = alignment_levels.pair_by_seed(spread)
    assert found == pytest.approx(np.array([[0.1, 0.201], [0.2, 0.0], [0.3, 0.203]]))


@pytest.mark.parametrize(
    ("changes", "recipe", "settings"),
    [
        ({"n_envs": 4}, "original", {"n_envs=1", "n_envs=4"}),
        ({}, "zoo", {"", "hps=original", "hps=zoo"}),
    ],
)
def test_runs_of_other_options_or_recipes_are_other_tasks(changes, recipe, settings):
    groups = []
    for group in make_groups():
        is_other = "exact" in group.cell.variant and group.framework in ("f0", "f1")
        spec = {**group.runs[0].spec, "n_envs": 1, **(changes if is_other else {})}
        run = dataclasses.replace(group.runs[0], spec=spec, results=np.zeros((1, 1)))
        cell = dataclasses.replace(group.cell, hps=recipe if is_other else "original")
        groups.append(dataclasses.replace(group, cell=cell, runs=(run, *group.runs[1:])))
    spreads = list_level_spreads(groups, OPTIONS)
    assert {s.task.settings.removesuffix(", eval_episodes=1") for s in spreads} == settings
    compared = [sorted(s.groups) for s in spreads if s.level == "exact"]
    assert sorted(compared) == [["f0", "f1"]] * 2 + [["f2", "f3"]] * 2
    assert decompose_levels(spreads, np.random.default_rng(1), resamples=50) is None
    names = {s.task.name for s in spreads if s.task.env == "Pendulum-v1"}
    assert all(name.startswith("PPO on Pendulum-v1") for name in names) and len(names) > 1
