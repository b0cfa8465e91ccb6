import math

import numpy as np
import pytest
from scipy import stats

from parallax.analysis.stats import effect_size_and_power as effects
from parallax.analysis.stats.moments import SampleMoments, compute_moments, stack_moments


def columns(samples):
    n = np.full(samples.shape[1], float(len(samples)))
    return SampleMoments(samples.mean(axis=0), samples.std(axis=0, ddof=1), n)


def test_hedges_g_is_unbiased_and_its_interval_covers_at_five_seeds():
    rng = np.random.default_rng(0)
    first, second = rng.normal(1.0, 1, (5, 20_000)), rng.normal(0, 1, (5, 20_000))
    g, low, high = effects.compute_hedges_g(columns(first), columns(second))
    assert g.mean() == pytest.approx(1.0, abs=0.03)
    assert 0.94 < np.mean((low <= 1) & (high >= 1)) < 0.985


def test_hedges_g_of_constant_samples_is_zero_or_infinite():
    same = stack_moments([compute_moments(np.full(5, 7.0))] * 2)
    other = stack_moments([compute_moments(np.full(5, 7.0)), compute_moments(np.full(5, 8.0))])
    g, _, _ = effects.compute_hedges_g(same, other)
    assert g.tolist() == [0, -math.inf]


def test_improvement_of_samples_is_mann_whitneys_statistic():
    rng = np.random.default_rng(0)
    first, second = rng.integers(5, size=7), rng.integers(5, size=9)
    expected = stats.mannwhitneyu(first, second).statistic / 63
    assert effects.improvement_from_samples(first, second) == pytest.approx(expected)


def test_improvement_of_moments_is_the_normal_probability():
    first, second = (
        stack_moments([compute_moments(np.array([1.0, 3.0]))]),
        stack_moments([compute_moments(np.array([0.0, 2.0]))]),
    )
    expected = stats.norm.cdf(1 / math.sqrt(2 + 2))
    assert effects.improvement_from_moments(first, second)[0] == pytest.approx(expected)


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_the_interval_of_the_probability_of_improvement_covers_at_five_seeds(shift):
    rng, repeats = np.random.default_rng(1), 4_000
    truth = stats.norm.cdf(shift / math.sqrt(2))
    draws = rng.normal(size=(repeats, 2, 5)) + np.array([[shift], [0]])
    theta = np.array([effects.improvement_from_samples(a, b) for a, b in draws])
    low, high = effects.compute_improvement_interval(theta, 5, 5)
    assert np.mean((low <= truth) & (truth <= high)) > 0.93
    assert ((low <= theta) & (theta <= high)).all()


def test_wholly_separated_samples_still_have_a_wide_interval():
    low, high = effects.compute_improvement_interval(np.array([1.0]), 5, 5)
    assert 0.4 < low[0] < 0.8
    assert high[0] == 1


@pytest.mark.parametrize(("gap", "sds"), [(1.5, (1, 1)), (2.0, (0.5, 2.0)), (0.0, (1, 2))])
def test_power_of_welchs_test_is_what_simulation_finds(gap, sds):
    rng, repeats = np.random.default_rng(2), 20_000
    first = rng.normal(gap, sds[0], (6, repeats))
    second = rng.normal(0, sds[1], (6, repeats))
    p = stats.ttest_ind(first, second, equal_var=False).pvalue
    expected = float(effects.compute_difference_power(gap, sds, 6, 0.05))
    assert np.mean(p < 0.05) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("alpha", [0.05, 0.005, 1e-4, 1e-7])
@pytest.mark.parametrize("gap", [5.0, 22.1, 60.0, 999.0, 1001.0, 3000.0])
def test_power_with_two_seeds_is_that_of_two_degrees_of_freedom(gap, alpha):
    # With n = 2 and deviations of 1, the standard error is 1 and the pooled variance is
    # exponential: P(|Z + gap| > c sqrt(V)).
    critical = stats.t.isf(alpha / 2, 2)
    nodes, weights = np.polynomial.legendre.leggauss(2000)
    variance = -np.log((1 - nodes) / 2)
    passes = stats.norm.cdf(gap - critical * np.sqrt(variance))
    expected = (weights / 2 * passes).sum()
    found = float(effects.compute_difference_power(gap, (1.0, 1.0), 2, alpha))
    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("gap", "margin", "n"), [(0.0, 1.5, 10), (0.5, 2.0, 12), (0.0, 0.5, 5)])
def test_power_of_equivalence_is_what_simulation_finds(gap, margin, n):
    rng, repeats = np.random.default_rng(3), 20_000
    first, second = rng.normal(gap, 1, (n, repeats)), rng.normal(0, 1, (n, repeats))
    difference = first.mean(axis=0) - second.mean(axis=0)
    variances = first.var(axis=0, ddof=1) / n, second.var(axis=0, ddof=1) / n
    error = np.sqrt(sum(variances))
    freedom = (n - 1) * sum(variances) ** 2 / sum(v**2 for v in variances)
    found = np.mean((margin - np.abs(difference)) / error > stats.t.isf(0.05, freedom))
    expected = float(effects.compute_equivalence_power(gap, (1, 1), n, 0.05, margin))
    assert found == pytest.approx(expected, abs=0.03)


def test_seeds_to_decide_reach_the_power_and_one_less_does_not():
    one = np.ones(1)
    (n,) = effects.estimate_seeds_needed(one, (one, one), 0.05 * one, 0.1 * one)
    assert effects.compute_difference_power(1, (1, 1), n, 0.05) >= 0.8
    assert effects.compute_difference_power(1, (1, 1), n - 1, 0.05) < 0.8
    assert n == 17  # Cohen's table: d = 1, 5%, 80%


def test_equality_is_decided_by_equivalence_and_the_margin_itself_never():
    zero, one = np.zeros(1), np.ones(1)
    (equal,) = effects.estimate_seeds_needed(zero, (one, one), 0.05 * one, one)
    assert 15 < equal < 25
    (never,) = effects.estimate_seeds_needed(
        np.full(1, 1e-3), (one, one), 0.05 * one, np.full(1, 1e-3)
    )
    assert math.isinf(never)


def test_unknown_deviations_give_unknown_seeds():
    one = np.ones(1)
    (n,) = effects.estimate_seeds_needed(one, (np.array([np.nan]), one), 0.05 * one, one)
    assert math.isnan(n)


def test_intervals_of_hedges_g_use_the_quantile_of_the_normal_distribution():
    assert pytest.approx(stats.norm.ppf(0.975)) == effects.Z_975


@pytest.mark.parametrize("n", [10**4, 10**6])
def test_the_interval_of_large_samples_is_that_of_the_mann_whitney_statistic(n):
    low, high = effects.compute_improvement_interval(0.5, n, n)
    half = stats.norm.ppf(0.975) * math.sqrt((2 * n + 1) / (12 * n * n))
    assert (float(low), float(high)) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-3 / n**0.5)


@pytest.mark.parametrize(("n", "m"), [(5, 5), (3, 8)])
def test_hedges_g_and_its_interval_follow_the_published_formulas(n, m):
    rng = np.random.default_rng(n)
    first, second = rng.normal(1, 1, n), rng.normal(0, 3, m)
    free = n + m - 2
    pooled = math.sqrt(((n - 1) * first.var(ddof=1) + (m - 1) * second.var(ddof=1)) / free)
    correction = math.gamma(free / 2) / (math.sqrt(free / 2) * math.gamma((free - 1) / 2))
    g = correction * (first.mean() - second.mean()) / pooled
    half = stats.t.ppf(0.975, free) * math.sqrt(1 / n + 1 / m + g**2 / (2 * (n + m)))
    sides = (stack_moments([compute_moments(values)]) for values in (first, second))
    found = [float(part[0]) for part in effects.compute_hedges_g(*sides)]
    assert found == pytest.approx([g, g - half, g + half])


def test_constant_samples_have_certain_effect_sizes():
    same = [5, 5, 5]
    first, second = (
        stack_moments([compute_moments(np.full(4, x)) for x in side]) for side in (same, [5, 6, 4])
    )
    assert effects.improvement_from_moments(first, second).tolist() == [0.5, 0.0, 1.0]
    g, low, high = effects.compute_hedges_g(first, second)
    assert g.tolist() == [0, -math.inf, math.inf]
    assert low.tolist()[1:] == high.tolist()[1:] == [-math.inf, math.inf]
    zero = (0.0, 0.0)
    gaps = np.array([0.0, 0.001, 3.0])
    assert effects.compute_difference_power(gaps, zero, 5, 0.05).tolist() == [0, 1, 1]
    sure = effects.compute_equivalence_power(gaps, zero, 5, 0.05, np.array([1.0, 0.001, 4.0]))
    assert sure.tolist() == [1, 0, 1]


def test_power_of_what_cannot_be_missed_is_one():
    found = effects.compute_difference_power(np.array([25.0, 1e6]), (1.0, 1.0), 5, 0.05)
    assert found.tolist() == [1.0, 1.0]


def test_a_difference_needs_four_seeds_and_equality_only_two():
    one, zero = np.ones(1), np.zeros(1)

    def find(gap, sd, margin, **options):
        sds = (sd * one, sd * one)
        return effects.estimate_seeds_needed(gap * one, sds, 0.05 * one, margin * one, **options)[0]

    assert find(1e6, 1.0, 1.0) == effects.MIN_PERMUTATION_SEEDS == find(1.0, 0.0, 0.5)
    assert find(0.0, 1.0, 1e6) == find(0.0, 0.0, 1.0) == 2
    assert find(1.0, 1.0, 0.1, power=0.9) == 23  # Cohen's table: d = 1, 5%, 90%
    assert find(1.0, 1.0, 0.1, grid=np.array([16.0, 20.0, 40.0])) == 20
    assert 176 <= find(0.3, 1.0, 0.01) < 182  # in steps of 3%
    assert find(0.01, 1.0, 0.001) == math.inf
    nothing = effects.estimate_seeds_needed(zero, (one, one * np.nan), 0.05 * one, one)
    assert math.isnan(nothing[0])
    assert math.isnan(effects.estimate_seeds_needed(zero * np.nan, (one, one), 0.05 * one, one)[0])


def make_pair(first, second):
    return tuple(compute_moments(np.array(values)) for values in (first, second))


def test_the_range_of_seeds_needed_is_around_the_estimate_in_any_unit():
    def find(factor, seed=0, **options):
        pair = make_pair(factor * np.arange(5.0), factor * (np.arange(6.0) ** 1.1 + 1.5))
        rng = np.random.default_rng(seed)
        return effects.estimate_seed_range(pair, 0.05, factor * 0.2, rng, **options)

    low, high = find(1.0)
    assert find(50.0) == (low, high) != find(1.0, 1, power=0.6)
    pair = make_pair(np.arange(5.0), np.arange(6.0) ** 1.1 + 1.5)
    gap, sds = (pair[0].mean - pair[1].mean) * np.ones(1), [x.sd * np.ones(1) for x in pair]
    (needed,) = effects.estimate_seeds_needed(gap, tuple(sds), np.full(1, 0.05), np.full(1, 0.2))
    assert low < needed < high and low >= effects.MIN_PERMUTATION_SEEDS
    close = make_pair([1.0, 2.0, 3.0] * 9, [1.5, 2.0, 2.5] * 9)
    free = effects.estimate_seed_range(close, 0.05, 2.0, np.random.default_rng(0))
    bound = effects.estimate_seed_range(
        close, 0.05, 2.0, np.random.default_rng(0), rooms=(50.0, 0.0)
    )
    assert free[1] < 20 < bound[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [([1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0]), ([1.0, 1.0], [3.0, 3.0]), ([], [1.0, 2.0])],
)
def test_nothing_is_estimated_of_single_or_equal_values(first, second):
    found = effects.estimate_seed_range(
        make_pair(first, second), 0.05, 1.0, np.random.default_rng(0)
    )
    assert all(map(math.isnan, found))
    one_varies = make_pair([1.0, 1.0, 1.0], [30.0, 31.0, 32.0])
    assert effects.estimate_seed_range(one_varies, 0.05, 1.0, np.random.default_rng(0)) == (4, 4)


def test_a_difference_beyond_the_margin_is_never_shown_to_be_within():
    assert effects.compute_equivalence_power(2.0, (1.0, 1.0), 5, 0.05, 0.1) == 0.0


@pytest.mark.parametrize(("theta", "n", "m"), [(0.7, 5, 8), (0.5, 2, 3), (0.04, 9, 4)])
def test_the_ends_of_an_improvement_are_196_standard_errors_away(theta, n, m):
    low, high = (float(end) for end in effects.compute_improvement_interval(theta, n, m))
    assert 0 < low < theta < high < 1
    for end in (low, high):
        size = (n + m) / 2 - 1
        inner = 1 + size * (1 - end) / (2 - end) + size * end / (1 + end)
        error = math.sqrt(end * (1 - end) * inner / (n * m))
        assert abs(end - theta) / error == pytest.approx(stats.norm.ppf(0.975))
    assert np.isnan(effects.compute_improvement_interval(math.nan, n, m)).all()
