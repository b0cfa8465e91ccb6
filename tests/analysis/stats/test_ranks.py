"""Welch's test of many pairs at once is that of scipy, and decides without deviation."""

import numpy as np
from scipy import stats

from parallax.analysis.stats.ranks import _compute_welch_p


def test_p_values_are_scipys_and_certain_without_deviation():
    first, second = np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 6.0, 9.0])
    shares = [np.var(one, ddof=1) / len(one) for one in (first, second)]
    small = shares[0] ** 2 / 2 + shares[1] ** 2 / 3
    difference = np.array([first.mean() - second.mean(), 0.0, 1.0])
    p = _compute_welch_p(difference, np.array([sum(shares), 0, 0]), np.array([small, 0, 0]))
    assert np.allclose(p, [stats.ttest_ind(first, second, equal_var=False).pvalue, 1.0, 0.0])
