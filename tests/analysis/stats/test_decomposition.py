"""Variance components of levels of alignment, of crossed designs, and Shapley values."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallax.analysis.stats import decomposition
from parallax.analysis.stats.decomposition import (
    FrameworkVariance,
    _compute_basic_interval,
    compute_spread_interval,
    compute_variance_shares,
    decompose_spread,
    estimate_crossed_variance,
    estimate_framework_variance,
)


def draw(generator, means, seeds, sd=1.0, tasks=1):
    return [[m + sd * generator.normal(size=seeds) for m in means] for _ in range(tasks)]


def test_components_are_unbiased_and_not_cut_at_zero():
    generator = np.random.default_rng(0)
    found = [estimate_framework_variance(draw(generator, [0.0] * 6, 5)) for _ in range(2000)]
    between = np.array([item.between for item in found])
    assert abs(between.mean()) < 4 * between.std() / np.sqrt(len(between))
    assert (between < 0).mean() > 0.3
    assert np.mean([item.within for item in found]) == pytest.approx(1, abs=0.03)


def test_unequal_numbers_of_seeds_are_unbiased_too():
    generator = np.random.default_rng(1)
    counts, found = [3, 5, 10, 10], []
    for _ in range(4000):
        means = 2 * generator.normal(size=4)
        groups = [m + generator.normal(size=n) for m, n in zip(means, counts, strict=True)]
        found.append(estimate_framework_variance([groups]).between)
    assert np.mean(found) == pytest.approx(4, rel=0.1)


@given(*(st.floats(0.1, 10) for _ in range(4)))
def test_shares_add_up_to_one(a, b, c, d):
    parts = [FrameworkVariance(a, d), FrameworkVariance(b, d), FrameworkVariance(c, d)]
    assert compute_variance_shares(*parts).array.sum() == pytest.approx(1)


def test_intervals_cover_the_true_shares():
    generator = np.random.default_rng(2)
    means = {"defaults": [0, 1, 2, 3, 4, 5], "exact": [0, 0, 1, 1, 2, 2], "lockstep": [0] * 6}
    true = compute_variance_shares(
        *(FrameworkVariance(float(np.var(m, ddof=1)), 1.0) for m in means.values())
    ).array
    covered = []
    for _ in range(60):
        levels = {name: draw(generator, m, 10) for name, m in means.items()}
        found = decompose_spread(levels, generator, resamples=200)
        covered.append((found.low <= true) & (true <= found.high))
    assert (np.mean(covered, axis=0) > 0.8).all()


def test_too_few_seeds_or_frameworks_are_refused():
    with pytest.raises(ValueError, match="two frameworks with two seeds"):
        estimate_framework_variance([[np.zeros(3), np.zeros(1)]])
    with pytest.raises(ValueError, match="no task"):
        estimate_framework_variance([])


def test_crossed_components_are_those_of_the_design():
    generator = np.random.default_rng(3)
    found = []
    for _ in range(500):
        recipe, code = 2 * generator.normal(size=6), generator.normal(size=6)
        both = 0.5 * generator.normal(size=(6, 6))
        cells = recipe[:, None] + code[None, :] + both
        scores = cells[..., None] + 0.3 * generator.normal(size=(6, 6, 5))
        item = estimate_crossed_variance(scores)
        found.append([item.recipe, item.implementation, item.interaction, item.seeds])
    assert np.mean(found, axis=0) == pytest.approx([4, 1, 0.25, 0.09], rel=0.15)
    with pytest.raises(ValueError, match="at least two"):
        estimate_crossed_variance(np.zeros((1, 6, 5)))


def test_names_of_shares_are_those_of_the_attributes():
    assert decomposition.SHARE_NAMES == ("hyperparameters", "code", "residual", "seeds")


@pytest.mark.parametrize("between", [0.0, -3.0])
def test_shares_of_no_variance_are_unknown(between):
    nothing = FrameworkVariance(between, -between if between else 0.0)
    assert np.isnan(dataclasses.astuple(compute_variance_shares(nothing, nothing, nothing))).all()


def test_an_interval_of_the_deviation_is_one_of_its_square_cut_at_zero():
    def compute(scores, **changes):
        return compute_spread_interval(scores, np.random.default_rng(2), **changes)

    far = draw(np.random.default_rng(1), [0.0, 10.0, 20.0], 8)
    low, high = compute(far)
    assert 7 < low < 10 < high < 12.5  # the deviation of the means, and one of the seeds
    narrow = compute(far, confidence=0.5)
    assert low < narrow[0] < narrow[1] < high
    scaled = [[100 * values for values in task] for task in far]
    assert compute(scaled) == pytest.approx((100 * low, 100 * high))
    assert compute([[np.arange(4.0)] * 3])[0] == 0.0  # no difference at all
    assert compute(far) == compute(far, confidence=0.95, resamples=2000)
    assert compute(far, resamples=2001) != compute(far)


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_a_basic_interval_leaves_half_of_the_rest_on_each_side(confidence):
    draws = np.arange(101.0).reshape(-1, 1)
    low, high = _compute_basic_interval(np.array([7.0]), np.array([50.0]), draws, confidence)
    assert [low[0], high[0]] == pytest.approx([7 - 50 * confidence, 7 + 50 * confidence])
