"""Holm's correction, against statsmodels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from parallax.analysis.stats.multiple_testing import adjust_holm, adjust_holm_rows

# Hundredths, so that ties are frequent and no number is too small for a relative comparison.
P_VALUES = st.lists(st.integers(0, 100).map(lambda n: n / 100), min_size=1, max_size=20)


@given(P_VALUES)
def test_one_family_is_adjusted_as_by_statsmodels(p_values):
    expected = multipletests(p_values, method="holm")[1]
    assert adjust_holm(p_values) == pytest.approx(expected)


def test_missing_tests_do_not_count():
    adjusted = adjust_holm([0.01, np.nan, 0.04, 0.03])
    np.testing.assert_allclose(adjusted, [0.03, np.nan, 0.06, 0.06])


@pytest.mark.parametrize("size", [1, 2, 15])
def test_many_families_are_adjusted_as_one_by_one(size):
    rows = np.random.default_rng(0).uniform(size=(50, size)).round(2)
    expected = [multipletests(row, method="holm")[1] for row in rows]
    np.testing.assert_allclose(adjust_holm_rows(rows), expected)
