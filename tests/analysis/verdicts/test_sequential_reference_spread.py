"""Mean scores of one implementation beside the spread of reference implementations."""

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.verdicts.sequential import (
    INCONCLUSIVE,
    INSIDE,
    OUTSIDE,
    ReferenceSpread,
    SequentialSchedule,
    compute_paired_change,
    compute_reference_spread,
    judge_against_spread,
)

SCHEDULE = SequentialSchedule(3, 12)
REFERENCE = {"a": [90.0, 110.0], "b": [95.0, 97.0], "c": [104.0, 106.0], "d": [99.0]}


@pytest.fixture(scope="module")
def spread():
    return compute_reference_spread(REFERENCE)


def test_the_spread_is_the_prediction_interval_of_one_more_mean(spread):
    means = np.array([100.0, 96.0, 105.0, 99.0])
    half = stats.t.ppf(0.975, 3) * means.std(ddof=1) * np.sqrt(1 + 1 / 4)
    assert spread.runs == 7
    assert (spread.low, spread.high) == pytest.approx((100 - half, 100 + half))


def test_spread_covers_one_more_framework_as_often_as_stated():
    rng, inside = np.random.default_rng(0), 0
    for means in rng.normal(size=(4000, 7)):
        found = compute_reference_spread({str(i): [mean] for i, mean in enumerate(means[:6])})
        inside += found.low <= means[6] <= found.high
    assert inside / 4000 == pytest.approx(0.95, abs=0.015)


def test_a_spread_needs_three_frameworks():
    with pytest.raises(ValueError, match="at least 3 frameworks"):
        compute_reference_spread({"a": [1.0], "b": [2.0], "c": []})
    assert compute_reference_spread({"a": [1.0], "b": [2.0], "c": [3.0]}).runs == 3


def test_clear_scores_are_inside_or_outside_at_the_first_check(spread):
    assert judge_against_spread([99.0, 100.0, 101.0], spread, SCHEDULE).verdict == INSIDE
    low = judge_against_spread([10.0, 11.0, 9.0], spread, SCHEDULE)
    high = judge_against_spread([200.0, 201.0, 199.0], spread, SCHEDULE)
    assert (low.verdict, high.verdict) == (OUTSIDE, OUTSIDE)
    assert low.p_outside < 0.05 < low.p_inside
    assert judge_against_spread([10.0, 11.0, 9.0], spread, SCHEDULE).n == 3


def test_few_scores_are_inconclusive(spread):
    assert judge_against_spread([99.0, 100.0], spread, SCHEDULE).verdict == INCONCLUSIVE
    wide = judge_against_spread([50.0, 100.0, 150.0], spread, SCHEDULE)
    assert (wide.verdict, wide.p_outside) == (INCONCLUSIVE, 1.0)


@pytest.mark.parametrize("deviation", [2.0, 15.0])
def test_false_verdicts_at_the_limit_are_rare_over_all_checks(spread, deviation):
    rng, repeats = np.random.default_rng(1), 500
    false = {INSIDE: 0, OUTSIDE: 0}
    for scores in rng.normal(spread.low, deviation, size=(repeats, 12)):
        for n in (3, 6, 9, 12):
            found = judge_against_spread(scores[:n], spread, SCHEDULE)
            if found.verdict != INCONCLUSIVE:
                false[found.verdict] += 1
                break
    # At the limit itself both words are false; each has half of the level or its own.
    assert false[INSIDE] / repeats < 0.05 + 0.02
    assert false[OUTSIDE] / repeats < 0.025 + 0.014


def test_equal_pairs_show_no_change():
    found = compute_paired_change([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], SCHEDULE)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_the_interval_of_pairs_is_that_of_students_t():
    first, second = [1.0, 2.0, 3.0], [2.0, 3.5, 4.0]
    found = compute_paired_change(first, second, SCHEDULE)
    expected = stats.ttest_rel(second, first).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    # One of four checks: the p-value over all of them is larger than that of this one.
    assert found.p > stats.ttest_rel(second, first).pvalue


@pytest.mark.parametrize("sign", [1, -1])
def test_p_of_a_single_check_equals_the_paired_t_test(sign):
    first, second = np.zeros(6), sign * np.array([0.3, 0.9, -0.2, 0.8, 0.4, 0.6])
    found = compute_paired_change(first, second, SequentialSchedule(6, 6))
    assert found.p == pytest.approx(stats.ttest_rel(second, first).pvalue, rel=1e-6)


def test_the_frameworks_that_there_are_are_named():
    with pytest.raises(ValueError, match="there are") as raised:
        compute_reference_spread({"a": [1.0], "b": [2.0], "c": []})
    assert (
        str(raised.value) == "A spread needs runs of at least 3 frameworks; there are runs of a, b."
    )
    with pytest.raises(ValueError, match="there are runs of none"):
        compute_reference_spread({})


def test_only_whole_batches_count(spread):
    found = judge_against_spread([99.0, 100.0, 101.0, 5000.0], spread, SCHEDULE)
    assert found == judge_against_spread([99.0, 100.0, 101.0], spread, SCHEDULE)
    assert (found.n, found.mean, found.p_outside) == (3, 100.0, 1.0)
    early = judge_against_spread([99.0, 105.0], spread, SCHEDULE)
    assert (early.verdict, early.n, early.mean) == (INCONCLUSIVE, 2, 102.0)
    assert np.isnan([early.p_inside, early.p_outside]).all()
    assert np.isnan(judge_against_spread([], spread, SCHEDULE).mean)


@pytest.mark.parametrize("side", [1, -1])
def test_p_values_of_a_single_check_are_students(spread, side):
    limit = spread.high if side > 0 else spread.low
    scores = limit + side * np.array([1.0, 4.0, 2.0, 7.0, 3.0])
    found = judge_against_spread(scores, spread, SequentialSchedule(5, 5))
    alternative = "greater" if side > 0 else "less"
    one = stats.ttest_1samp(scores, limit, alternative=alternative).pvalue
    assert found.p_outside == pytest.approx(2 * one, rel=1e-3) and found.verdict == OUTSIDE
    assert found.p_inside == 1.0  # above one half, such a value says nothing
    wide = ReferenceSpread({}, 0, limit - 9.0, limit + 8.0)
    inside = judge_against_spread(scores, wide, SequentialSchedule(5, 5))
    tails = [
        stats.ttest_1samp(scores, end, alternative=word).pvalue
        for end, word in ((wide.low, "greater"), (wide.high, "less"))
    ]
    assert inside.p_inside == pytest.approx(max(tails), rel=1e-3)
    level = inside.p_inside * 1.001
    assert judge_against_spread(scores, wide, SequentialSchedule(5, 5), level).verdict == INSIDE
    level = inside.p_inside * 0.999
    word = judge_against_spread(scores, wide, SequentialSchedule(5, 5), level).verdict
    assert word == INCONCLUSIVE


def test_a_p_value_at_the_level_is_not_outside():
    spread = ReferenceSpread({}, 0, 0.0, 10.0)
    scores, schedule = [11.0, 14.0, 12.0, 17.0, 13.0], SequentialSchedule(5, 5)
    p = judge_against_spread(scores, spread, schedule).p_outside
    words = [judge_against_spread(scores, spread, schedule, p * k).verdict for k in (1, 1.001)]
    assert words == [INCONCLUSIVE, OUTSIDE]
