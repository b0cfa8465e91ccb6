"""RQ2: different, equivalent or inconclusive."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats.moments import compute_moments, stack_moments
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.verdicts.consistency import (
    check_rounding_sensitivity,
    judge_consistency,
    run_tests,
)
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import group_published_scores

REFERENCE = 2230.0  # PPO on Hopper, as the thesis read it off
RANDOM = 17.89  # random actions on Hopper-v4
MANY = 100  # seeds that leave little room for runs that were not observed


def group(framework, scores, env="Hopper-v4", algorithm="ppo", study="s"):
    scores = np.asarray(scores, dtype=np.float64)
    cell = StudyCell(study, env, algorithm, "original", "")
    n = len(scores)
    return ScoreGroup(cell, framework, compute_moments(scores), 0.0, scores, (), n, n, (100,))


def around(mean, sd, n=5):
    """n values with exactly this mean and sample deviation."""
    values = np.linspace(-1, 1, n)
    return mean + sd * values / values.std(ddof=1)


def verdict(first, second, **options):
    (item,) = judge_consistency([group("a", first), group("b", second)], VerdictOptions(**options))
    return item


@pytest.mark.parametrize(
    ("gap", "sd", "word"),
    [
        (1000, 50, "different"),
        (0, 50, "equivalent"),
        (100, 20, "equivalent"),  # certain, but within the margin of 223
        (0, 400, "inconclusive"),
        (500, 500, "inconclusive"),
    ],
)
def test_the_three_words(gap, sd, word):
    n = MANY if word == "equivalent" else 5
    item = verdict(around(1000 + gap, sd, n), around(1000, sd, n))
    assert item.verdict == word
    assert item.difference == pytest.approx(gap)
    assert item.margin.size == pytest.approx(0.1 * (REFERENCE - RANDOM))
    assert item.detectable == (gap in (1000, 100))


def test_p_values_and_interval_are_scipys():
    rng = np.random.default_rng(0)
    first, second = rng.normal(1000, 300, 6), rng.normal(1200, 100, 5)
    item = verdict(first, second)
    theirs = stats.ttest_ind(first, second, equal_var=False)
    assert item.p_welch == pytest.approx(theirs.pvalue)
    assert (item.low, item.high) == pytest.approx(tuple(theirs.confidence_interval()))
    exact = stats.permutation_test(
        (first, second), lambda a, b, axis: stats.ttest_ind(a, b, equal_var=False, axis=axis)[0]
    )
    assert item.p_permutation == pytest.approx(exact.pvalue)


def test_the_margin_is_a_share_of_the_published_score_or_else_of_the_runs():
    one, two = around(900, 9), around(1000, 9)
    margin = verdict(one, two, margin_share=0.2).margin
    assert margin.size == pytest.approx(0.2 * (REFERENCE - RANDOM))
    assert verdict(one, two, margin_share=0.2, margin_of="score").margin.size == 446
    own = [group(name, around(500, 9), env="Unknown-v0") for name in "ab"]
    (item,) = judge_consistency(own, VerdictOptions())
    assert item.margin.size == pytest.approx(50)
    assert item.margin.source == "compared runs"


def test_two_constant_seeds_each_are_too_few_to_call_them_different():
    item = verdict([1000.0, 1000.0], [3000.0, 3000.0])
    assert item.p_permutation == pytest.approx(2 / 6)
    assert item.verdict == "inconclusive"


def test_one_seed_is_never_decided_and_no_number_is_made_up():
    item = verdict([1000.0], around(2000, 10))
    assert item.verdict == "inconclusive"
    assert math.isnan(item.p_welch)
    assert math.isnan(item.seeds_needed)
    assert math.isnan(item.hedges_g[0])


def test_a_framework_without_seeds_makes_no_pair():
    assert judge_consistency([group("a", []), group("b", [1.0, 2.0])], VerdictOptions()) == ()


@pytest.mark.parametrize(("family", "size"), [("setting", 3), ("algorithm", 6), ("all", 12)])
def test_holm_runs_over_the_family_that_is_named(family, size):
    rng = np.random.default_rng(1)
    groups = [
        group(name, rng.normal(1000, 200, 5), env, algorithm)
        for env, algorithm, name in itertools.product(
            ("Hopper-v4", "Walker2d-v4"), ("ppo", "td3"), "abc"
        )
    ]
    items = judge_consistency(groups, VerdictOptions(family=family))
    assert len(items) == 12
    assert {item.family_size for item in items} == {size}
    for name in {item.family for item in items}:
        own = [item for item in items if item.family == name]
        expected = adjust_holm([item.p_welch for item in own])
        np.testing.assert_allclose([item.p_holm for item in own], expected)


def test_settings_are_never_mixed():
    groups = [
        group("a", around(0, 1), study="one"),
        group("b", around(9, 1), study="two"),
        group("b", around(9, 1), env="Ant-v4", study="one"),
    ]
    assert judge_consistency(groups, VerdictOptions()) == ()


SCORES = st.lists(st.integers(-2000, 4000), min_size=2, max_size=6)


@given(first=SCORES, second=SCORES)
@settings(max_examples=60, deadline=None)
def test_swapping_the_frameworks_mirrors_everything(first, second):
    one, two = verdict(first, second), verdict(second, first)
    assert one.verdict == two.verdict
    assert one.difference == pytest.approx(-two.difference)
    assert one.p_equivalence == pytest.approx(two.p_equivalence, abs=1e-12)
    assert one.improvement[0] == pytest.approx(1 - two.improvement[0])
    np.testing.assert_equal(one.seeds_needed, two.seeds_needed)


@given(first=SCORES, second=SCORES)
@settings(max_examples=60, deadline=None)
def test_words_follow_from_the_numbers_beside_them(first, second):
    item = verdict(first, second)
    if item.p_equivalence_holm < 0.05:
        assert item.verdict == "equivalent"
    elif item.p_holm < 0.05 and item.p_permutation < 0.05:
        assert item.verdict == "different"
    else:
        assert item.verdict == "inconclusive"


def test_the_seeds_that_would_decide_decide_in_four_cases_of_five():
    item = verdict(around(1350, 300), around(1000, 300))
    assert item.verdict == "inconclusive"
    n, rng, decided = int(item.seeds_needed), np.random.default_rng(0), 0
    assert 5 < n < 40
    for _ in range(40):
        first, second = rng.normal(1350, 300, n), rng.normal(1000, 300, n)
        decided += verdict(first, second).verdict != "inconclusive"
    assert decided / 40 == pytest.approx(0.8, abs=0.19)


def test_two_equal_frameworks_are_rarely_called_different():
    rng = np.random.default_rng(0)
    words = [
        verdict(*rng.normal(1000, 400, (2, 5)), margin_share=0.001).verdict for _ in range(250)
    ]
    assert words.count("different") / 250 < 0.05 + 2 * math.sqrt(0.05 * 0.95 / 250)


def test_published_means_and_intervals_alone_give_288_verdicts(published):
    items = published.consistency
    assert len(items) == 288
    assert all(math.isnan(item.p_permutation) for item in items)
    assert {item.family_size for item in items} == {96}
    key = ("ppo", "InvertedDoublePendulum-v4", "original", "cleanrl", "sb3")
    (item,) = (
        item
        for item in items
        if (*_key(item.cell), item.first.framework, item.second.framework) == key
    )
    first, second = item.first.moments, item.second.moments
    theirs = stats.ttest_ind_from_stats(
        first.mean, first.sd, 5, second.mean, second.sd, 5, equal_var=False
    )
    assert item.p_welch == pytest.approx(theirs.pvalue)


def _key(cell):
    return cell.algorithm, cell.env, cell.hps


def test_rounding_is_told_where_it_could_turn_a_verdict():
    items = judge_consistency(
        group_published_scores("thesis_tables"), VerdictOptions(family="setting")
    )
    assert any(item.is_rounding_sensitive for item in items)
    assert not all(item.is_rounding_sensitive for item in items)


def test_seeds_are_estimated_for_the_corrected_level_of_what_is_left_to_decide():
    wide = [group(name, around(1000 + gap, 400)) for name, gap in (("a", 0), ("b", 0), ("c", 10))]
    options = VerdictOptions()
    alone = judge_consistency(wide[:2], options)
    together = judge_consistency(wide, options)
    assert {item.verdict for item in together} == {"inconclusive"}
    assert together[0].seeds_needed > alone[0].seeds_needed


@pytest.mark.parametrize("rounding", [0.05, 0.5])
def test_a_printed_digit_matters_only_near_a_limit(rounding):
    def published(framework, mean):
        found = group(framework, around(mean, 50, MANY))
        return dataclasses.replace(found, rounding=rounding)

    def is_sensitive(gap):
        pair = published("a", 1000 + gap), published("b", 1000)
        margin = np.array([5.0])
        p_unobserved = np.zeros(1)
        sides = (stack_moments([side.moments]) for side in pair)
        words, _ = run_tests(*sides, margin, p_unobserved).decide(np.full(1, np.nan), 0.05)
        (found,) = check_rounding_sensitivity([pair], margin, p_unobserved, words, 0.05)
        return found

    assert not is_sensitive(0) and not is_sensitive(1000)
    half = 50 * math.sqrt(2 / MANY)
    border = stats.t.ppf(0.975, 2 * MANY - 2) * half  # the least that is significant
    assert is_sensitive(border + rounding / 4)
    assert not is_sensitive(border + 6 * rounding)
