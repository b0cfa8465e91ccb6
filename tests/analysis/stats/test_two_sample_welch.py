import math
import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from parallax.analysis.stats.intervals import compute_welch_interval

VALUES = st.floats(-1e6, 1e6, allow_subnormal=False)
SAMPLES = hnp.arrays(np.float64, st.integers(2, 12), elements=VALUES)


@given(first=SAMPLES, second=SAMPLES)
@settings(max_examples=100, deadline=None)
def test_welch_equals_scipy(first, second):
    ours = compute_welch_interval(first, second)
    if min(np.ptp(first), np.ptp(second)) < 1e-3:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert math.isclose(ours.low, theirs.low, rel_tol=1e-6, abs_tol=1e-4)
    assert math.isclose(ours.high, theirs.high, rel_tol=1e-6, abs_tol=1e-4)


def test_welch_of_identical_seeds_is_a_point():
    result = compute_welch_interval(np.array([5.0, 5.0]), np.array([3.0, 3.0]))
    assert (result.mean, result.low, result.high) == (2, 2, 2)


def test_welch_with_a_single_seed_has_no_interval():
    result = compute_welch_interval(np.array([5.0]), np.array([3.0, 4.0]))
    assert result.mean == 1.5
    assert math.isnan(result.low)


def test_welchs_interval_names_itself_and_counts_both_samples():
    first, second = np.array([5.0, 6.0, 9.0]), np.array([3.0, 4.0])
    found = compute_welch_interval(first, second)
    theirs = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (found.n, found.method) == (5, "welch")
    ends = found.mean, found.low, found.high
    np.testing.assert_allclose(ends, (first.mean() - second.mean(), *theirs))


def test_samples_of_one_or_none_have_no_ends():
    one, two, none = np.array([5.0]), np.array([3.0, 4.0]), np.array([])
    for pair, mean, n in (((two, one), -1.5, 3), ((one, one), 0.0, 2)):
        found = compute_welch_interval(*pair)
        assert (found.mean, found.n, found.method) == (mean, n, "welch")
        assert math.isnan(found.low) and math.isnan(found.high)
    for pair in ((none, two), (two, none)):
        found = compute_welch_interval(*pair)
        assert found.n == 2 and math.isnan(found.mean) and math.isnan(found.high)
    same = compute_welch_interval(np.full(2, 5.0), np.full(3, 3.0))
    assert (same.n, same.method) == (5, "welch")
