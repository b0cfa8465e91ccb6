"""Survival curves with intervals, and log-rank tests of few runs."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.duration.survfunc import survdiff

from parallax.analysis.stats.survival import (
    CensoredTimes,
    _compute_log_rank_statistics,
    compute_log_rank_p,
    compute_permuted_log_rank_p,
    estimate_survival,
)


def test_intervals_are_greenwoods_on_the_log_log_scale():
    pairs = [(1, True), (2, False), (3, True), (3, True), (5, False), (6, True), (7, False)]
    found = estimate_survival(CensoredTimes.from_pairs(pairs))
    assert found.steps.tolist() == [1, 3, 6]
    share = np.array([6 / 7, 6 / 7 * 3 / 5, 6 / 7 * 3 / 5 / 2])
    assert found.share == pytest.approx(share) and found.median == 6.0
    variance = np.cumsum([1 / (7 * 6), 2 / (5 * 3), 1 / (2 * 1)]) / np.log(share) ** 2
    half = stats.norm.ppf(0.975) * np.sqrt(variance)
    assert found.low == pytest.approx(share ** np.exp(half))
    assert found.high == pytest.approx(share ** np.exp(-half))
    whole = estimate_survival(CensoredTimes.from_pairs([(1, True), (2, True)]))
    assert whole.share.tolist() == [0.5, 0.0] and whole.median == 1.0
    assert whole.low[-1] == whole.high[-1] == 0.0


def test_a_curve_without_an_event_is_empty():
    found = estimate_survival(CensoredTimes.from_pairs([(9, False)]))
    assert [len(part) for part in (found.steps, found.share, found.low, found.high)] == [0] * 4
    assert found.median == math.inf


def test_further_runs_without_an_event_are_added():
    times = CensoredTimes.from_pairs([(4, True), (6, False)]).add_censored(9.0, 2)
    assert times.times.tolist() == [4, 6, 9, 9] and times.times.dtype == np.float64
    assert times.reached.tolist() == [True, False, False, False]


def test_tests_need_two_runs_and_an_event():
    one, two = (CensoredTimes.from_pairs([(t, True) for t in range(1, n + 1)]) for n in (1, 2))
    never = CensoredTimes.from_pairs([(9, False)] * 2)
    assert math.isnan(compute_log_rank_p(one, two)) and math.isnan(compute_log_rank_p(two, one))
    assert compute_log_rank_p(never, never) == 1.0
    assert 0 < compute_log_rank_p(never, two) < 1 and 0 < compute_log_rank_p(two, never) < 1
    same = CensoredTimes.from_pairs([(5, True)] * 2)
    assert compute_log_rank_p(same, same) == 1.0  # nothing to compare: all at once
    rng = np.random.default_rng(0)
    assert math.isnan(compute_permuted_log_rank_p([one, one, two], rng))
    p = compute_permuted_log_rank_p([one, two, never], rng, 99)
    assert 0.01 <= p <= 1 and (p * 100) == pytest.approx(round(p * 100))


def test_the_statistic_of_several_groups_is_that_of_statsmodels():
    rng = np.random.default_rng(0)
    times, reached = rng.integers(1, 8, 18).astype(float), rng.random(18) < 0.7
    groups = np.repeat([0, 1, 2, 3], [3, 5, 4, 6])
    sample = CensoredTimes(times, reached)
    other = rng.permutation(groups)
    found = _compute_log_rank_statistics(sample, np.stack([groups, other]))
    expected = [survdiff(times, reached, assigned)[0] for assigned in (groups, other)]
    assert found == pytest.approx(expected)
