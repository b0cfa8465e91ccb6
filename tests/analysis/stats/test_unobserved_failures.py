"""Bounds that allow for unobserved failures, against draws of the weights themselves."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.stats.unobserved_failures import (
    compute_difference_p,
    compute_equal_means_p,
    compute_exceedance_p,
    compute_unobserved_allowance,
)


def draw_exceedance_p(upper, lower, ends, margin):
    """Both means with one unobserved value each, at the end that is the least favourable."""
    rng = np.random.default_rng(0)
    first = rng.dirichlet(np.ones(len(upper) + 1), 100_000) @ [*upper, ends[1]]
    second = rng.dirichlet(np.ones(len(lower) + 1), 100_000) @ [*lower, ends[0]]
    return (first - second >= margin).mean()


CASES = [
    ([4.0, 6.0, 7.0], [5.0, 6.0, 4.0, 5.0], (-3.0, 12.0), 2.0),
    ([8.0, 9.0, 7.0, 8.0], [2.0, 1.0, 3.0], (0.0, 10.0), 7.0),
    ([2.0, 1.0, 3.0], [8.0, 9.0, 7.0, 8.0], (0.0, 10.0), 0.5),
    ([2.0, 1.0, 3.0], [1.5, 2.5], (-20.0, 4.0), 3.0),
    ([5.0, 5.0], [5.0, 5.0, 5.0, 5.0], (4.0, 9.0), 1.0),
    ([9.0, 9.5], [1.0, 1.5], (0.0, 10.0), 3.0),  # exceeds for certain
]


@pytest.mark.parametrize(("upper", "lower", "ends", "margin"), CASES)
def test_the_bound_is_the_chance_that_weighted_means_exceed_the_margin(upper, lower, ends, margin):
    first, second = np.array(upper), np.array(lower)
    found = compute_exceedance_p(first, second, ends, margin)
    assert found == pytest.approx(draw_exceedance_p(upper, lower, ends, margin), abs=0.015)
    other = compute_exceedance_p(second, first, ends, margin)
    assert compute_difference_p(first, second, ends, margin) == max(found, other)
    tails = [compute_exceedance_p(*both, ends, 0.0) for both in ((first, second), (second, first))]
    assert compute_equal_means_p(first, second, ends) == min(1.0, 2 * min(tails))
    # What is unfavourable to the one is favourable to the mirrored other.
    mirrored = compute_exceedance_p(-second, -first, (-ends[1], -ends[0]), margin)
    assert mirrored == pytest.approx(found, abs=0.02)


@given(st.sampled_from(CASES), st.integers(-1000, 1000), st.sampled_from([0.25, 1.0, 64.0]))
@settings(max_examples=20, deadline=None)
def test_bound_is_invariant_to_shift_and_scale(case, shift, factor):
    upper, lower, ends, margin = case
    found = compute_exceedance_p(
        factor * np.array(upper) + shift,
        factor * np.array(lower) + shift,
        (factor * ends[0] + shift, factor * ends[1] + shift),
        factor * margin,
    )
    assert found == pytest.approx(
        compute_exceedance_p(*map(np.array, (upper, lower)), ends, margin)
    )


def test_moments_without_samples_are_treated_as_normal():
    rng = np.random.default_rng(3)
    first, second = rng.normal(50, 5, 400), rng.normal(52, 8, 400)
    values = compute_exceedance_p(first, second, (0.0, 100.0), -1.0)
    alone = compute_exceedance_p(
        compute_moments(first), compute_moments(second), (0.0, 100.0), -1.0
    )
    assert alone == pytest.approx(values, abs=0.03) and 0.01 < values < 0.9
    one = compute_moments(first[:1])
    assert math.isnan(compute_exceedance_p(one, second, (0.0, 100.0), 1.0))
    assert not math.isnan(compute_exceedance_p(first[:2], second, (0.0, 100.0), 1.0))
    assert not math.isnan(compute_exceedance_p(first, second[:2], (0.0, 100.0), 1.0))


@pytest.mark.parametrize("n", [3, 20])
@pytest.mark.parametrize("rooms", [(7.0, 0.0), (0.0, 7.0), (7.0, -2.0)])
def test_the_allowance_of_one_sample_is_exact(n, rooms):
    found = compute_unobserved_allowance(n, 0.05, rooms)
    assert float(found) == pytest.approx(7 * (1 - 0.05 ** (1 / n)))
    assert float(compute_unobserved_allowance(n, 0.05, (0.0, 0.0))) == 0.0
    both = compute_unobserved_allowance(np.array([n, n]), np.array([0.05, 0.01]), (7.0, 5.0))
    assert found < both[0] < both[1] < 12
    assert both[0] == compute_unobserved_allowance(n, 0.05, (5.0, 7.0))


def test_a_margin_beyond_the_range_is_never_exceeded():
    first, second = np.array([1.0, 1.0]), np.array([9.0, 9.0])
    assert compute_exceedance_p(first, second, (0.0, 10.0), 15.0) == 0.0
    assert compute_exceedance_p(second, first, (0.0, 10.0), 15.0) == 0.0
