"""Endpoints, times to a threshold, variance components and strata, against other formulas."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from parallax.analysis.stats import pooling, two_sample
from parallax.analysis.stats.decomposition import VarianceComponents, estimate_components
from parallax.analysis.stats.learning_curves import AUC, Endpoint, find_first_reach
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.stats.survival import (
    CensoredTimes,
    _compute_log_rank_statistics,
    compute_log_rank_p,
    compute_permuted_log_rank_p,
    estimate_survival,
)

returns = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=12)
times = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=2, max_size=12)


def steps_of(curve, gap=500):
    return np.cumsum(np.arange(1, len(curve) + 1)) * gap  # unevenly spread


@given(returns, st.floats(0.1, 10), st.floats(-100, 100))
def test_the_area_of_a_normalized_curve_is_the_normalized_area(curve, width, zero):
    values, steps = np.array(curve), steps_of(curve)
    area = Endpoint(AUC).score(steps, values)
    assert Endpoint(AUC).score(steps, (values - zero) / width) == pytest.approx(
        (area - zero) / width, abs=1e-6
    )
    # The trapezoidal rule, interval by interval.
    parts = [
        (b - a) * (x + y) / 2
        for a, b, x, y in zip(steps, steps[1:], values, values[1:], strict=False)
    ]
    whole = sum(parts) / (steps[-1] - steps[0]) if parts else values[0]
    assert area == pytest.approx(whole, abs=1e-6)


@given(returns, st.floats(-1e4, 1e4), st.sampled_from(["final", "last-1", AUC]))
def test_an_evaluation_before_training_is_no_part_of_a_score(curve, untrained, name):
    steps, endpoint = steps_of(curve), Endpoint(name)
    before = np.r_[0, steps], np.r_[untrained, curve]
    assert endpoint.score(*before) == endpoint.score(steps, np.array(curve))
    assert endpoint.compute_weights(before[0]).tolist() == [
        0.0,
        *endpoint.compute_weights(steps).tolist(),
    ]


@given(returns, st.sampled_from(["final", "last-1", "last-3", "last-40", AUC]))
def test_a_score_is_the_weighted_sum_of_evaluations(curve, name):
    endpoint, steps = Endpoint(name), steps_of(curve)
    weights = endpoint.compute_weights(steps)
    assert weights.sum() == pytest.approx(1)
    assert endpoint.score(steps, np.array(curve)) == pytest.approx(weights @ curve, abs=1e-6)


def test_steps_to_a_threshold_count_remaining_training():
    steps, curve = np.array([1000, 2000, 3000, 4000]), np.array([0.0, 95.0, 20.0, 100.0])
    assert Endpoint("steps-90").score(steps, curve, 90.0) == 0.5
    assert Endpoint("steps-90").score(steps, curve, 101.0) == 0.0
    assert find_first_reach(steps, curve, 96.0) == (4000.0, True)
    assert find_first_reach(steps, curve, 200.0) == (4000.0, False)


@pytest.mark.parametrize("name", ["", "last-0", "steps-0", "steps-101", "best", "last-3 "])
def test_unknown_endpoints_are_refused_by_name(name):
    with pytest.raises(ValueError, match="is not known: give final, last-K"):
        Endpoint(name)


def product_limit(pairs):
    """Kaplan and Meier's estimate from its definition."""
    share, found = 1.0, []
    for time in sorted({time for time, reached in pairs if reached}):
        at_risk = sum(other >= time for other, _ in pairs)
        share *= 1 - sum(other == time and reached for other, reached in pairs) / at_risk
        found.append((time, share))
    return found


@given(times)
def test_survival_is_the_product_limit_estimate(pairs):
    curve = estimate_survival(CensoredTimes.from_pairs(pairs))
    known = product_limit(pairs)
    np.testing.assert_allclose(curve.steps, [time for time, _ in known])
    np.testing.assert_allclose(curve.share, [share for _, share in known], atol=1e-12)
    below = [time for time, share in known if share <= 0.5 + 1e-12]
    assert curve.median == (below[0] if below else math.inf)


def log_rank(first, second):
    """Mantel's statistic from its definition: observed against expected events."""
    both = [*first, *second]
    observed = expected = variance = 0.0
    for time in sorted({time for time, reached in both if reached}):
        n = sum(other >= time for other, _ in both)
        n1 = sum(other >= time for other, _ in first)
        d = sum(other == time and reached for other, reached in both)
        observed += sum(other == time and reached for other, reached in first)
        expected += d * n1 / n
        variance += d * (n1 / n) * (1 - n1 / n) * (n - d) / max(n - 1, 1)
    return (observed - expected) ** 2 / variance if variance else 0.0


@settings(max_examples=50)
@given(times, times)
def test_the_log_rank_test_compares_observed_and_expected_events(first, second):
    p = compute_log_rank_p(*(CensoredTimes.from_pairs(pairs) for pairs in (first, second)))
    assert p == pytest.approx(stats.chi2.sf(log_rank(first, second), 1), abs=1e-6)


def test_components_are_those_of_the_analysis_of_variance():
    rng = np.random.default_rng(0)
    table = rng.normal(0, 9, (6, 1)) + rng.normal(0, 5, (6, 10))
    parts = [np.stack([np.zeros(10), row]) for row in table]
    scores = table.mean(axis=1)
    found = estimate_components(parts, [np.array([0.0, 1.0])] * 6, scores)
    between = 10 * scores.var(ddof=1)
    within = table.var(axis=1, ddof=1).mean()
    assert found.noise_share == pytest.approx(within / between)
    assert found.between == pytest.approx((between - within) / 10)


def test_proposed_episodes_make_noise_a_tenth_of_the_variance_between_seeds():
    found = VarianceComponents(n=10, episodes=10, total=100.0, noise=55.0)
    episodes = found.propose_episodes()
    assert found.noise * 10 / episodes <= 0.1 * found.between < found.noise * 10 / (episodes - 1)
    known = {(50.0, 55.0): math.inf, (55.0, 55.0): math.inf, (50.0, 0.0): 1, (0.0, 0.0): 1}
    found = {key: VarianceComponents(10, 10, *key).propose_episodes() for key in known}
    assert found == known


def test_single_stratum_equals_an_unstratified_comparison():
    rng = np.random.default_rng(1)
    one, two = rng.normal(0.5, 0.1, 8), rng.normal(0.6, 0.2, 10)
    item = pooling.compute_stratified_contrast([one], [two])
    usual = two_sample.compute_contrast([compute_moments(one)], [compute_moments(two)])
    for name in ("difference", "error", "degrees_of_freedom"):
        assert getattr(item, name) == pytest.approx(getattr(usual, name))
    p = pooling.compute_stratified_permutation_p([one], [two], np.random.default_rng(0))
    exact = two_sample.compute_permutation_p(one, two, np.random.default_rng(0))
    assert p == pytest.approx(exact, abs=0.02)


def test_permutations_as_extreme_as_the_observed_one_count():
    """Of the six ways to split four scores into halves two are as far apart as the sorted ones."""
    p = pooling.compute_stratified_permutation_p(
        [np.array([0.0, 1.0])], [np.array([2.0, 3.0])], np.random.default_rng(0)
    )
    assert p == pytest.approx(2 / 6, abs=0.03)


def test_strata_have_equal_weight_and_more_strata_bound_failures_tighter():
    rng = np.random.default_rng(2)
    tasks = [rng.uniform(0.9, 1.0, n) for n in (10, 10, 20)]
    item = pooling.compute_stratified_contrast(tasks, [task - 0.3 for task in tasks])
    assert item.difference == pytest.approx(0.3)
    same = [task[:10] for task in tasks]
    p = [
        pooling.compute_stratified_difference_p(same[:k], same[:k], (0.0, 1.0), 0.1) for k in (1, 3)
    ]
    assert p[0] > 0.05 > p[1]


def test_differences_between_strata_add_no_noise_and_widen_the_range():
    """Strata that are moved apart have more room to fail, and no more spread."""
    rng = np.random.default_rng(3)
    tasks = [rng.uniform(0.45, 0.55, 40) for _ in range(2)]
    apart = [tasks[0] - 0.15, tasks[1] + 0.15]
    p, p_apart, p_wide = (
        pooling.compute_stratified_difference_p(strata, strata, ends, 0.1)
        for strata, ends in ((tasks, (0.0, 1.0)), (apart, (0.0, 1.0)), (tasks, (-0.15, 1.15)))
    )
    assert p < p_apart == pytest.approx(p_wide)
    means = [
        pooling.compute_stratified_mean_p(strata, [scores - 0.1 for scores in strata], (0.0, 1.0))
        for strata in (tasks, apart)
    ]
    assert max(means) < 0.01


@given(times, times)
def test_the_log_rank_statistic_of_two_groups_is_scipys(one, two):
    first, second = CensoredTimes.from_pairs(one), CensoredTimes.from_pairs(two)
    both = CensoredTimes.from_pairs([*one, *two])
    groups = np.repeat([0, 1], [len(one), len(two)])[None]
    if not both.reached.any():
        return
    with np.errstate(all="ignore"):
        z = float(stats.logrank(first.to_scipy(), second.to_scipy()).statistic)
    (found,) = _compute_log_rank_statistics(both, groups)
    assert found == pytest.approx(0.0 if math.isnan(z) else z**2, abs=1e-6)


def test_permuted_log_rank_agrees_with_the_exact_share_of_permutations():
    one = CensoredTimes.from_pairs([(1, True), (2, True), (3, True)])
    two = CensoredTimes.from_pairs([(7, True), (8, True), (9, False)])
    rng = np.random.default_rng(0)
    # Of the 20 ways to split six runs, the two that separate early from late are as far apart.
    assert compute_permuted_log_rank_p([one, two], rng) == pytest.approx(0.1, abs=0.01)
    assert math.isnan(compute_permuted_log_rank_p([one], rng))
    never = CensoredTimes.from_pairs([(9, False)] * 3)
    assert compute_permuted_log_rank_p([never, never], rng) == 1.0


def test_permuted_log_rank_is_rarely_significant_between_equal_laws():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        groups = [
            CensoredTimes.from_pairs([(float(t), t < 8) for t in rng.integers(1, 10, 3)])
            for _ in range(6)
        ]
        hits += compute_permuted_log_rank_p(groups, rng, 199) < 0.05
    assert hits / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize(
    ("name", "words", "evaluations", "share"),
    [
        ("final", "over the episodes of the last evaluation", 1, math.nan),
        ("last-10", "over the episodes of the last 10 evaluations", 10, math.nan),
        (AUC, "area under the learning curve", 0, math.nan),
        ("steps-75", "first reaches 75% of the way to the published score", 0, 0.75),
    ],
)
def test_endpoints_have_descriptions_and_values(name, words, evaluations, share):
    endpoint = Endpoint(name)
    assert words in endpoint.description
    assert endpoint.evaluations == evaluations
    assert endpoint.threshold_share == pytest.approx(share, nan_ok=True)
    assert endpoint.is_steps == (not math.isnan(share))
