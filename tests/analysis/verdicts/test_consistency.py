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
from parallax.analysis.stats import effect_size_and_power
from parallax.analysis.stats.moments import (
    compute_moments,
    moments_from_thesis_interval,
    stack_moments,
)
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.verdicts.consistency import (
    PairTests,
    _shift_by_rounding,
    check_rounding_sensitivity,
    compute_holm_levels,
    estimate_pair_seed_range,
    judge_by_family,
    judge_consistency,
    judge_library_defaults,
    name_family,
    run_tests,
)
from parallax.analysis.verdicts.groups import ScoreGroup, collect_library_defaults
from parallax.analysis.verdicts.margins import compute_unobserved_distances
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
def test_pairs_are_different_equivalent_or_inconclusive(gap, sd, word):
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


def test_margin_is_a_share_of_the_published_score_or_the_runs():
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


def test_single_seed_is_inconclusive_and_has_no_invented_numbers():
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
def test_verdicts_follow_from_their_p_values(first, second):
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


def test_verdicts_sensitive_to_rounding_are_marked():
    items = judge_consistency(
        group_published_scores("thesis_tables"), VerdictOptions(family="setting")
    )
    assert any(item.is_rounding_sensitive for item in items)
    assert not all(item.is_rounding_sensitive for item in items)


def test_seeds_are_estimated_at_the_level_corrected_for_inconclusive_pairs():
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


@pytest.mark.parametrize(
    ("p_holm", "permutation", "p_equivalence", "word", "detectable"),
    [
        (0.049, 0.049, 0.05, "different", True),
        (0.05, 0.001, 0.05, "inconclusive", False),
        (0.001, 0.05, 0.05, "inconclusive", False),
        (0.001, math.nan, 0.05, "different", True),
        (0.001, 0.001, 0.049, "equivalent", True),
        (0.9, 0.9, 0.049, "equivalent", False),
        (math.nan, math.nan, math.nan, "inconclusive", False),
    ],
)
def test_words_need_p_values_strictly_below_the_level(
    p_holm, permutation, p_equivalence, word, detectable
):
    values = [np.array([p]) for p in (1.0, p_holm, 1.0, 1.0, p_equivalence)]
    found = PairTests(None, *values).decide(np.array([permutation]), 0.05)
    assert found == ([word], [detectable])


@pytest.mark.parametrize(
    ("p_tost", "p_unobserved", "verdict", "failed", "expected"),
    [
        (0.049, 0.05, "inconclusive", 0, True),
        (0.05, 0.05, "inconclusive", 0, False),
        (0.049, 0.049, "inconclusive", 0, False),
        (0.049, 0.05, "different", 0, False),
        (0.049, 0.05, "inconclusive", 1, False),
    ],
)
def test_only_unobserved_failures_prevent_equivalence_of_equal_runs(
    p_tost, p_unobserved, verdict, failed, expected
):
    item = judge_consistency([group("a", [1, 2]), group("b", [1, 2])], VerdictOptions())[0]
    changes = {"p_tost": p_tost, "p_unobserved_failures": p_unobserved, "verdict": verdict}
    for name in ("first", "second"):
        side = dataclasses.replace(getattr(item, name), failed=failed)
        found = dataclasses.replace(item, **changes, **{name: side})
        assert found.is_limited_by_unobserved_failures is expected


CELL = StudyCell("s", "Hopper-v4", "ppo", "original", "")


@pytest.mark.parametrize(
    ("kind", "plain", "own"),
    [
        ("all", "all pairs", "all pairs (library defaults) under steps=9"),
        (
            "algorithm",
            "all pairs of ppo in study s",
            "all pairs of ppo (library defaults) in study s under steps=9",
        ),
        (
            "setting",
            "pairs of ppo, original, Hopper-v4 in study s",
            "pairs of ppo, library defaults, Hopper-v4 in study s under steps=9",
        ),
    ],
)
def test_families_are_named_after_what_they_have_in_common(kind, plain, own):
    assert name_family(CELL, kind) == plain
    cell = dataclasses.replace(CELL, hps="library defaults", variant="steps=9")
    assert name_family(cell, kind) == own


def test_pairs_are_judged_by_family_and_returned_in_their_order():
    pairs = [(group(str(i), [1], algorithm=name), None) for i, name in enumerate("bab")]
    calls = []

    def judge(members, name, options):
        calls.append((name, [first.framework for first, _ in members], options))
        return [f"{name} {first.framework}" for first, _ in members]

    options = VerdictOptions()
    found = judge_by_family(pairs, options, judge)
    first, second = "all pairs of a in study s", "all pairs of b in study s"
    assert found == (f"{second} 0", f"{first} 1", f"{second} 2")
    assert calls == [(first, ["1"], options), (second, ["0", "2"], options)]


def test_holms_level_is_divided_by_the_pairs_that_are_left_to_decide():
    rng = np.random.default_rng(0)
    groups = [group(name, rng.normal(mean, 20, 5)) for name, mean in (("a", 0), ("b", 9))]
    groups += [group("c", rng.normal(2000, 20, 5)), group("d", around(8, 1), algorithm="td3")]
    groups += [group("e", around(2000, 1), algorithm="td3")]
    items = judge_consistency(groups, VerdictOptions())
    words = [item.verdict for item in items]
    assert words == ["inconclusive", "different", "different", "different"]
    assert compute_holm_levels(items, 0.06) == [0.06, 0.06, 0.06, 0.06]
    inconclusive = [dataclasses.replace(item, verdict="inconclusive") for item in items[:2]]
    levels = compute_holm_levels([*inconclusive, *items[2:]], 0.06)
    assert levels == [0.03, 0.03, 0.03, 0.06]


def test_range_of_seeds_needed_uses_margin_and_unobserved_failures():
    options = VerdictOptions(seed=3, power=0.7)
    item = verdict(around(1350, 300), around(1000, 250), seed=3, power=0.7)
    one, two = compute_unobserved_distances([(item.first, item.second)], [item.range])
    assert one != two
    expected = effect_size_and_power.estimate_seed_range(
        (item.first.moments, item.second.moments),
        0.02,
        item.margin.size,
        np.random.default_rng(3),
        0.7,
        (float(one[0]), float(two[0])),
    )
    assert estimate_pair_seed_range(item, 0.02, options) == expected
    assert expected[0] < item.seeds_needed < expected[1]


def test_rounding_moves_printed_means_and_intervals_by_half_a_digit():
    printed = (100.0, 4.0), (90.0, 7.0)  # mean and half-width
    pair = tuple(
        dataclasses.replace(
            group(name, [1.0, 2.0]),
            rounding=0.5,
            moments=moments_from_thesis_interval(mean, half, 5.0),
        )
        for name, (mean, half) in zip("ab", printed, strict=True)
    )
    for (apart, wider), order in itertools.product(
        itertools.product((-1, 1), repeat=2), (pair, pair[::-1])
    ):
        found = _shift_by_rounding(order, apart, wider)
        found = found if order is pair else found[::-1]
        for moments, (mean, half), side in zip(found, printed, (1, -1), strict=True):
            expected = moments_from_thesis_interval(
                mean + side * apart * 0.5, half + wider * 0.5, 5.0
            )
            assert float(moments.mean) == float(expected.mean)
            assert float(moments.sd) == pytest.approx(float(expected.sd))
            assert moments.n == 5
    narrow = dataclasses.replace(pair[0], rounding=50.0)
    assert float(_shift_by_rounding((narrow, pair[1]), 1, -1)[0].sd) == 0.0


def test_scores_of_runs_are_not_rounded():
    rng = np.random.default_rng(0)
    items = judge_consistency(
        [group(name, rng.normal(0, 9, 4)) for name in "abc"], VerdictOptions()
    )
    assert [item.is_rounding_sensitive for item in items] == [False] * 3


def test_library_defaults_are_compared_under_each_frameworks_own_recipe():
    rng = np.random.default_rng(0)
    groups = [
        dataclasses.replace(one, cell=dataclasses.replace(CELL, hps=hps))
        for name, hps in (("a", "a"), ("b", "b"), ("a", "b"), ("b", "original"), ("c", "c"))
        for one in [group(name, rng.normal(0, 9, 4))]
    ]
    found = judge_library_defaults(collect_library_defaults(groups), VerdictOptions())
    pairs = [(one.first.framework, one.second.framework) for one in found]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]
    for item in found:
        assert item.cell.hps == "library defaults" and item.family_size == 3
        for side in (item.first, item.second):
            assert side.cell.hps == side.framework


def test_single_seeds_do_not_count_in_the_family():
    rng = np.random.default_rng(0)
    groups = [group(name, rng.normal(0, 9, n)) for name, n in (("a", 4), ("b", 4), ("c", 1))]
    items = judge_consistency(groups, VerdictOptions())
    assert [item.family_size for item in items] == [1, 1, 1]
    assert items[0].improvement[0] == effect_size_and_power.improvement_from_samples(
        groups[0].scores, groups[1].scores
    )
    printed = [dataclasses.replace(one, scores=None) for one in groups]
    (item, *_) = judge_consistency(printed, VerdictOptions())
    expected = effect_size_and_power.improvement_from_moments(groups[0].moments, groups[1].moments)
    assert item.improvement[0] == pytest.approx(float(expected))
    assert math.isnan(item.p_permutation) and math.isnan(item.p_log_rank)


@pytest.mark.parametrize("gap", [100, 4000])
def test_seeds_needed_are_for_the_next_level_of_holms_procedure(gap):
    groups = [group(name, around(mean, 400)) for name, mean in (("a", 0), ("b", gap), ("c", 9000))]
    items = judge_consistency(groups, VerdictOptions())
    inconclusive = [item.verdict for item in items].count("inconclusive")
    assert inconclusive == (gap == 100)
    one, two = compute_unobserved_distances(
        [(item.first, item.second) for item in items], [item.range for item in items]
    )
    expected = effect_size_and_power.estimate_seeds_needed(
        np.array([item.difference for item in items]),
        tuple(
            np.array([getattr(item, side).moments.sd for item in items])
            for side in ("first", "second")
        ),
        np.full(3, 0.05 / max(1, inconclusive)),
        np.array([item.margin.size for item in items]),
        rooms=(one, two),
    )
    assert [item.seeds_needed for item in items] == expected.tolist()


def test_every_pair_needs_a_verdict():
    pair = group("a", [1.0, 2.0]), group("b", [1.0, 2.0])
    with pytest.raises(ValueError, match="shorter"):
        judge_by_family([pair, pair], VerdictOptions(), lambda members, name, options: [1])
    rounded = dataclasses.replace(pair[0], rounding=0.5), pair[1]
    with pytest.raises(ValueError, match="longer"):
        check_rounding_sensitivity([rounded], np.ones(1), np.ones(1), [], 0.05)
