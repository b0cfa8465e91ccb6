"""Statistics of learning curves, by hand."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parallax.analysis.stats.intervals import compute_interval
from parallax.analysis.stats.learning_curves import (
    average_stages,
    compute_stage_means,
    compute_steps_to_threshold,
    normalize_by_human,
)


def test_random_play_is_0_and_a_human_100():
    assert_allclose(normalize_by_human(np.array([2.0, 10.0, 6.0, 14.0]), 2, 10), [0, 100, 50, 150])


def make_curve(*returns):
    return np.arange(1, len(returns) + 1) * 100.0, np.array(returns, float)


@pytest.mark.parametrize(
    ("curves", "expected"),
    [
        ([], (0, 0, math.nan)),
        ([make_curve(1, 5, 9)], (1, 1, 200)),  # at the score itself
        ([make_curve(1, 6, 2), make_curve(5, 1, 1), make_curve(1, 1, 7)], (3, 3, 200)),
        ([make_curve(5), make_curve(1, 1, 7)], (2, 2, 200)),
        ([make_curve(5), make_curve(1, 7), make_curve(1, 1, 7), make_curve(1)], (4, 3, 250)),
        ([make_curve(5), make_curve(4.9), make_curve(1)], (3, 1, math.inf)),
    ],
)
def test_steps_to_a_score_are_those_of_the_first_evaluation_reaching_it(curves, expected):
    found = compute_steps_to_threshold(curves, 5.0)
    assert (found.n_runs, found.n_reached) == expected[:2]
    assert found.median == pytest.approx(expected[2], nan_ok=True)


def test_stages_are_equal_parts_of_a_run():
    steps = np.array([1, 25, 26, 50, 51, 100])
    values = np.array([1.0, 3.0, 5.0, 7.0, 10.0, 20.0])
    assert_allclose(compute_stage_means(steps, values, 100, 4), [2, 6, 10, 20])
    assert_allclose(compute_stage_means(steps, values, 100, 2), [4, 15])
    later = compute_stage_means(np.array([60, 130, 0]), np.array([1.0, 3.0, 8.0]), 100, 4)
    assert_allclose(later, [8, np.nan, 1, 3])  # outside of the run: the first or last stage


def test_stages_are_averaged_over_the_runs_that_have_values():
    found = average_stages([np.array([1.0, np.nan]), np.array([3.0, 4.0]), np.array([5.0, 8.0])])
    assert found[0] == compute_interval(np.array([1.0, 3.0, 5.0]))
    assert found[1] == compute_interval(np.array([4.0, 8.0]))
    assert len(found) == 2
