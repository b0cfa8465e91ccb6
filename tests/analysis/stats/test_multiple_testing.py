"""Holm's correction, against statsmodels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from parallax.analysis.stats.multiple_testing import adjust_holm, adjust_holm_rows

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@given(P_VALUES)
def test_one_family(p_values):
    expected = multipletests(p_values, method="holm")[1]
    assert adjust_holm(p_values) == pytest.approx(expected)


def test_missing_tests_do_not_count():
    adjusted = adjust_holm([0.01, np.nan, 0.04, 0.03])
    np.testing.assert_allclose(adjusted, [0.03, np.nan, 0.06, 0.06])


@given(
    st.integers(1, 6).flatmap(
        lambda m: st.lists(
            st.lists(st.floats(0, 1), min_size=m, max_size=m), min_size=1, max_size=5
        )
    )
)
def test_many_families(rows):
    expected = [multipletests(row, method="holm")[1] for row in rows]
    np.testing.assert_allclose(adjust_holm_rows(np.array(rows)), expected)
