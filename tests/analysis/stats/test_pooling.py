import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from parallax.analysis.stats.pooling import (
    PERMUTATIONS,
    _merge_strata,
    compute_stratified_contrast,
    compute_stratified_permutation_p,
    estimate_between_variance,
    pool_differences,
)
from parallax.analysis.stats.two_sample import compute_paired_difference


def sample(seed, k=8, between=0.5):
    rng = np.random.default_rng(seed)
    variances = rng.uniform(0.02, 0.3, k)
    return rng.normal(1, np.sqrt(variances + between**2)), variances


@pytest.mark.parametrize("seed", range(4))
def test_mean_and_variance_between_tasks_are_those_of_statsmodels(seed):
    differences, variances = sample(seed)
    theirs = combine_effects(differences, variances, method_re="iterated", use_t=True)
    ours = pool_differences(differences, variances, np.full(8, 8.0))
    assert estimate_between_variance(differences, variances) == pytest.approx(theirs.tau2, rel=1e-4)
    assert ours.mean == pytest.approx(theirs.mean_effect_re, rel=1e-4)
    half = theirs.sd_eff_w_re_hksj * stats.t.ppf(0.975, 7)
    assert ours.high - ours.mean >= half * (1 - 1e-4)


def test_uncertain_tasks_shrink_more_to_the_mean():
    differences, variances = sample(1, between=2.0)
    variances[0] = 100.0
    found = pool_differences(differences, variances, np.full(8, 1e9))
    drawn = (found.estimates - differences) / (found.mean - differences)
    assert ((drawn > 0) & (drawn < 1)).all()
    assert drawn[0] == max(drawn)
    assert found.highs[0] - found.lows[0] < 2 * 1.96 * 10.0


def test_tasks_that_agree_have_no_variance_between_them():
    found = pool_differences(np.full(5, 2.0), np.full(5, 1.0), np.full(5, 8.0))
    assert found.sd_between_tasks == 0
    assert found.mean == pytest.approx(2)
    np.testing.assert_allclose(found.estimates, 2)


@pytest.mark.parametrize(("k", "level"), [(4, 0.9), (9, 0.95)])
def test_homogeneous_tasks_have_intervals_of_three_times_the_mean_variance(k, level):
    # Morris' shrinkage is (k - 3) / (k - 1), which leaves 3 / k of a task's variance.
    found = pool_differences(np.full(k, 2.0), np.full(k, 0.25), np.full(k, 7.0), level)
    quantiles = stats.t.ppf((1 + level) / 2, [7, k - 1])
    halves = np.sqrt(0.25 / k * np.array([3, 1])) * quantiles
    assert found.highs - found.estimates == pytest.approx(halves[0])
    assert [found.high, found.low] == pytest.approx([2 + halves[1], 2 - halves[1]])


@pytest.mark.parametrize(("k", "variance"), [(3, 1.0), (5, 0.0)])
def test_samples_that_cannot_be_pooled_are_refused(k, variance):
    with pytest.raises(ValueError, match="give 4 or more, all above 0"):
        pool_differences(np.zeros(k), np.full(k, variance), np.full(k, 4.0))


def test_the_paired_test_is_student_s():
    rng = np.random.default_rng(3)
    first = rng.normal(size=9)
    second = first + rng.normal(0.5, 0.3, size=9)
    theirs = stats.ttest_rel(first, second)
    ours = compute_paired_difference(first, second)
    assert ours.p == pytest.approx(theirs.pvalue)
    low, high = theirs.confidence_interval()
    assert (ours.low, ours.high) == pytest.approx((low, high))
    assert ours.correlation == pytest.approx(stats.pearsonr(first, second).statistic)
    assert compute_paired_difference(first, first).difference == 0
    assert np.isnan(compute_paired_difference(first, first).p)
    assert np.isnan(compute_paired_difference(first[:1], second[:1]).low)


@given(st.lists(st.integers(-50, 50), min_size=4, max_size=9), st.sampled_from([0.5, 40.0, 2000.0]))
@settings(deadline=None)
def test_excess_over_equal_variances_is_between_task_variance(differences, variance):
    values = np.array(differences, dtype=float)
    found = estimate_between_variance(values, np.full(len(values), variance))
    assert found == pytest.approx(max(0.0, values.var(ddof=1) - variance), abs=1e-9)


def test_pooled_tasks_are_those_of_morris():
    differences, variances = np.array([1.0, 4.0, 2.0, 9.0, 3.0]), np.full(5, 2.0)
    found = pool_differences(differences, variances, np.full(5, 6.0), 0.9)
    total = differences.var(ddof=1)  # the variance between tasks and that of a task
    assert found.sd_between_tasks == pytest.approx(np.sqrt(total - 2))
    share = 2 / 4 * 2 / total
    away = differences - differences.mean()
    assert found.mean == pytest.approx(differences.mean())
    assert found.estimates == pytest.approx(differences - share * away)
    own = 2 * (1 - 4 / 5 * share) + 2 / 2 * share**2 * away**2
    half = np.sqrt(own) * stats.t.ppf(0.95, 6)
    assert found.highs - found.estimates == pytest.approx(half) == found.estimates - found.lows
    error = np.sqrt(total / 5)
    assert found.p == pytest.approx(2 * stats.t.sf(differences.mean() / error, 4))
    ends = differences.mean() + np.array([-1, 1]) * error * stats.t.ppf(0.95, 4)
    assert (found.low, found.high) == pytest.approx(tuple(ends))


def test_strata_are_weighted_equally_with_satterthwaites_degrees_of_freedom():
    rng = np.random.default_rng(0)
    first, second = (
        [rng.normal(i, 1 + i, n) for i, n in enumerate(sizes)] for sizes in ((3, 5, 8), (4, 6, 2))
    )
    item = compute_stratified_contrast(first, second)
    gaps = [one.mean() - two.mean() for one, two in zip(first, second, strict=True)]
    parts = [(part.var(ddof=1) / len(part) / 9, len(part)) for part in (*first, *second)]
    total = sum(part for part, _ in parts)
    assert item.difference == pytest.approx(np.mean(gaps))
    assert item.error == pytest.approx(np.sqrt(total))
    freedom = total**2 / sum(part**2 / (n - 1) for part, n in parts)
    assert item.degrees_of_freedom == pytest.approx(freedom)


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_permutations_within_strata_do_not_depend_on_the_unit(factor):
    rng = np.random.default_rng(1)
    first = [factor * rng.normal(0, 1, 4), factor * rng.normal(9, 1, 3)]
    second = [factor * rng.normal(1, 1, 3), factor * rng.normal(10, 1, 3)]

    def find(one, two):
        return compute_stratified_permutation_p(one, two, np.random.default_rng(0))

    p = find(first, second)
    assert 1 / (PERMUTATIONS + 1) < p < 0.5
    assert p == find([part / factor for part in first], [part / factor for part in second])
    same = [np.full(3, 0.1 * factor)] * 2
    assert find(same, same) == 1.0
    apart = [np.full(3, 0.3 * factor)] * 2  # of 20 x 20 ways to split, two are so far apart
    assert find(same, apart) == pytest.approx(2 / 400, abs=0.004)


def test_scores_of_all_strata_are_merged_around_one_mean():
    first = [np.array([0.0, 2.0, 9.0]), np.array([6.0, 8.0, 9.0, 9.0])]
    second = [np.array([3.0, 5.0]), np.array([9.0, 7.0])]
    one, two, ends = _merge_strata(first, second, (0.0, 10.0))
    # The first framework uses three runs of each task, the second two.
    means = (11 / 3 + 4) / 2, (23 / 3 + 8) / 2
    shifts = np.mean(means) - np.array(means)
    assert one == pytest.approx([*(first[0] + shifts[0]), *(first[1][:3] + shifts[1])])
    assert two == pytest.approx([*(second[0] + shifts[0]), *(second[1] + shifts[1])])
    assert ends == pytest.approx((shifts[1], 10 + shifts[0]))


def test_scores_of_zero_are_equal():
    zeros = [np.zeros(3)] * 2
    assert compute_stratified_permutation_p(zeros, zeros, np.random.default_rng(0)) == 1.0
