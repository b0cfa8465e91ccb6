"""Moments of samples: of none, one, equal and different values, and of printed intervals."""

import math

import numpy as np
import pytest

from parallax.analysis.stats.moments import (
    compute_moments,
    moments_from_population_sd,
    moments_from_thesis_interval,
    stack_moments,
)


@pytest.mark.parametrize(
    ("values", "mean", "sd"),
    [
        ([], math.nan, math.nan),
        ([4.0], 4.0, math.nan),
        ([1.0, 4.0], 2.5, math.sqrt(4.5)),
        ([0.1] * 3, 0.1, 0.0),  # their sum divided by three is another number
        ([0.1] * 2, 0.1, 0.0),
        ([1.0, 1.0, 1.0, 5.0], 2.0, 2.0),
    ],
)
def test_equal_values_have_no_deviation_and_single_ones_an_unknown_one(values, mean, sd):
    found = compute_moments(np.array(values))
    exact = sd == 0.0
    assert found.mean == (mean if exact else pytest.approx(mean, nan_ok=True))
    assert found.sd == (sd if exact else pytest.approx(sd, nan_ok=True))
    assert (found.n, type(found.n)) == (len(values), np.float64)
    if len(values):
        error = float(found.squared_error)
        assert error == pytest.approx(sd**2 / len(values), nan_ok=True)


def test_deviations_are_recovered_from_those_of_the_population():
    values = np.array([1.0, 4.0, 9.0])
    found = moments_from_population_sd(values.mean(), values.std(), 3)
    assert (found.mean, found.n) == (values.mean(), 3)
    assert float(found.sd) == pytest.approx(values.std(ddof=1))
    printed = moments_from_thesis_interval(5.0, 1.96 * values.std() / math.sqrt(3), 3)
    assert float(printed.sd) == pytest.approx(values.std(ddof=1)) and printed.mean == 5.0
    stacked = stack_moments([found, printed])
    assert stacked.mean.tolist() == [values.mean(), 5.0] and stacked.n.tolist() == [3, 3]
    assert stacked.sd.tolist() == [found.sd, printed.sd]
