"""RQ3: are the algorithms in the same order?"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.labels import LIBRARY_DEFAULTS
from parallax.analysis.stats import effect_size_and_power, ranks
from parallax.analysis.stats.moments import compute_moments, stack_moments
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.ranking import AlgorithmRanking, judge_rankings

QUICK = VerdictOptions(resamples=2000)


def group(framework, algorithm, scores, hps="original", env="Hopper-v4"):
    scores = np.asarray(scores, dtype=np.float64)
    n = len(scores)
    cell = StudyCell("s", env, algorithm, hps, "")
    return ScoreGroup(cell, framework, compute_moments(scores), 0.0, scores, (), n, n, (100,))


def around(mean, sd=10.0, n=5):
    values = np.linspace(-1, 1, n)
    return mean + sd * values / values.std(ddof=1)


def judge(table, **options):
    """One verdict from {framework: {algorithm: (mean, sd)}}."""
    groups = [
        group(framework, algorithm, around(*numbers))
        for framework, row in table.items()
        for algorithm, numbers in row.items()
    ]
    (item,) = judge_rankings(groups, VerdictOptions(resamples=2000, **options))
    return item


CLEAR = {"ppo": (100, 5), "sac": (300, 5), "td3": (200, 5)}


def test_the_same_clear_order_is_preserved():
    item = judge({"a": CLEAR, "b": CLEAR})
    assert (item.verdict, item.same_order) == ("preserved", 1.0)
    (pair,) = item.pairs
    assert (pair.tau_b, pair.tau_b_means) == (1, 1)
    assert [list(ranking.ranks) for ranking in item.rankings] == [[3, 1, 2]] * 2


def test_reversed_order_is_not_preserved_and_names_the_algorithms():
    turned = {"ppo": (300, 5), "sac": (100, 5), "td3": (200, 5)}
    item = judge({"a": CLEAR, "b": turned})
    (pair,) = item.pairs
    assert (item.verdict, item.same_order, pair.tau_b) == ("not preserved", 0.0, -1)
    assert ("ppo", "sac") in pair.reversed_pairs


def test_the_same_order_with_other_gaps_is_a_change_of_magnitude():
    wider = {"ppo": (100, 5), "sac": (900, 5), "td3": (200, 5)}
    item = judge({"a": CLEAR, "b": wider})
    assert (item.verdict, item.same_order) == ("magnitude changed", 1.0)
    assert item.pairs[0].changed_gaps == (("ppo", "sac"), ("sac", "td3"))


def test_noisy_ranking_is_inconclusive_and_ties_share_ranks():
    noisy = {name: (mean, 400) for name, (mean, _) in CLEAR.items()}
    item = judge({"a": noisy, "b": noisy})
    assert item.verdict == "inconclusive"
    assert [list(ranking.ranks) for ranking in item.rankings] == [[2, 2, 2]] * 2
    assert np.isnan(item.pairs[0].tau_b)
    assert 0 < item.same_order < 1


def test_verdict_is_that_of_the_worst_pair_of_frameworks():
    turned = {"ppo": (300, 5), "sac": (100, 5), "td3": (200, 5)}
    item = judge({"a": CLEAR, "b": CLEAR, "c": turned})
    assert [pair.verdict for pair in item.pairs] == ["preserved", "not preserved", "not preserved"]
    assert item.verdict == "not preserved"


def test_library_defaults_use_the_recipe_of_each_framework():
    groups = [
        group(framework, algorithm, around(mean), hps=hps)
        for framework, hps in itertools.product(("sb3", "cleanrl"), ("sb3", "cleanrl"))
        for algorithm, mean in (("ppo", 100), ("sac", 300 if hps == "sb3" else 50))
    ]
    found = {item.hps: item for item in judge_rankings(groups, QUICK)}
    assert set(found) == {"sb3", "cleanrl", LIBRARY_DEFAULTS}
    assert found["sb3"].verdict == "preserved"
    assert found[LIBRARY_DEFAULTS].verdict == "not preserved"
    own = {ranking.framework: ranking for ranking in found[LIBRARY_DEFAULTS].rankings}
    assert {own[name].groups[0].cell.hps for name in own} == {"sb3", "cleanrl"}
    assert all(own[name].groups[0].cell.hps == name for name in own)


def test_a_framework_that_lacks_an_algorithm_is_named_and_left_out():
    groups = [
        group(framework, algorithm, around(mean))
        for framework in "ab"
        for algorithm, mean in (("ppo", 1), ("sac", 2))
    ]
    (item,) = judge_rankings([*groups, group("c", "ppo", around(1))], QUICK)
    assert item.left_out == ("c (no sac)",)
    (item,) = judge_rankings([*groups, group("c", "ppo", [])], QUICK)
    assert item.left_out == ("c (no ppo, sac)",)
    assert [ranking.framework for ranking in item.rankings] == ["a", "b"]


def test_one_algorithm_or_one_framework_has_no_ranking():
    assert judge_rankings([group(name, "ppo", around(1)) for name in "ab"], QUICK) == ()
    assert judge_rankings([group("a", name, around(1)) for name in ("ppo", "sac")], QUICK) == ()


def test_equal_seeds_give_equal_probabilities():
    noisy = {name: (mean, 300) for name, (mean, _) in CLEAR.items()}
    first, second = judge({"a": noisy, "b": noisy}), judge({"a": noisy, "b": noisy})
    assert first.same_order == second.same_order
    assert judge({"a": noisy, "b": noisy}, seed=1).same_order != first.same_order


def test_the_probability_of_the_same_order_is_what_resampling_gives():
    rng = np.random.default_rng(0)
    shift = np.array([[0], [0.6]])
    scores = {name: rng.normal(0, 1, (2, 6)) + shift for name in "ab"}
    groups = [
        group(name, algorithm, values)
        for name in "ab"
        for algorithm, values in zip(("ppo", "sac"), scores[name], strict=True)
    ]
    (item,) = judge_rankings(groups, VerdictOptions(resamples=20_000))
    above = []
    for name in "ab":
        drawn = [rng.choice(row, (20_000, 6)).mean(axis=1) for row in scores[name]]
        above.append(np.mean(drawn[1] > drawn[0]))
    expected = above[0] * above[1] + (1 - above[0]) * (1 - above[1])
    assert item.same_order == pytest.approx(expected, abs=0.02)


VALUES = st.lists(st.integers(0, 5), min_size=2, max_size=6)


@given(data=st.data(), first=VALUES)
@settings(max_examples=100, deadline=None)
def test_tau_b_is_scipys(data, first):
    second = data.draw(st.lists(st.integers(0, 5), min_size=len(first), max_size=len(first)))
    ours = ranks.compute_tau_b(
        *(ranks.compute_difference_signs(np.array(x, dtype=float)) for x in (first, second))
    )
    theirs = stats.kendalltau(first, second, variant="b").statistic
    np.testing.assert_allclose(ours, theirs)


@given(values=st.lists(st.integers(-5, 5), min_size=2, max_size=6))
def test_ranks_of_bare_values_are_scipys(values):
    signs = ranks.compute_difference_signs(np.array(values, dtype=float))
    expected = stats.rankdata([-value for value in values])
    np.testing.assert_allclose(ranks.compute_mid_ranks(signs), expected)


def test_algorithms_are_separated_by_welchs_test_after_holm():
    samples = [around(100, 10), around(125, 10), around(130, 10)]
    signs = ranks.compute_separation_signs(
        stack_moments([compute_moments(sample) for sample in samples]), 0.05
    )
    p = [
        stats.ttest_ind(samples[i], samples[j], equal_var=False).pvalue
        for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    assert 3 * min(p) < 0.05
    assert sorted(p)[1] * 2 < 0.05 < max(p)
    assert signs.tolist() == [[0, -1, -1], [1, 0, 0], [1, 0, 0]]


def test_a_gap_is_a_difference_with_welchs_interval():
    scores = [np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 6.0, 9.0]), np.array([7.0, 8.0])]
    groups = tuple(group("a", f"x{i}", values) for i, values in enumerate(scores))
    ranking = AlgorithmRanking("a", groups, np.ones(3), np.ones((3, 3)))
    for i, j in itertools.permutations(range(3), 2):
        theirs = stats.ttest_ind(scores[i], scores[j], equal_var=False).confidence_interval(0.95)
        found = ranking.compute_gap(i, j)
        assert found == pytest.approx((scores[i].mean() - scores[j].mean(), *theirs))


def test_order_with_reversed_means_is_not_preserved():
    table = {
        "a": {"ppo": (100, 5), "sac": (300, 5), "td3": (330, 5)},
        "b": {"ppo": (100, 5), "sac": (310, 30), "td3": (300, 30)},
    }
    for names in (("a", "b"), ("b", "a")):
        renamed = dict(zip("xy", (table[name] for name in names), strict=True))
        (pair,) = judge(renamed).pairs
        assert (pair.first, pair.second, pair.verdict) == ("x", "y", "inconclusive")
        assert pair.reversed_pairs == pair.changed_gaps == () and pair.tau_b > 0.8
    agreeing = dict(table, b=table["b"] | {"td3": (311, 30)})
    assert judge(agreeing).verdict == "preserved"


def test_seeds_needed_separate_two_algorithms_in_both_frameworks():
    noisy = {name: (mean, 400) for name, (mean, _) in CLEAR.items()}
    quiet = {name: (mean, 300) for name, (mean, _) in CLEAR.items()}
    item = judge({"a": noisy, "b": quiet})
    (pair,) = item.pairs
    gap, one = np.array([200.0]), np.ones(1)
    expected = effect_size_and_power.estimate_seeds_needed(
        gap, (400 * one, 400 * one), one * 0.05 / 3, 0 * one, np.sqrt(0.8)
    )
    assert pair.seeds_needed == expected[0] and item.verdict == "inconclusive"
    assert np.isnan(judge({"a": CLEAR, "b": CLEAR}).pairs[0].seeds_needed)
    single = [
        group(name, algorithm, [mean])
        for name in "ab"
        for algorithm, mean in (("ppo", 1), ("sac", 2))
    ]
    (unknown,) = judge_rankings(single, QUICK)
    assert np.isnan(unknown.pairs[0].seeds_needed) and unknown.verdict == "inconclusive"


def test_rankings_are_in_the_order_of_tasks_with_library_defaults_last():
    groups = [
        group(framework, algorithm, around(mean), hps, env)
        for env in ("B-v1", "A-v1")
        for hps, framework in (("zoo", "a"), ("zoo", "b"), ("a", "a"), ("b", "b"), ("c", "a"))
        for algorithm, mean in (("ppo", 100), ("sac", 300))
    ]
    groups += [group("b", name, around(1), "c", "A-v1") for name in ("ppo", "sac")]
    groups += [group("e", "ppo", [], "zoo", "A-v1")]
    found = judge_rankings(groups, QUICK)
    assert [(item.env, item.hps) for item in found] == [
        *(("A-v1", "c"), ("A-v1", "zoo"), ("A-v1", LIBRARY_DEFAULTS)),
        *(("B-v1", "zoo"), ("B-v1", LIBRARY_DEFAULTS)),
    ]
    assert {item.algorithms for item in found} == {("ppo", "sac")}
    assert {item.left_out for item in found} == {(), ("e (no ppo, sac)",)}
    assert all(item.chance.low <= item.chance.mean <= item.chance.high <= 1 for item in found)
    assert {item.chance.mean for item in found} == {item.pairs[0].chance.mean for item in found}


def test_a_gap_changed_if_its_p_value_is_below_the_level():
    two = {"ppo": (100, 5), "sac": (300, 5)}
    wider = {"ppo": (100, 5), "sac": (320, 5)}
    moments = [
        stack_moments([compute_moments(around(*numbers)) for numbers in row.values()])
        for row in (two, wider)
    ]
    _, p = ranks.compute_gap_p(*moments)[0, 1]
    words = [judge({"a": two, "b": wider}, alpha=p * k).verdict for k in (1, 1.001)]
    assert words == ["preserved", "magnitude changed"]
