"""Gaps between tasks, quantiles of columns, and failure rates, against other computations."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from parallax.analysis.stats import ranks, two_sample
from parallax.analysis.stats.intervals import _compute_column_quantiles
from parallax.analysis.stats.moments import SampleMoments, compute_moments
from parallax.analysis.stats.multiple_testing import compute_welch_p


def make_moments(means, sd, n):
    means = np.asarray(means, float)
    return SampleMoments(means, np.broadcast_to(float(sd), means.shape), np.full(means.shape, n))


def test_gaps_of_equal_means_change_no_more_often_than_the_level_allows():
    rng = np.random.default_rng(0)
    same = [make_moments([0.0, 10.0, 20.0], 1, 10)] * 2
    changed = ranks.simulate_gap_changes(same, 0.05, 4000, rng)
    assert changed.dtype == bool and changed.shape == (4000,)
    assert 0.02 < changed.mean() < 0.06  # Holm over three gaps, which depend on each other


def test_a_gap_counts_only_where_the_items_are_separated():
    rng = np.random.default_rng(0)
    tied = [make_moments([0.0, 0.0], 1, 10)] * 2
    assert ranks.simulate_gap_changes(tied, 0.05, 4000, rng).mean() < 0.04
    apart = [make_moments([0.0, 50.0], 1, 10)] * 2
    assert 0.041 < ranks.simulate_gap_changes(apart, 0.05, 4000, rng).mean() < 0.065


def test_the_true_gap_is_the_mean_over_frameworks():
    rng = np.random.default_rng(0)
    unlike = [make_moments([0.0, 50.0], 1, 10), make_moments([0.0, 90.0], 1, 10)]
    assert 0.03 < ranks.simulate_gap_changes(unlike, 0.05, 4000, rng).mean() < 0.07
    three = [make_moments([0.0, 50.0], 1, 10)] * 3
    assert 0.08 < ranks.simulate_gap_changes(three, 0.05, 4000, rng).mean() < 0.15
    single = [make_moments([0.0, 50.0], math.nan, 1)] * 2
    assert ranks.simulate_gap_changes(single, 0.05, 10, rng).mean() == 0


def test_welchs_p_value_is_that_of_scipy():
    rng = np.random.default_rng(1)
    one, two = rng.normal(size=8), rng.normal(0.7, 2, size=5)
    a, b = (compute_moments(values).squared_error for values in (one, two))
    small = a**2 / 7 + b**2 / 4
    found = compute_welch_p(one.mean() - two.mean(), a + b, small)
    assert_allclose(found, stats.ttest_ind(one, two, equal_var=False).pvalue)
    errors = np.zeros(2)
    assert compute_welch_p(np.array([0.0, 1.0]), errors, errors).tolist() == [1.0, 0.0]


def test_each_column_has_its_own_quantile():
    ordered = np.sort(np.random.default_rng(0).normal(size=(11, 4)), axis=0)
    shares = np.array([0.0, 0.33, 0.5, 1.0])
    expected = [np.quantile(column, share) for column, share in zip(ordered.T, shares, strict=True)]
    assert_allclose(_compute_column_quantiles(ordered, shares), expected)
    assert_allclose(_compute_column_quantiles(ordered, np.full(4, np.nan)), ordered[0])


def compute_p_by_enumeration(failed, sizes):
    """Two-sided p-value over all ways to place the failures of each stratum."""
    counts = {}
    for places in itertools.product(
        *(
            itertools.combinations(range(one + two), sum(both))
            for both, (one, two) in zip(failed, sizes, strict=True)
        )
    ):
        total = sum(
            sum(place < one for place in chosen)
            for chosen, (one, _) in zip(places, sizes, strict=True)
        )
        counts[total] = counts.get(total, 0) + 1
    seen = counts[sum(first for first, _ in failed)]
    return sum(count for count in counts.values() if count <= seen) / sum(counts.values())


@pytest.mark.parametrize(
    ("failed", "sizes"),
    [
        ([(3, 0)], [(4, 4)]),
        ([(2, 0), (1, 0)], [(3, 3), (3, 4)]),
        ([(0, 2), (2, 1)], [(3, 3), (3, 3)]),
        ([(0, 0), (1, 1)], [(2, 3), (4, 2)]),
    ],
)
def test_failure_rates_in_strata_are_compared_by_counting_all_placements(failed, sizes):
    found = two_sample.compute_stratified_fisher_p(failed, sizes)
    assert found == pytest.approx(compute_p_by_enumeration(failed, sizes))


def test_an_empty_sample_has_no_rate():
    assert math.isnan(two_sample.compute_stratified_fisher_p([(0, 0)], [(0, 3)]))
    assert math.isnan(two_sample.compute_stratified_fisher_p([(0, 0)], [(3, 0)]))
    assert two_sample.compute_stratified_fisher_p([(0, 1)], [(1, 1)]) == 1
    assert all(map(math.isnan, two_sample.compute_newcombe_interval((0, 0), (0, 3))))


@pytest.mark.parametrize(("failed", "size"), [(0, 1), (0, 10), (3, 10), (10, 10), (1, 2)])
def test_wilsons_interval_is_that_of_scipy(failed, size):
    expected = stats.binomtest(failed, size).proportion_ci(method="wilson")
    assert_allclose(two_sample.compute_wilson_interval(failed, size), expected, atol=1e-12)
