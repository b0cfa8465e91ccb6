"""Flipping the signs of paired differences."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.stats.paired import compute_paired_difference, compute_sign_flip_p


@pytest.mark.parametrize("count", [2, 6, 10])
def test_it_is_the_share_of_all_flips_that_are_as_far_from_0(count):
    rng = np.random.default_rng(count)
    first, second = rng.normal(0.5, 1, (2, count))
    away = first - second
    flips = np.array(list(itertools.product((1, -1), repeat=count)))
    share = float((abs(flips @ away) >= abs(away.sum()) - 1e-9).mean())
    assert compute_sign_flip_p(first, second, rng) == pytest.approx(share)


def test_nothing_is_said_of_one_pair_or_of_equal_ones():
    rng, ones = np.random.default_rng(0), np.ones(5)
    assert math.isnan(compute_sign_flip_p(ones[:1], 2 * ones[:1], rng))
    assert math.isnan(compute_sign_flip_p(ones, ones, rng))
    assert compute_sign_flip_p(ones, 2 * ones, rng) == 2 / 2**5


def test_many_pairs_are_drawn_and_give_nearly_the_paired_test():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0, 1, (2, 40))
    assert compute_sign_flip_p(first, second, rng) == pytest.approx(
        compute_paired_difference(first, second).p, abs=0.03
    )
    assert compute_sign_flip_p(first + 3, second, rng) < 0.001


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_paired_test_is_that_of_scipy(count):
    first, second = np.random.default_rng(count).normal(1, 1, (2, count))
    found, other = compute_paired_difference(first, second), stats.ttest_rel(first, second)
    assert (found.n, found.difference) == (count, pytest.approx(float((first - second).mean())))
    assert found.p == pytest.approx(other.pvalue)
    assert [found.low, found.high] == pytest.approx(list(other.confidence_interval()))
    assert math.isnan(found.correlation) == (count == 2)
