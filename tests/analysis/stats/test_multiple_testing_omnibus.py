"""Counts of significant comparisons: Welch's test is scipy's, and chance gives its level."""

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.stats.moments import SampleMoments
from parallax.analysis.stats.multiple_testing import (
    _count_significant,
    _split_into_chunks,
    evaluate_count,
    shrink_deviations,
    simulate_counts,
)


def test_significant_pairs_are_those_of_scipy():
    rng = np.random.default_rng(0)
    n, pairs = np.array([3.0, 5.0, 8.0]), ([0, 0, 1], [1, 2, 2])
    mean, sd = rng.normal(size=(400, 3)) * 2, rng.uniform(0.2, 2, size=(400, 3))
    found = _count_significant(mean, sd**2 / n, n, *map(np.array, pairs), 0.3)
    expected = [
        sum(
            stats.ttest_ind_from_stats(m[i], s[i], n[i], m[j], s[j], n[j], equal_var=False).pvalue
            < 0.3
            for i, j in zip(*pairs, strict=True)
        )
        for m, s in zip(mean, sd, strict=True)
    ]
    assert list(found) == expected and len(set(expected)) == 4


def test_samples_without_deviation_differ_for_certain_or_not_at_all():
    mean, error = np.array([[1.0, 1.0, 2.0]]), np.zeros((1, 3))
    sides = np.array([0, 0]), np.array([1, 2])
    assert list(_count_significant(mean, error, np.full(3, 5.0), *sides, 0.05)) == [1]


@pytest.mark.parametrize("sizes", [(5, 5), (4, 9)])
def test_equal_means_are_significant_as_often_as_the_level_says(sizes):
    items = SampleMoments(np.zeros(2), np.array([2.0, 5.0]), np.array(sizes, dtype=float))
    counts = simulate_counts(items, [(0, 1)], 0.2, np.random.default_rng(1), 40_000)
    assert counts.shape == (40_000,)
    assert counts.mean() == pytest.approx(0.2, abs=0.012)


def test_pairs_that_share_a_sample_are_counted_together():
    items = SampleMoments(np.zeros(3), np.ones(3), np.full(3, 6.0))
    pairs = [(0, 1), (0, 2), (1, 2)]
    counts = simulate_counts(items, pairs, 0.2, np.random.default_rng(2), 20_000)
    assert counts.max() == 3 and counts.mean() == pytest.approx(0.6, abs=0.03)
    assert counts.var() > 1.2 * 3 * 0.2 * 0.8  # independent tests would vary less


def test_variances_move_half_way_to_the_pooled_one():
    items = SampleMoments(np.zeros(2), np.array([1.0, 3.0]), np.array([5.0, 5.0]))
    assert shrink_deviations(items).sd == pytest.approx(np.sqrt([3.0, 7.0]))
    uneven = SampleMoments(np.zeros(2), np.array([1.0, 3.0]), np.array([4.0, 2.0]))
    assert shrink_deviations(uneven).sd == pytest.approx(np.sqrt([2.0, 6.0]))
    equal = SampleMoments(np.zeros(2), np.array([2.0, 2.0]), np.array([3.0, 9.0]))
    assert shrink_deviations(equal).sd == pytest.approx([2.0, 2.0])


def test_a_sample_without_deviation_gets_half_of_the_pooled_variance():
    items = SampleMoments(np.zeros(2), np.array([2.0, np.nan]), np.array([3.0, 1.0]))
    assert shrink_deviations(items).sd == pytest.approx([2.0, np.sqrt(2.0)])


def test_the_p_value_counts_studies_with_as_many_or_more():
    found = evaluate_count(2, 9, np.array([0, 1, 2, 3]))
    assert (found.observed, found.tests, found.max_under_null) == (2, 9, 3)
    assert found.p == pytest.approx(3 / 5) and found.expected_under_null == 1.5


def test_everything_is_significant_below_its_level_only():
    mean, error = np.array([[1.0, 1.0, 2.0]]), np.zeros((1, 3))
    sides = np.array([0, 0]), np.array([1, 2])
    assert list(_count_significant(mean, error, np.full(3, 5.0), *sides, 1.0)) == [1]  # p = 1 and 0
    found = evaluate_count(4, 9, np.array([0, 1, 2, 3]))
    assert found.p == 1 / 5 and found.simulated_studies == 4


def test_single_seeds_are_simulated_without_deviation():
    items = SampleMoments(np.zeros(2), np.array([np.nan, np.nan]), np.array([1.0, 1.0]))
    counts = simulate_counts(items, [(0, 1)], 0.2, np.random.default_rng(1), 5)
    assert counts.tolist() == [0] * 5
    assert shrink_deviations(items).sd.tolist() == [0.0, 0.0]


def test_two_seeds_are_one_degree_of_freedom_and_memory_is_bounded():
    items = SampleMoments(np.zeros(1), np.array([2.0]), np.array([2.0]))
    assert shrink_deviations(items).sd.tolist() == [2.0]
    assert _split_into_chunks(5, 1_000_000) == [2, 2, 1] and _split_into_chunks(5, 0) == [5]
    assert _split_into_chunks(2, 3_000_000) == [1, 1] and _split_into_chunks(0, 5) == []
