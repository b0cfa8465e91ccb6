"""Suites: which tasks and frameworks are part of one, and what is shown over all of them."""

import dataclasses
import math
import types

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats import pooling, two_sample
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.suite import (
    EQUIVALENT_UNLEARNED,
    SuiteSample,
    collect_suites,
    judge_all_alike,
    judge_suite,
    judge_suites,
    select_suites_with_failed_runs,
)

KEY = ("s", "ppo", "original", "v")
RANGES = (("A-v1", 0.0, 10.0), ("B-v1", -100.0, 100.0), ("C-v1", 0.0, 1.0))
OPTIONS = VerdictOptions(ranges=RANGES)


def make_group(env, framework, scores, hps="original", **changes):
    values = np.array(scores, dtype=float)
    cell = StudyCell("s", env, "ppo", hps, "v")
    sizes = (len(values), len(values), (100,))
    group = ScoreGroup(cell, framework, compute_moments(values), 0.0, values, (), *sizes)
    return dataclasses.replace(group, **changes)


def make_groups():
    return [
        make_group("B-v1", "sb3", [0.0, 50.0, -150.0]),
        make_group("B-v1", "cleanrl", [100.0, 120.0]),
        make_group("A-v1", "sb3", [5.0, 1.0]),
        make_group("A-v1", "cleanrl", [10.0, 2.0, 12.0]),
        make_group("C-v1", "sb3", [1.0, 1.0]),
        make_group("C-v1", "cleanrl", [1.0]),
        make_group("D-v1", "sb3", [1.0, 1.0]),
        make_group("D-v1", "cleanrl", [1.0, 2.0]),
        make_group("A-v1", "skrl", [5.0, 1.0]),
        make_group("B-v1", "skrl", [5.0]),
        dataclasses.replace(make_group("B-v1", "torchrl", [5.0, 1.0]), scores=None),
    ]


def test_suite_has_tasks_with_two_runs_of_every_framework():
    (sample,) = collect_suites(make_groups(), OPTIONS)
    assert (sample.key, sample.tasks) == (KEY, ("A-v1", "B-v1"))
    assert sample.left_out == (
        "skrl: no two runs in two tasks",
        "C-v1: no two runs of CleanRL",
        "D-v1: no scale is known",
    )
    scores = {name: [list(part) for part in parts] for name, parts in sample.scores.items()}
    assert scores == {
        "cleanrl": [pytest.approx([1.0, 0.2, 1.2]), pytest.approx([1.0, 1.1])],
        "sb3": [pytest.approx([0.5, 0.1]), pytest.approx([0.5, 0.75, 0.0])],
    }
    assert sample.ends == (0.0, pytest.approx(1.2))  # a run did better than solved
    # Failed below a quarter of the way.
    assert sample.failed == {"cleanrl": (1, 0), "sb3": (1, 1)}
    lower = [one for one in make_groups() if one.framework != "cleanrl" or one.n < 3]
    assert collect_suites(lower, OPTIONS) == ()
    below = [make_group(one.cell.env, one.framework, one.scores / 20) for one in make_groups()[:4]]
    assert collect_suites(below, OPTIONS)[0].ends == (0.0, 1.0)


def test_frameworks_and_tasks_without_any_run_are_left_out_by_name():
    groups = [*make_groups()[:4], make_group("A-v1", "sbx", []), make_group("C-v1", "sb3", [])]
    (sample,) = collect_suites(groups, OPTIONS)
    assert sample.tasks == ("A-v1", "B-v1")
    assert sample.left_out == ("sbx: no two runs in two tasks", "C-v1: no two runs of CleanRL")


def make_sample(first, second, failed=None, ends=(0.0, 1.0)):
    scores = {
        "a": tuple(np.array(part) for part in first),
        "b": tuple(np.array(part) for part in second),
    }
    return SuiteSample(KEY, ("A-v1", "B-v1"), scores, ends, ("C-v1: x",), failed or {})


FIRST = [0.9, 0.95, 0.92, 0.88], [0.7, 0.8, 0.75, 0.72, 0.78]
SECOND = [0.1, 0.2, 0.15, 0.12, 0.05], [0.3, 0.2, 0.1]


@pytest.mark.parametrize("failed", [None, {"a": (0, 1), "b": (3, 2)}])
def test_every_number_of_a_pair_is_stratified_by_task(failed):
    options = VerdictOptions(margin_share=0.3, seed=5)
    sample = make_sample(FIRST, SECOND, failed, (-0.1, 1.1))
    (item,) = judge_suite(sample, options)
    both = sample.scores["a"], sample.scores["b"]
    contrast = pooling.compute_stratified_contrast(*both)
    assert (item.key, item.tasks, item.first, item.second) == (KEY, sample.tasks, "a", "b")
    assert (item.runs, item.margin, item.left_out) == ((9, 8), 0.3, ("C-v1: x",))
    means = [np.mean([part.mean() for part in parts]) for parts in both]
    assert item.difference == pytest.approx(means[0] - means[1])
    ends = two_sample.compute_contrast_bounds(contrast)
    assert (item.low, item.high) == tuple(map(float, ends))
    assert item.p == item.p_holm == float(two_sample.compute_two_sided_p(contrast))
    assert item.p_tost == float(two_sample.compute_equivalence_p(contrast, 0.3))
    bound = pooling.compute_stratified_difference_p(*both, sample.ends, 0.3)
    assert item.p_equivalence == item.p_equivalence_holm == max(item.p_tost, bound)
    assert item.p_mean == pooling.compute_stratified_mean_p(*both, sample.ends)
    rng = np.random.default_rng(5)
    assert item.p_permutation == pooling.compute_stratified_permutation_p(*both, rng)
    assert (item.verdict, item.statement) == ("different", "different in mean")
    if failed:
        assert item.failed == (1, 5)
        p = two_sample.compute_stratified_fisher_p([(0, 3), (1, 2)], [(4, 5), (5, 3)])
        assert item.p_failures == item.p_failures_holm == p
    else:
        assert item.failed == () and math.isnan(item.p_failures)
    level = max(item.p_mean, item.p_permutation, item.p)
    near = judge_suite(sample, dataclasses.replace(options, alpha=level))[0]
    assert near.statement != "different in mean"


def test_pairs_of_a_suite_are_corrected_together():
    sample = make_sample(FIRST, SECOND, {"a": (0, 0), "b": (5, 3), "c": (0, 1)})
    third = tuple(part - 0.02 for part in sample.scores["a"])
    sample = dataclasses.replace(sample, scores={**sample.scores, "c": third})
    items = judge_suite(sample, OPTIONS)
    assert [(one.first, one.second) for one in items] == [("a", "b"), ("a", "c"), ("b", "c")]
    for plain, corrected in (
        ("p", "p_holm"),
        ("p_equivalence", "p_equivalence_holm"),
        ("p_failures", "p_failures_holm"),
    ):
        expected = adjust_holm([getattr(one, plain) for one in items])
        assert [getattr(one, corrected) for one in items] == pytest.approx(expected)
    assert [one.verdict for one in items] == ["different", "inconclusive", "different"]


def make_suite(first, second, p, tasks=("A-v1", "B-v1"), key=KEY):
    return types.SimpleNamespace(
        key=key, tasks=tasks, first=first, second=second, p_equivalence=p, versions=""
    )


def make_pair(first, second, p, env="A-v1"):
    cell = StudyCell("s", env, "ppo", "original", "v")
    sides = (types.SimpleNamespace(framework=name, runs=()) for name in (first, second))
    return types.SimpleNamespace(cell=cell, first=next(sides), second=next(sides), p_equivalence=p)


def make_learned(framework, env, hps="original", is_learned=True):
    group = make_group(env, framework, [1.0], hps)
    return types.SimpleNamespace(group=group, is_learned=is_learned)


@pytest.mark.parametrize(
    ("values", "p", "word"),
    [
        ((0.01, 0.049, 0.02), 0.049, "equivalent"),
        ((0.01, 0.05, 0.02), 0.05, "inconclusive"),
        ((0.01, math.nan, 0.02), math.nan, "inconclusive"),
    ],
)
def test_all_frameworks_are_equivalent_if_the_worst_pair_is(values, p, word):
    names = [("b", "a"), ("b", "c"), ("a", "c")]
    pairs = [make_pair(*two, value) for two, value in zip(names, values, strict=True)]
    suites = [make_suite(*two, value) for two, value in zip(names, values, strict=True)]
    over_all, one_task = judge_all_alike(pairs, suites, OPTIONS)
    assert (over_all.env, one_task.env) == ("", "A-v1")
    for found in (over_all, one_task):
        assert (found.study, found.algorithm, found.hps, found.variant) == KEY
        assert found.frameworks == ("a", "b", "c") and found.verdict == word
        assert found.p == pytest.approx(p, nan_ok=True)


def test_all_frameworks_must_have_learned_in_all_tasks():
    pairs, suites = [make_pair("a", "b", 0.01)], [make_suite("a", "b", 0.01)]
    whole = [make_learned(name, env) for name in "ab" for env in ("A-v1", "B-v1")]

    def judge(learning):
        return [item.verdict for item in judge_all_alike(pairs, suites, OPTIONS, learning)]

    assert judge(whole) == ["equivalent"] * 2
    assert judge(whole[:3]) == [EQUIVALENT_UNLEARNED, "equivalent"]
    assert (
        judge([*whole[1:], make_learned("a", "A-v1", is_learned=False)])
        == [EQUIVALENT_UNLEARNED] * 2
    )
    assert judge([*whole[:3], make_learned("b", "B-v1", hps="b")]) == [
        *(EQUIVALENT_UNLEARNED, "equivalent")
    ]
    assert judge(()) == [EQUIVALENT_UNLEARNED] * 2 and judge(None) == ["equivalent"] * 2
    defaults = make_suite("a", "b", 0.01, key=("s", "ppo", "library defaults", "v"))
    own = [make_learned(name, env, hps=name) for name in "ab" for env in ("A-v1", "B-v1")]
    assert judge_all_alike((), [defaults], OPTIONS, own)[0].verdict == "equivalent"


def test_pairs_with_a_failed_training_are_selected_by_task_and_framework():
    items = [make_suite("a", "b", 1.0), make_suite("a", "c", 1.0, tasks=("A-v1",))]
    items.append(make_suite("a", "c", 1.0, key=("s", "ppo", "library defaults", "v")))

    def select(env, framework, hps="original", failed=1):
        group = make_group(env, framework, [1.0], hps, failed=failed)
        return list(select_suites_with_failed_runs(items, [group]))

    assert select("A-v1", "a") == items[:2] and select("A-v1", "b") == items[:1]
    assert select("B-v1", "c") == [] == select("A-v1", "a", failed=0)
    assert select("B-v1", "c", hps="c") == items[2:]


def test_unlearned_tasks_are_named_of_each_pair():
    rng = np.random.default_rng(0)
    groups = [
        make_group(env, name, 10 * rng.normal(0.9, 0.01, 40), "original")
        for env in ("A-v1", "E-v1")
        for name in ("a", "b")
    ]
    options = VerdictOptions(ranges=(("A-v1", 0.0, 10.0), ("E-v1", 0.0, 10.0)))
    learning = [make_learned(name, "A-v1") for name in "ab"] + [make_learned("a", "E-v1")]
    (item,) = judge_suites(groups, options, learning)
    assert (item.verdict, item.statement) == ("equivalent", EQUIVALENT_UNLEARNED)
    assert item.unlearned == ("E-v1",)
    (free,) = judge_suites(groups, options)
    assert (free.statement, free.unlearned) == ("equivalent", ())
    assert (
        item.failed == (0, 0) and stats.fisher_exact([[0, 40], [0, 40]]).pvalue == item.p_failures
    )


def test_p_values_at_the_level_show_nothing_over_tasks():
    def judge(sample, alpha, **options):
        return judge_suite(sample, VerdictOptions(alpha=alpha, **options))[0]

    far = make_sample(FIRST, SECOND)
    item = judge(far, 0.05)
    limit = max(item.p_holm, item.p_permutation)
    assert [judge(far, limit * k).verdict for k in (1, 1.01)] == ["inconclusive", "different"]
    words = [judge(far, item.p_mean * k).statement for k in (1, 1.01)]
    assert words == ["different in distribution", "different in mean"]
    near = make_sample(FIRST, FIRST)
    level = judge(near, 0.05, margin_share=0.6).p_equivalence_holm
    words = [judge(near, level * k, margin_share=0.6).verdict for k in (1, 1.01)]
    assert 0 < level < 1 and words == ["inconclusive", "equivalent"]
    failing = make_sample(FIRST, FIRST, {"a": (0, 0), "b": (4, 5)})
    level = judge(failing, 0.05).p_failures_holm / 0.2
    words = [judge(failing, level * k).statement for k in (0.999, 1.001)]
    assert words == ["inconclusive", "inconclusive with different failure rates"]
