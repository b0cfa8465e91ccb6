import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from parallax.analysis.stats.pooling import estimate_between_variance, pool_differences
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


def test_tasks_are_drawn_to_the_mean_the_more_the_less_is_known_of_them():
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
def test_tasks_that_agree_have_intervals_of_three_times_the_variance_of_the_mean(k, level):
    # Morris' shrinkage is (k - 3) / (k - 1), which leaves 3 / k of a task's variance.
    found = pool_differences(np.full(k, 2.0), np.full(k, 0.25), np.full(k, 7.0), level)
    quantiles = stats.t.ppf((1 + level) / 2, [7, k - 1])
    halves = np.sqrt(0.25 / k * np.array([3, 1])) * quantiles
    assert found.highs - found.estimates == pytest.approx(halves[0])
    assert [found.high, found.low] == pytest.approx([2 + halves[1], 2 - halves[1]])


@pytest.mark.parametrize(("k", "variance"), [(3, 1.0), (5, 0.0)])
def test_what_cannot_be_pooled_is_refused(k, variance):
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
