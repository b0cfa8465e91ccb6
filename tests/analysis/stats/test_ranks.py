"""Welch's test of many pairs at once is that of scipy, and decides without deviation."""

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.stats.moments import SampleMoments
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.ranks import (
    _compute_welch_p,
    compute_gap_p,
    compute_same_order_probability,
)


def test_p_values_are_scipys_and_certain_without_deviation():
    first, second = np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 6.0, 9.0])
    shares = [np.var(one, ddof=1) / len(one) for one in (first, second)]
    small = shares[0] ** 2 / 2 + shares[1] ** 2 / 3
    difference = np.array([first.mean() - second.mean(), 0.0, 1.0])
    p = _compute_welch_p(difference, np.array([sum(shares), 0, 0]), np.array([small, 0, 0]))
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
