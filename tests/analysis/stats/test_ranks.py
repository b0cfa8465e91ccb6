"""Welch's test of many pairs at once is that of scipy, and decides without deviation."""

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.stats.moments import SampleMoments
from parallax.analysis.stats.multiple_testing import adjust_holm, compute_welch_p
from parallax.analysis.stats.ranks import (
    bootstrap_means,
    compute_gap_p,
    compute_mid_ranks,
    compute_same_order_chance,
    compute_same_order_probability,
    compute_separation_signs,
    simulate_tied_orders,
)


def test_p_values_are_scipys_and_certain_without_deviation():
    first, second = np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 6.0, 9.0])
    shares = [np.var(one, ddof=1) / len(one) for one in (first, second)]
    small = shares[0] ** 2 / 2 + shares[1] ** 2 / 3
    difference = np.array([first.mean() - second.mean(), 0.0, 1.0])
    p = compute_welch_p(difference, np.array([sum(shares), 0, 0]), np.array([small, 0, 0]))
    assert np.allclose(p, [stats.ttest_ind(first, second, equal_var=False).pvalue, 1.0, 0.0])


def test_gaps_between_items_are_contrasts_of_four_means():
    assert (
        compute_gap_p(
            *(SampleMoments(np.array([i]), np.ones(1), np.full(1, 5)) for i in (1.0, 2.0))
        )
        == {}
    )
    first = SampleMoments(np.array([1.0, 3.0, 8.0]), np.array([1.0, 2.0, 1.0]), np.array([5, 6, 4]))
    second = SampleMoments(
        np.array([0.0, 4.0, 5.0]), np.array([2.0, 1.0, 1.0]), np.array([7, 3, 8])
    )
    found = compute_gap_p(first, second)
    assert {pair: gap for pair, (gap, _) in found.items()} == {(0, 1): 2, (0, 2): -2, (1, 2): -4}
    bare = []
    for i, j in found:
        parts = [
            (one.sd[k] ** 2 / one.n[k], one.n[k] - 1) for one in (first, second) for k in (i, j)
        ]
        error = sum(variance for variance, _ in parts)
        degrees = error**2 / sum(variance**2 / n for variance, n in parts)
        bare.append(2 * stats.t.sf(abs(found[i, j][0]) / np.sqrt(error), degrees))
    assert [p for _, p in found.values()] == pytest.approx(adjust_holm(np.array(bare)))


def test_rankings_agree_where_no_two_items_are_in_opposite_orders():
    ranks = np.array([[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 2, 3], [3, 2, 1]])
    orders = np.sign(ranks[:, :, None] - ranks[:, None, :])
    first = np.broadcast_to(orders[0], orders.shape)
    assert compute_same_order_probability([first, orders]) == pytest.approx(2 / 5)
    assert compute_same_order_probability([orders, orders, first]) == pytest.approx(2 / 5)


def test_means_are_resampled_drawn_or_known():
    values = np.array([1.0, 2.0, 6.0])
    items = SampleMoments(
        np.array([3.0, 10.0, 7.0]), np.array([values.std(ddof=1), 4.0, np.nan]), np.array([3, 5, 1])
    )
    drawn = bootstrap_means(
        items, [values, None, np.array([7.0])], 40_000, np.random.default_rng(0)
    )
    assert drawn.shape == (40_000, 3)
    assert set(np.round(drawn[:, 0] * 3)) == {3, 4, 5, 6, 8, 9, 10, 13, 14, 18}
    assert drawn[:, 0].mean() == pytest.approx(3, abs=0.03)
    spread = (drawn[:, 1] - 10) / (4 / np.sqrt(5))
    expected = stats.t.ppf([0.1, 0.5, 0.9], 4)
    assert np.quantile(spread, [0.1, 0.5, 0.9]) == pytest.approx(expected, abs=0.04)
    assert set(drawn[:, 2]) == {7.0}


def test_orders_of_tied_items_vary_as_much_as_their_errors():
    items = SampleMoments(np.array([0.0, 50.0]), np.array([2.0, 2.0]), np.array([4.0, 4.0]))
    orders = simulate_tied_orders(items, 400, 100, np.random.default_rng(0))
    assert orders.shape == (400, 100, 2, 2) and set(np.unique(orders)) == {-1, 0, 1}
    above = (orders[:, :, 0, 1] > 0).mean(axis=1)
    # A resample scatters around its sample as the sample does around 0: uniform shares.
    assert above.mean() == pytest.approx(0.5, abs=0.05)
    assert above.var() == pytest.approx(1 / 12, abs=0.02)
    certain = SampleMoments(np.zeros(2), np.array([np.nan, 0.0]), np.array([1.0, 4.0]))
    assert not simulate_tied_orders(certain, 3, 5, np.random.default_rng(0)).any()


def test_the_chance_of_the_same_order_is_summarized_over_samples():
    first = np.ones((41, 1, 2, 2)) * np.array([[0, 1], [-1, 0]])
    second = np.where(np.arange(41)[:, None, None, None] < 11, -first, first)
    found = compute_same_order_chance([first, second])
    assert (found.mean, found.low, found.high) == (pytest.approx(30 / 41), 0.0, 1.0)
    shares = np.repeat(np.linspace(0, 1, 41), 100).reshape(41, 100)
    flips = np.where(np.arange(100) < 100 * shares, 1, -1)[:, :, None, None]
    signs = np.array([[0, 1], [-1, 0]])
    graded = compute_same_order_chance([np.ones_like(flips) * signs, flips * signs])
    assert (graded.low, graded.high) == pytest.approx((0.025, 0.975), abs=0.011)


def test_empty_input_has_no_ranks():
    assert compute_mid_ranks(np.zeros((0, 0))).tolist() == []


def test_ties_share_the_mean_of_their_ranks():
    signs = np.sign(np.subtract.outer(values := np.array([2.0, 5.0, 2.0, 1.0, 2.0]), values))
    assert compute_mid_ranks(signs).tolist() == [3.0, 1.0, 3.0, 5.0, 3.0]
    items = SampleMoments(np.array([0.0, 2.0]), np.ones(2), np.full(2, 5.0))
    p = stats.ttest_ind_from_stats(0, 1, 5, 2, 1, 5, equal_var=False).pvalue
    assert compute_separation_signs(items, p * 1.0001).tolist() == [[0, -1], [1, 0]]
    assert not compute_separation_signs(items, p * 0.9999).any()
    unknown = SampleMoments(np.array([0.0, 2.0]), np.array([1.0, np.nan]), np.array([5.0, 1.0]))
    assert not compute_separation_signs(unknown).any()
