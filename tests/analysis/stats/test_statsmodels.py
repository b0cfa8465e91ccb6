"""Tests and powers, against those of statsmodels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestIndPower
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW, ttost_ind

from parallax.analysis.stats import effect_size_and_power as effects
from parallax.analysis.stats import two_sample as pairwise
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.stats.multiple_testing import adjust_holm


@settings(max_examples=15, deadline=None)
@given(p=hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1)))
def test_holm(p):
    np.testing.assert_allclose(adjust_holm(p), multipletests(p, method="holm")[1], atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_two_one_sided_tests_without_equal_variances(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(0.3, 1, 5), rng.normal(0, 3, 8)
    item = pairwise.compute_contrast([compute_moments(first)], [compute_moments(second)])
    theirs, _, _ = ttost_ind(first, second, -2.5, 2.5, usevar="unequal")
    assert float(pairwise.compute_equivalence_p(item, 2.5)) == pytest.approx(theirs)


@pytest.mark.parametrize("seed", range(5))
def test_welchs_interval(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(0.3, 1, 5), rng.normal(0, 3, 8)
    item = pairwise.compute_contrast([compute_moments(first)], [compute_moments(second)])
    means = CompareMeans(DescrStatsW(first), DescrStatsW(second))
    low, high = means.tconfint_diff(usevar="unequal")
    assert tuple(map(float, pairwise.compute_contrast_bounds(item))) == pytest.approx((low, high))


@settings(max_examples=15, deadline=None)
@given(gap=st.floats(0.1, 3), n=st.integers(3, 40), alpha=st.floats(0.001, 0.1))
def test_power_with_equal_deviations(gap, n, alpha):
    ours = float(effects.compute_difference_power(gap, (1.0, 1.0), n, alpha))
    theirs = TTestIndPower().power(effect_size=gap, nobs1=n, alpha=alpha)
    assert 0 <= ours <= 1
    if np.isfinite(theirs):  # theirs is NaN where the far tail on the other side is
        assert ours == pytest.approx(theirs, abs=1e-6)


def test_power_is_known_and_grows_with_the_difference_and_the_seeds():
    gaps, sizes = np.linspace(0, 12, 60), np.arange(2.0, 60)
    found = effects.compute_difference_power(gaps[:, None], (1.0, 1.0), sizes, 0.01)
    assert np.isfinite(found).all()
    assert (np.diff(found, axis=0) > -1e-9).all()
    assert (np.diff(found[gaps > 0.5], axis=1) > -1e-9).all()


def test_seeds_that_decide_a_difference():
    one = np.ones(1)
    for gap in (0.7, 1.0, 2.0):
        theirs = TTestIndPower().solve_power(effect_size=gap, power=0.8, alpha=0.05)
        (ours,) = effects.estimate_seeds_needed(gap * one, (one, one), 0.05 * one, 0.01 * one)
        assert ours == np.ceil(theirs)
