import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from parallax.analysis.stats.intervals import (
    INTERVAL_METHODS,
    compute_bca_bounds,
    compute_interval,
    compute_interval_bounds,
    compute_percentile_bounds,
    resample_means,
)

VALUES = st.floats(-1e6, 1e6, allow_subnormal=False)
SAMPLES = hnp.arrays(np.float64, st.integers(2, 12), elements=VALUES)
# A shift makes values that are all but equal wholly so, which moves BCa's ends by a step.
ROUND = hnp.arrays(np.float64, st.integers(2, 12), elements=st.integers(-10_000, 10_000))


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("method", [name for name in INTERVAL_METHODS if name != "bca"])
@given(samples=SAMPLES)
@settings(max_examples=50, deadline=None)
def test_the_interval_holds_the_mean_and_never_raises(method, samples):
    result = compute_interval(samples, method, rng())
    slack = 1e-9 * (1 + np.abs(samples).max())
    assert result.low - slack <= result.mean <= result.high + slack
    assert math.isclose(result.mean, samples.mean(), abs_tol=slack)
    assert (result.n, result.method) == (len(samples), method)


@pytest.mark.parametrize("method", INTERVAL_METHODS)
@given(samples=ROUND, shift=VALUES, scale=st.floats(0.01, 100))
@settings(max_examples=50, deadline=None)
def test_the_interval_moves_and_stretches_with_the_data(method, samples, shift, scale):
    before = compute_interval(samples, method, rng())
    after = compute_interval(samples * scale + shift, method, rng())
    slack = 1e-8 * (1 + scale * np.abs(samples).max() + abs(shift))
    for name in ("mean", "low", "high"):
        expected = getattr(before, name) * scale + shift
        assert math.isclose(getattr(after, name), expected, abs_tol=slack)


@given(samples=SAMPLES)
@settings(max_examples=50, deadline=None)
def test_the_order_of_seeds_does_not_matter(samples):
    for method in ("t", "thesis"):
        before, after = (
            compute_interval(samples, method),
            compute_interval(samples[::-1].copy(), method),
        )
        assert math.isclose(before.low, after.low, rel_tol=1e-9, abs_tol=1e-6)


@given(samples=SAMPLES)
@settings(max_examples=50, deadline=None)
def test_the_thesis_interval_is_never_wider_than_t(samples):
    thesis, t = compute_interval(samples, "thesis"), compute_interval(samples, "t")
    assert thesis.high - thesis.low <= (t.high - t.low) * (1 + 1e-9) + 1e-9


@given(samples=SAMPLES)
@settings(max_examples=50, deadline=None)
def test_t_equals_scipy(samples):
    ours = compute_interval(samples, "t")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of nearly identical data
        theirs = stats.ttest_1samp(samples, 0).confidence_interval(0.95)
    if np.ptp(samples) > 1e-6:
        assert math.isclose(ours.low, theirs.low, rel_tol=1e-7, abs_tol=1e-7)
        assert math.isclose(ours.high, theirs.high, rel_tol=1e-7, abs_tol=1e-7)


def test_the_thesis_interval_is_its_formula():
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    half = 1.96 * np.std(values) / np.sqrt(5)
    result = compute_interval(values, "thesis")
    assert (result.low, result.high) == pytest.approx((6.2 - half, 6.2 + half))


def test_the_bootstrap_agrees_with_scipy():
    values = np.random.default_rng(2).normal(0, 1, 10)
    ours = compute_interval(values, "bootstrap", rng())
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=50_000, method="percentile", rng=rng()
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.03)


@pytest.mark.parametrize("n", [5, 10, 30])
def test_bca_agrees_with_scipy_on_skewed_values(n):
    values = np.random.default_rng(5).exponential(size=n)
    ours = compute_interval(values, "bca", rng())
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=50_000, method="BCa", rng=rng()
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.03)
    plain = compute_interval(values, "bootstrap", rng())
    assert ours.low > plain.low
    assert ours.high > plain.high


def test_the_bootstrap_agrees_with_all_resamples_of_four_values():
    values = np.array([1.0, 2.0, 4.0, 8.0])
    means = [np.mean(picked) for picked in itertools.product(values, repeat=4)]
    result = compute_interval(values, "bootstrap", rng())
    expected = np.percentile(means, [2.5, 97.5])
    assert (result.low, result.high) == pytest.approx(tuple(expected), abs=0.3)


def test_the_bootstrap_repeats_with_its_generator_and_needs_one():
    values = [1.0, 5.0, 9.0]
    assert compute_interval(values, "bootstrap", rng()) == compute_interval(
        values, "bootstrap", rng()
    )
    with pytest.raises(ValueError, match="needs rng"):
        compute_interval(values, "bootstrap")


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_columns_are_independent_of_each_other(method):
    samples = np.random.default_rng(3).normal(size=(5, 7))
    together = np.array(compute_interval_bounds(samples, method, rng()))
    apart = np.array([compute_interval_bounds(samples[:, i], method, rng()) for i in range(7)]).T
    np.testing.assert_allclose(together, apart)


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_single_value_has_a_mean_and_no_interval(method):
    result = compute_interval([3.0], method, rng())
    assert result.mean == 3
    assert math.isnan(result.low)
    assert math.isnan(result.high)


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_empty_sample_has_neither_mean_nor_interval(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = compute_interval([], method, rng())
    assert math.isnan(result.mean)
    assert result.n == 0


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_no_columns_give_no_columns(method):
    assert [end.shape for end in compute_interval_bounds(np.zeros((3, 0)), method, rng())] == [
        (0,)
    ] * 3


def test_an_unknown_method_names_the_known():
    with pytest.raises(ValueError, match=r"'z' is not known. Known: t, thesis, bootstrap"):
        compute_interval([1.0, 2.0], "z")


def test_resamples_have_the_values_of_their_samples_in_equal_shares():
    values = np.array([[0.0, 1.0], [3.0, 1.0], [9.0, 4.0]])
    means = resample_means(values, rng())
    assert means.shape == (10_000, 2)
    assert set(np.round(means[:, 0])) == set(range(10)) - {8}
    assert means.mean(axis=0) == pytest.approx([4.0, 2.0], abs=0.06)
    assert means.var(axis=0) == pytest.approx(values.var(axis=0) / 3, rel=0.05)
    low, high = compute_percentile_bounds(np.arange(101.0).reshape(-1, 1), 0.8)
    assert (low[0], high[0]) == pytest.approx((10.0, 90.0))


def test_an_interval_has_its_number_of_values_and_method():
    found = compute_interval([1.0, 2.0, 6.0])
    assert (found.n, found.method, found.mean) == (3, "t", 3.0)
    half = stats.t.ppf(0.975, 2) * np.std([1, 2, 6], ddof=1) / np.sqrt(3)
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half))
    with pytest.raises(ValueError, match="method=bca needs rng, such as"):
        compute_interval([1.0, 2.0], "bca")


def test_equal_values_have_bca_ends_at_themselves():
    bounds = compute_interval_bounds(np.array([[2.0, 1.0], [2.0, 4.0]]), "bca", rng())
    assert [end[0] for end in bounds] == [2.0, 2.0, 2.0]
    assert bounds[1][1] < 2.5 < bounds[2][1]


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_bca_ends_are_efrons_quantiles_of_the_resamples(level):
    samples = np.random.default_rng(1).exponential(size=9)
    means = np.random.default_rng(2).gamma(9, 1 / 9, size=4001)
    left_out = np.array([np.delete(samples, i).mean() for i in range(9)])
    away = left_out.mean() - left_out
    acceleration = (away**3).sum() / (6 * (away**2).sum() ** 1.5)
    bias = stats.norm.ppf((means < samples.mean()).mean())
    shifts = bias + stats.norm.ppf([(1 - level) / 2, (1 + level) / 2])
    expected = np.quantile(means, stats.norm.cdf(bias + shifts / (1 - acceleration * shifts)))
    found = compute_bca_bounds(samples[:, None], means[:, None], level)
    assert [float(end[0]) for end in found] == pytest.approx(list(expected))
