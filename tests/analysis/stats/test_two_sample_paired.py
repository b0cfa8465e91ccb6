"""Flipping the signs of paired differences."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.stats.two_sample import (
    compute_paired_difference,
    compute_ratio_of_means,
    compute_sign_flip_p,
)


@pytest.mark.parametrize("count", [2, 6, 10])
def test_sign_flip_p_is_the_share_of_flips_as_extreme(count):
    rng = np.random.default_rng(count)
    first, second = rng.normal(0.5, 1, (2, count))
    away = first - second
    flips = np.array(list(itertools.product((1, -1), repeat=count)))
    share = float((abs(flips @ away) >= abs(away.sum()) - 1e-9).mean())
    assert compute_sign_flip_p(first, second, rng) == pytest.approx(share)


def test_flips_of_decimal_differences_are_ties_despite_rounding():
    first, second = 500 + np.array([1, 0, 2]) / 10, 500 + np.array([2, 1, 1]) / 10
    assert compute_sign_flip_p(first, second, np.random.default_rng(0)) == 1
    first, second = 500 + np.array([2, 2, 4]) / 10, 500 + np.array([5, 3, 3]) / 10
    assert compute_sign_flip_p(first, second, np.random.default_rng(0)) == 0.75


@pytest.mark.parametrize("size", [3, 7, 10])
def test_equal_differences_have_no_p_value_despite_rounding(size):
    constant = compute_paired_difference(np.full(size, 499.9), np.full(size, 400.3))
    assert math.isnan(constant.p) and math.isnan(constant.correlation)
    first = 500 + np.arange(size) / 10
    shifted = compute_paired_difference(first, first - 0.1)
    assert math.isnan(shifted.p)
    assert shifted.low == shifted.high == pytest.approx(0.1)


def test_single_or_equal_pairs_have_no_result():
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


@pytest.mark.parametrize(("count", "level"), [(3, 0.9), (5, 0.95), (9, 0.99)])
def test_p_values_at_the_interval_ends_of_a_ratio_are_the_level(count, level):
    first, second = np.random.default_rng(count).normal([[9], [7]], 0.2, (2, count))
    found = compute_ratio_of_means(first, second, level)
    assert (found.n, found.share) == (count, pytest.approx(first.mean() / second.mean()))
    tests = [stats.ttest_1samp(first - end * second, 0) for end in (found.low, found.high)]
    assert [test.pvalue for test in tests] == pytest.approx([1 - level] * 2)
    assert found.low < found.share < found.high and found.is_bounded
    few = compute_ratio_of_means(first[:2], second[:2])
    assert few.n == 2 and not few.is_bounded


def test_ratio_with_a_denominator_near_0_has_no_interval():
    found = compute_ratio_of_means(np.array([1.0, 2.0, 4.0]), np.array([-1.0, 0.5, 1.0]))
    assert found.share == pytest.approx(14.0) and math.isnan(found.low + found.high)
    assert math.isnan(compute_ratio_of_means(np.ones(4), np.zeros(4)).share)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_paired_interval_has_its_level_and_the_correlation_needs_three_pairs(level):
    first, second = np.random.default_rng(0).normal(1, 1, (2, 6))
    found = compute_paired_difference(first, second, level)
    expected = stats.ttest_rel(first, second).confidence_interval(level)
    assert [found.low, found.high] == pytest.approx(list(expected))
    assert found.correlation == pytest.approx(stats.pearsonr(first, second).statistic)
    three = compute_paired_difference(first[:3], second[:3])
    assert three.correlation == pytest.approx(stats.pearsonr(first[:3], second[:3]).statistic)
    for flat in ((first, np.ones(6)), (np.ones(6), second)):
        assert math.isnan(compute_paired_difference(*flat).correlation)
    equal = compute_paired_difference(np.arange(4.0) + 2, np.arange(4.0))
    assert (equal.difference, equal.low, equal.high) == (2.0, 2.0, 2.0) and math.isnan(equal.p)
    one = compute_paired_difference(np.array([3.0]), np.array([1.0]))
    assert (one.n, one.difference) == (1, 2.0)
    assert all(map(math.isnan, (one.low, one.high, one.p, one.correlation)))


def test_ratio_needs_three_pairs_and_a_nonzero_denominator():
    three = compute_ratio_of_means(np.array([2.0, 2.2, 2.1]), np.array([1.0, 1.05, 1.1]))
    assert three.n == 3 and three.is_bounded
    two = compute_ratio_of_means(np.array([2.0, 4.0]), np.array([1.0, 2.0]))
    assert (two.n, two.share) == (2, 2.0) and math.isnan(two.low) and math.isnan(two.high)
    exact = compute_ratio_of_means(np.full(4, 3.0), np.full(4, 2.0))
    assert (exact.share, exact.low, exact.high) == (1.5, 1.5, 1.5)
    negative = compute_ratio_of_means(
        np.array([1.0, 1.2, 0.9, 1.1]), -np.array([2.0, 2.1, 1.9, 2.2])
    )
    assert negative.low < negative.share < negative.high < 0


def test_two_pairs_have_no_correlation():
    found = compute_paired_difference(np.array([1.0, 2.0]), np.array([0.0, 4.0]))
    assert found.n == 2 and math.isnan(found.correlation) and not math.isnan(found.p)
