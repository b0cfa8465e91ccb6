"""Variance components of levels of alignment, of crossed designs, and Shapley values."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from parallax.analysis.stats import decomposition
from parallax.analysis.stats.decomposition import (
    FrameworkVariance,
    VarianceComponents,
    _bootstrap_framework_variance,
    _compute_basic_interval,
    compute_framework_p,
    compute_paired_framework_p,
    compute_spread_interval,
    compute_variance_shares,
    decompose_spread,
    estimate_components,
    estimate_crossed_variance,
    estimate_framework_variance,
    estimate_recipe_shares,
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


def test_the_same_runs_at_two_levels_are_resampled_together():
    generator = np.random.default_rng(4)
    own, equal, other = (draw(generator, [0, 1, 2], 4) for _ in range(3))
    same = decompose_spread({"defaults": own, "exact": equal, "lockstep": equal}, generator)
    assert same.low[1] == same.shares.code == same.high[1] == 0
    new = decompose_spread({"defaults": own, "exact": equal, "lockstep": other}, generator)
    assert new.low[1] < new.shares.code < new.high[1]
    # Equal scores of another framework or task are other runs.
    twins = decompose_spread(
        {"defaults": own * 2, "exact": equal * 2, "lockstep": other * 2}, generator
    )
    assert twins.high[0] - twins.low[0] < 0.9 * (new.high[0] - new.low[0])


@pytest.mark.parametrize(("distance", "low", "high"), [(0.0, 0.3, 1.0), (5.0, 0.0, 0.001)])
def test_frameworks_that_score_alike_have_large_p_values(distance, low, high):
    generator = np.random.default_rng(5)
    p = [compute_framework_p(draw(generator, [0, 0, distance], 5)[0], generator) for _ in range(20)]
    assert low <= np.mean(p) <= high


def test_a_p_value_is_that_of_the_permuted_f_test():
    groups = [np.array([0.0, 1.0]), np.array([2.0, 3.0])]
    # Of the six ways to split four values into two pairs, two separate them as much.
    p = compute_framework_p(groups, np.random.default_rng(0))
    assert p == pytest.approx(1 / 3, abs=0.03)
    assert np.isnan(compute_framework_p([np.ones(3), np.ones(3)], np.random.default_rng(0)))
    assert np.isnan(compute_framework_p([np.ones(1), np.zeros(1)], np.random.default_rng(0)))


def test_recipe_shares_are_by_the_recipe_that_all_frameworks_have():
    noise = np.array([-1.0, 0.0, 1.0])  # variance 1 in each cell, so that estimates are known
    recipes, codes = np.array([0.0, 4.0, 8.0]), np.array([0.0, 1.0, 2.0])
    cells = recipes[:, None] + codes[None, :]
    cells[2] = 8  # the third recipe makes the code irrelevant
    found = estimate_recipe_shares(cells[..., None] + noise, np.random.default_rng(0))
    own = np.var(np.diag(cells), ddof=1) - 1 / 3
    assert found.own == pytest.approx(own / (own + 1))
    assert found.equal == pytest.approx(np.array([1 - 1 / 3, 1 - 1 / 3, -1 / 3]) / (own + 1))
    columns = np.var(cells, axis=0, ddof=1) - 1 / 3
    assert found.recipes == pytest.approx(columns.mean() / (own + 1))
    assert (found.low < found.equal).all() and (found.equal < found.high).all()


def test_intervals_of_recipe_shares_cover_the_true_shares():
    generator = np.random.default_rng(6)
    cells = np.array([[0.0, 1, 2], [4, 5, 6], [8, 8, 8]])
    own, between = np.var(np.diag(cells), ddof=1), np.var(cells, axis=1, ddof=1)
    covered = []
    for _ in range(100):
        scores = cells[..., None] + generator.normal(size=(3, 3, 8))
        found = estimate_recipe_shares(scores, generator, resamples=400)
        truth = between / (own + 1)
        covered.append((found.low <= truth) & (truth <= found.high))
    assert np.mean(covered) > 0.88


def test_paired_p_value_is_that_of_permutations_within_seeds():
    # Of 2 to the power of 3 ways to swap two frameworks in three seeds, two are as far apart.
    scores = np.array([[0.0, 1.0], [10.0, 11.0], [20.0, 21.0]])
    generator = np.random.default_rng(0)
    assert compute_paired_framework_p(scores, generator) == pytest.approx(1 / 4, abs=0.03)
    unpaired = compute_framework_p(list(scores.T), generator)
    assert unpaired > 0.6  # seeds hide the difference
    same = np.array([[1.0, 1.0], [2.0, 2.0]])
    assert np.isnan(compute_paired_framework_p(same, generator))


def test_permutations_of_decimal_scores_are_ties_despite_rounding():
    groups = [500 + np.array(part) / 10 for part in ([2, 0, 3], [2, 3], [0, 0])]
    p = compute_framework_p(groups, np.random.default_rng(0))
    assert p == pytest.approx(0.342857, abs=1e-6)  # 72 of 210 splits
    scores = (475 + np.array([[1, 2], [2, 1], [1, 0], [2, 1]]) / 10) / 4518
    p = compute_paired_framework_p(scores, np.random.default_rng(0))
    assert p == pytest.approx(10 / 16, abs=0.03)


def test_paired_p_values_of_equal_frameworks_are_uniform():
    generator = np.random.default_rng(1)
    shared = 3 * generator.normal(size=(200, 6, 1))
    p = [
        compute_paired_framework_p(scores, generator, 199)
        for scores in shared + generator.normal(size=(200, 6, 4))
    ]
    assert 0.01 <= np.mean(np.array(p) <= 0.05) <= 0.1 and 0.42 < np.mean(p) < 0.58


def test_too_few_seeds_or_frameworks_are_refused():
    with pytest.raises(ValueError, match="two frameworks with two seeds"):
        estimate_framework_variance([[np.zeros(3), np.zeros(1)]])
    with pytest.raises(ValueError, match="at least one task"):
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


def test_deviation_interval_is_the_root_of_the_variance_interval():
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
    assert compute(far) == compute(far, confidence=0.95, resamples=10_000)
    assert compute(far, resamples=9_999) != compute(far)


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_a_basic_interval_leaves_half_of_the_rest_on_each_side(confidence):
    draws = np.arange(101.0).reshape(-1, 1)
    low, high = _compute_basic_interval(np.array([7.0]), np.array([50.0]), draws, confidence)
    assert [low[0], high[0]] == pytest.approx([7 - 50 * confidence, 7 + 50 * confidence])


def test_components_are_those_of_the_one_way_layout():
    groups = [np.array([1.0, 3.0]), np.array([4.0, 5.0, 9.0]), np.array([2.0, 2.0, 0.0, 8.0])]
    within = sum(((group - group.mean()) ** 2).sum() for group in groups) / (9 - 3)
    between = stats.f_oneway(*groups).statistic * within
    usual = (9 - (4 + 9 + 16) / 9) / 2
    found = estimate_framework_variance([groups])
    assert found.within == pytest.approx(within)
    assert found.between == pytest.approx((between - within) / usual)
    two = [np.array([0.0, 2.0]), np.array([5.0, 5.0])]
    twice = estimate_framework_variance([groups, two])
    assert twice.within == pytest.approx(within + 1.0)
    assert twice.between == pytest.approx(found.between + (16 - 1) / 2)
    for few in ([two[:1]], [[two[0], two[1][:1]]]):
        with pytest.raises(ValueError, match="two frameworks with two seeds each"):
            estimate_framework_variance(few)


def test_shares_are_the_variance_removed_by_each_level():
    parts = FrameworkVariance(4.0, 1.0), FrameworkVariance(2.5, 9.0), FrameworkVariance(1.0, 9.0)
    assert compute_variance_shares(*parts).array == pytest.approx([0.3, 0.3, 0.2, 0.2])


def test_resamples_scatter_around_the_estimated_means():
    generator = np.random.default_rng(0)
    tasks = [
        [10 * k + generator.normal(size=n) for k, n in enumerate((3, 4, 5))],
        [20 * k + 3 * generator.normal(size=3) for k in range(4)],
    ]
    found = _bootstrap_framework_variance(tasks, generator, 40_000)
    assert found.draws.mean(axis=0) == pytest.approx(found.world, rel=0.01)
    means = [[group.mean() for group in task] for task in tasks]
    assert found.world[0] == pytest.approx(sum(np.var(part, ddof=1) for part in means))
    estimate = estimate_framework_variance(tasks)
    assert found.estimate.tolist() == [estimate.between, estimate.within]
    assert found.world[1] == pytest.approx(estimate.within)


@pytest.mark.parametrize("names", [("defaults", "exact", "lockstep"), ("defaults", "exact")])
def test_intervals_are_unit_free_and_the_remainder_is_code_and_residual(names):
    generator = np.random.default_rng(2)
    means = {"defaults": [0, 3, 6], "exact": [0, 2, 4], "lockstep": [0, 1, 2]}
    levels = {name: draw(generator, means[name], 6, tasks=2) for name in names}
    found = decompose_spread(levels, np.random.default_rng(3), resamples=400)
    shares = compute_variance_shares(
        *(
            estimate_framework_variance(levels[name]) if name in levels else FrameworkVariance(0, 0)
            for name in means
        )
    )
    assert found.shares == shares
    assert found.equal[0] == pytest.approx(shares.code + shares.residual)
    assert found.equal[1] < found.equal[0] < found.equal[2]
    assert (found.low < shares.array + 1e-12).all() and (shares.array - 1e-12 < found.high).all()
    scaled = {name: [[9 * g for g in task] for task in found] for name, found in levels.items()}
    again = decompose_spread(scaled, np.random.default_rng(3), resamples=400)
    assert again.low == pytest.approx(found.low) and again.equal == pytest.approx(found.equal)
    assert found.excess[0] == pytest.approx(shares.hyperparameters - found.equal[0])
    assert found.excess[1] < found.excess[0] < found.excess[2]
    # The two shares are negatively correlated: more of one leaves less for the other.
    assert found.excess[2] - found.excess[1] > found.own[2] - found.own[1]
    half = decompose_spread(levels, np.random.default_rng(3), 0.5, 400)
    assert half.low[0] > found.low[0] and half.equal[2] < found.equal[2]
    one_less = decompose_spread(levels, np.random.default_rng(3), resamples=399)
    assert one_less.low[0] != found.low[0]


@pytest.mark.parametrize(("a", "b", "d", "e"), [(5, 3, 0, 2), (5, 3, 2, 1), (0, 0, 0, 3)])
def test_crossed_components_are_those_of_the_mean_squares(a, b, d, e):
    rows, columns = np.array([-1.0, 0, 1])[:, None], np.array([-1.0, 1])
    cells = 7 + a * rows + b * columns + d * rows * columns
    found = estimate_crossed_variance(cells[..., None] + e * np.array([-1.0, 1, -1, 1]))
    # Mean squares: 8 a^2, 24 b^2, 8 d^2 and 4 e^2 / 3.
    expected = a**2 - d**2, 2 * b**2 - 2 * d**2 / 3, 2 * d**2 - e**2 / 3, 4 * e**2 / 3
    assert dataclasses.astuple(found) == pytest.approx(expected)
    for shape in ((1, 2, 2), (2, 1, 2), (2, 2, 1)):
        with pytest.raises(ValueError, match="at least two recipes, implementations and seeds"):
            estimate_crossed_variance(np.zeros(shape))


def test_noise_is_a_share_of_the_total_variance():
    assert VarianceComponents(5, 10, 4.0, 1.0).noise_share == 0.25
    assert VarianceComponents(5, 10, 4.0, 6.0).noise_share == 1.0
    assert np.isnan(VarianceComponents(5, 10, 0.0, 0.0).noise_share)
    found = VarianceComponents(5, 10, 4.0, 1.0)
    assert (found.between, found.propose_episodes(0.1), found.propose_episodes(0.5)) == (3, 34, 7)
    assert VarianceComponents(5, 9, 4.0, 1.0).propose_episodes(0.1) == 30  # exactly


def test_noise_is_of_weighted_evaluations_and_the_smallest_number_of_episodes():
    returns = [np.array([[1.0, 3.0], [0.0, 4.0]]), np.array([[2.0, 2.0, 5.0], [1.0, 1.0, 1.0]])]
    weights = [np.array([0.25, 0.75]), np.array([0.5, 0.5])]
    found = estimate_components(returns, weights, np.array([2.0, 5.0]))
    noise = [(2 / 16 + 8 * 9 / 16) / 2, 3 / 4 / 3]
    assert (found.n, found.episodes, found.total) == (2, 2, 4.5)
    assert found.noise == pytest.approx(np.mean(noise))
    with pytest.raises(ValueError, match="shorter"):
        estimate_components(returns, weights[:1], np.array([2.0, 5.0]))
