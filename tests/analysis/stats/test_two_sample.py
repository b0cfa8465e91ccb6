import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from parallax.analysis.stats import two_sample as pairwise
from parallax.analysis.stats.moments import (
    SampleMoments,
    compute_moments,
    moments_from_thesis_interval,
)
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.stats.unobserved_failures import compute_exceedance_p

SAMPLES = hnp.arrays(np.float64, st.integers(2, 9), elements=st.floats(-1e4, 1e4).map(round))


def apart(first, second):
    return pairwise.compute_contrast([compute_moments(first)], [compute_moments(second)])


@given(first=SAMPLES, second=SAMPLES)
@settings(max_examples=60, deadline=None)
def test_welch_equals_scipy(first, second):
    if min(np.ptp(first), np.ptp(second)) == 0:
        return
    item = apart(first, second)
    theirs = stats.ttest_ind(first, second, equal_var=False)
    assert float(pairwise.compute_two_sided_p(item)) == pytest.approx(theirs.pvalue, rel=1e-9)
    low, high = pairwise.compute_contrast_bounds(item)
    assert (float(low), float(high)) == pytest.approx(tuple(theirs.confidence_interval()))


@given(first=SAMPLES, second=SAMPLES, margin=st.floats(0.1, 1e4))
@settings(max_examples=60, deadline=None)
def test_equivalence_is_the_worse_of_two_one_sided_tests(first, second, margin):
    if min(np.ptp(first), np.ptp(second)) == 0:
        return
    ours = float(pairwise.compute_equivalence_p(apart(first, second), margin))
    below = stats.ttest_ind(first + margin, second, equal_var=False, alternative="greater")
    above = stats.ttest_ind(first - margin, second, equal_var=False, alternative="less")
    assert ours == pytest.approx(max(below.pvalue, above.pvalue), rel=1e-6, abs=1e-12)


def test_constant_samples_have_p_values_of_zero_or_one():
    same, other = np.full(5, 1000.0), np.full(5, 990.0)
    assert float(pairwise.compute_two_sided_p(apart(same, same))) == 1
    assert float(pairwise.compute_equivalence_p(apart(same, same), 1.0)) == 0
    assert float(pairwise.compute_two_sided_p(apart(same, other))) == 0
    assert float(pairwise.compute_equivalence_p(apart(same, other), 5.0)) == 1


def test_single_seed_gives_no_p_value():
    assert math.isnan(float(pairwise.compute_two_sided_p(apart(np.array([1.0]), np.arange(5.0)))))


def test_the_permutation_test_tries_every_split_of_five_and_five():
    first, second = np.arange(5.0), np.arange(5.0) + 100
    p = pairwise.compute_permutation_p(first, second, np.random.default_rng(0))
    assert p == pytest.approx(2 / math.comb(10, 5))


@pytest.mark.parametrize("sizes", [(2, 2), (3, 5), (5, 5), (6, 3)])
def test_exact_permutation_p_values_are_scipys(sizes):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        first, second = (rng.normal(n, 1, n) for n in sizes)
        theirs = stats.permutation_test(
            (first, second), pairwise._compute_welch_statistic, vectorized=True, n_resamples=np.inf
        )
        assert pairwise.compute_permutation_p(first, second, rng) == float(theirs.pvalue)


def count_splits(first, second):
    """Exact p-value by fractions, with Welch's statistic squared and signed."""

    def measure(parts):
        means = [Fraction(sum(part), len(part)) for part in parts]
        gap = means[0] - means[1]
        variance = sum(
            sum((x - mean) ** 2 for x in part) / (len(part) - 1) / len(part)
            for part, mean in zip(parts, means, strict=True)
        )
        return gap * abs(gap) / variance if variance else gap * 10**9

    both = first + second
    splits = [
        ([both[i] for i in taken], [x for i, x in enumerate(both) if i not in taken])
        for taken in itertools.combinations(range(len(both)), len(first))
    ]
    null, seen = [measure(split) for split in splits], measure((first, second))
    tails = sum(x <= seen for x in null), sum(x >= seen for x in null)
    return min(1.0, 2 * min(tails) / len(null))


@pytest.mark.parametrize(
    ("offset", "tenths"),
    [
        (0, ([0, 2, 2], [1, 3, 3])),
        (500, ([4, 3, 3, 4], [3, 3, 2, 1])),
        (500, ([1, 0, 0, 0], [1, 0, 1, 0])),
        (500, ([2, 2], [2, 0, 2])),
        (-150, ([2, 1, 2], [0, 2, 2])),
        (9349, ([1, 2, 2], [1, 1, 0, 0, 1, 2, 1])),
    ],
)
def test_splits_of_decimal_scores_are_ties_despite_rounding(offset, tenths):
    first, second = (np.array([offset + x / 10 for x in part]) for part in tenths)
    p = pairwise.compute_permutation_p(first, second, np.random.default_rng(0))
    assert p == pytest.approx(count_splits(*tenths))


def test_drawn_splits_of_decimal_scores_are_ties_despite_rounding():
    # 9 + 9 values, of which 3 are lower: 816 splits in place of 48,620.
    first, second = np.full(9, 500.1), np.full(9, 500.1)
    first[:1], second[:2] = 499.9, 499.9
    p = pairwise.compute_permutation_p(first, second, np.random.default_rng(0))
    assert p == 1


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_permutation_test_of_constant_samples_counts_splits_like_any_other(n):
    p = pairwise.compute_permutation_p(np.full(n, 7.0), np.full(n, 8.0), np.random.default_rng(0))
    assert p == pytest.approx(2 / math.comb(2 * n, n))
    same = pairwise.compute_permutation_p(
        np.full(n, 7.0), np.full(n, 7.0), np.random.default_rng(0)
    )
    assert same == 1


def test_permutation_test_respects_its_level_on_skewed_returns():
    rng = np.random.default_rng(1)
    samples = rng.exponential(size=(400, 2, 4))
    p = [pairwise.compute_permutation_p(a, b, rng) for a, b in samples]
    assert np.mean(np.array(p) < 0.05) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_holm_is_the_textbook_example_and_leaves_unknown_tests_out():
    adjusted = adjust_holm([0.01, np.nan, 0.04, 0.03, 0.005])
    assert adjusted[[0, 2, 3, 4]] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert math.isnan(adjusted[1])


@given(p=hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(0, 1)))
def test_holm_never_decreases_p_values_and_preserves_their_order(p):
    adjusted = adjust_holm(p)
    assert (adjusted >= p).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()


def test_the_deviation_behind_a_thesis_interval_is_recovered():
    scores = np.array([1000.0, 1000, 1000, 1000, 3])
    half = 1.96 * scores.std() / math.sqrt(5)
    assert f"{scores.mean():.1f} {half:.1f}" == "800.6 349.6"
    found = moments_from_thesis_interval(scores.mean(), half, 5)
    assert float(found.sd) == pytest.approx(scores.std(ddof=1))
    assert isinstance(found, SampleMoments)


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_scores_does_not_change_the_permutation_test(factor):
    # Rounding leaves a difference of some 1e-16 between splits that are equal on paper.
    first, second = np.array([0.1, 0.2, 0.3]), np.array([0.2, 0.3, 0.1])
    rng = np.random.default_rng(0)
    assert pairwise.compute_permutation_p(factor * first, factor * second, rng) == 1
    apart_by = factor * np.arange(3.0), factor * (np.arange(3.0) + 10)
    assert pairwise.compute_permutation_p(*apart_by, rng) == pytest.approx(0.1)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_constant_samples_apart_have_no_finite_statistic(scale):
    first, second = np.full(3, 0.1 * scale), np.full(3, 0.3 * scale)
    statistic = pairwise._compute_welch_statistic(first, second, axis=0)
    assert statistic == -1e100


@given(st.tuples(*[st.integers(0, 9)] * 4))
def test_failure_rates_are_compared_by_scipys_exact_test(counts):
    failed, sizes = counts[:2], tuple(k + n for k, n in zip(counts[:2], counts[2:], strict=True))
    p = pairwise.compute_fisher_p(failed, sizes)
    if min(sizes) == 0:
        assert math.isnan(p)
    else:
        assert p == pytest.approx(stats.fisher_exact([failed, counts[2:]]).pvalue)


def test_a_possible_difference_needs_two_values_of_each_sample():
    few, more, bounds = np.array([1.0]), np.array([0.0, 1.0]), (0.0, 10.0)
    assert math.isnan(compute_exceedance_p(few, more, bounds, 1.0))
    assert math.isnan(compute_exceedance_p(more, few, bounds, 1.0))
    assert 0 <= compute_exceedance_p(more, more, bounds, 9.0) <= 1


def test_up_to_eight_and_eight_values_every_split_is_counted():
    def find(n, m, seed=0):
        first, second = np.arange(float(n)), 100 + np.arange(float(m))
        return pairwise.compute_permutation_p(first, second, np.random.default_rng(seed))

    assert find(8, 8) == pytest.approx(2 / 12_870)
    assert find(9, 8) == pytest.approx(2 / 12_871)  # drawn, with the observed one
    assert find(2, 2) == pytest.approx(2 / 6)
    assert math.isnan(find(1, 5)) and math.isnan(find(5, 1))
    near = np.random.default_rng(1).normal(size=(2, 10))
    p = [pairwise.compute_permutation_p(*near, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert p[0] == p[1] != p[2]


def test_one_sided_tests_use_a_least_difference():
    first, second = np.array([5.0, 7.0, 9.0, 6.0]), np.array([1.0, 2.0, 1.5])
    item = apart(first, second)
    for least in (0.0, 3.0, 8.0):
        theirs = stats.ttest_ind(first - least, second, equal_var=False, alternative="greater")
        assert float(pairwise.compute_one_sided_p(item, least)) == pytest.approx(theirs.pvalue)
    assert float(pairwise.compute_one_sided_p(item)) == float(pairwise.compute_one_sided_p(item, 0))
    low, high = pairwise.compute_contrast_bounds(item, 0.8)
    theirs = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.8)
    assert (float(low), float(high)) == pytest.approx(tuple(theirs))


def test_smallest_varying_sample_sets_the_degrees_of_freedom():
    three, five = compute_moments(np.array([1.0, 2.0, 4.0])), compute_moments(np.arange(5.0))
    item = pairwise.compute_contrast([three], [five])
    found = pairwise.use_smallest_degrees_of_freedom(item, [three, five])
    assert found.degrees_of_freedom == 2 and found.error == item.error
    constant = compute_moments(np.ones(5))
    certain = pairwise.compute_contrast([constant], [constant])
    assert certain.degrees_of_freedom == math.inf
    found = pairwise.use_smallest_degrees_of_freedom(certain, [constant, constant])
    assert found.degrees_of_freedom == math.inf


def test_contrasts_of_several_means_add_their_errors():
    samples = [
        np.array([1.0, 2.0, 4.0]),
        np.arange(5.0),
        np.array([7.0, 9.0]),
        np.array([1.0, 9, 3]),
    ]
    moments = [compute_moments(values) for values in samples]
    item = pairwise.compute_contrast(moments[:3], moments[3:])
    parts = [(values.var(ddof=1) / len(values), len(values)) for values in samples]
    total = sum(part for part, _ in parts)
    means = [values.mean() for values in samples]
    assert item.difference == pytest.approx(sum(means[:3]) - means[3])
    assert item.error == pytest.approx(math.sqrt(total))
    freedom = total**2 / sum(part**2 / (n - 1) for part, n in parts)
    assert item.degrees_of_freedom == pytest.approx(freedom)


def test_probabilities_are_at_most_one_despite_rounding():
    strata = [(0, 1), (1, 0)], [(2, 3), (2, 3)]  # probabilities that add up to 1 + 4e-16
    assert pairwise.compute_stratified_fisher_p(*strata) == 1.0
    for size in range(1, 40):
        low, high = (pairwise.compute_wilson_interval(k, size)[k > 0] for k in (0, size))
        assert 0 <= low < 1e-15 and 1 - 1e-15 < high <= 1


def test_permutation_p_of_an_unknown_score_is_unknown():
    first, second = np.array([1.0, math.nan, 2.0]), np.array([3.0, 4.0])
    rng = np.random.default_rng(0)
    assert math.isnan(pairwise.compute_permutation_p(first, second, rng))
