"""Mutation analysis against cases done by hand."""

import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from parallax.analysis.stats.mutation_score import (
    _differs_by_bootstrap,
    compute_mean_score,
    compute_sensitivity,
    evaluate_kill,
    evaluate_triviality,
    find_closest_value,
)


def runs(*successes, of=10):
    """Pairs with so many successes of `of` tests each."""
    return np.array([[i < count for i in range(of)] for count in successes])


def test_fisher_decides_a_pair_as_the_hypergeometric_distribution_says():
    # 10 of 10 against 5 of 10: two-sided p = 2 C(10,5) C(10,10) / C(20,15) = 504/15504 = 0.0325.
    p = 2 * hypergeom.pmf(10, 20, 15, 10)
    assert p == pytest.approx(504 / 15504) and p < 0.05
    assert evaluate_kill(runs(10), runs(5)).killed == 1
    # 10 of 10 against 6 of 10: 2 C(10,6) / C(20,16) = 420/4845 = 0.0867.
    assert evaluate_kill(runs(10), runs(6)).killed == 0


def test_none_is_killed():
    found = evaluate_kill(runs(10, 9, 10), runs(10, 9, 9))
    assert (found.n, found.weaker, found.killed, found.rate) == (3, 0, 0, 0.0)
    assert not found.is_killed


def test_all_are_killed():
    found = evaluate_kill(runs(10, 10, 10), runs(0, 1, 5))
    assert (found.weaker, found.killed, found.rate, found.is_killed) == (0, 3, 1.0, True)


def test_all_originals_are_weaker():
    found = evaluate_kill(runs(0, 0), runs(10, 9))
    assert (found.n, found.weaker, found.killed) == (2, 2, 0)
    assert math.isnan(found.rate) and not found.is_killed
    assert math.isnan(evaluate_kill(runs(0, 0), runs(10, 9), as_published_code=True).rate)


def test_fisher_and_the_bootstrap_agree_except_near_the_limit():
    all_of, none_of = np.ones(20, bool), np.zeros(20, bool)
    few = np.arange(20) < 16  # 16 of 20 against 20 of 20: p = 0.106, bootstrap from 0.05 to 0.4
    found = evaluate_kill([all_of, all_of, all_of, none_of], [none_of, all_of, few, all_of])
    assert (found.n, found.weaker, found.killed, found.bootstrap_killed) == (4, 1, 1, 2)
    assert (found.agreeing, found.killed_by_fisher_only) == (2, 0)


def test_a_tie_at_one_half_kills():
    found = evaluate_kill(runs(10, 10, 10, 10), runs(0, 0, 10, 10))
    assert found.rate == 0.5 and found.is_killed
    # An original that fails a little more often is left out of the half by the paper's words.
    found = evaluate_kill(runs(10, 10, 9), runs(0, 10, 10))
    assert (found.weaker, found.rate, found.is_killed) == (1, 0.5, True)


def test_the_published_code_departs():
    # Not significant, so the pair is not left out: 1 of 3, and round(1.5) = 2 are wanted.
    found = evaluate_kill(runs(10, 10, 9), runs(0, 10, 10), as_published_code=True)
    assert (found.weaker, found.rate, found.is_killed) == (0, 0.33, False)
    # Nine pairs are left: round(4.5) = 4 suffice, where half of them are 4.5.
    pairs = runs(*[10] * 9), runs(*[0] * 4, *[10] * 5)
    assert (
        evaluate_kill(*pairs, as_published_code=True).is_killed
        and not evaluate_kill(*pairs).is_killed
    )
    # One pair is left: round(0.5) = 0 suffice.
    assert evaluate_kill(runs(10), runs(10), as_published_code=True).is_killed
    assert not evaluate_kill(runs(10), runs(10)).is_killed


def test_mutants_that_fail_nearly_everywhere_are_trivial():
    original, mutant = runs(10, 5, 0), runs(0, 0, 0)
    found = evaluate_triviality(original, mutant)
    assert (found.share, found.pairs, found.is_trivial) == (1.0, 2, True)
    # 1 of 10 and 5 of 5: the mean is (0.9 + 1) / 2 with the first mutant's single success.
    found = evaluate_triviality(runs(10, 5), runs(1, 0))
    assert found.share == pytest.approx(0.95) and found.is_trivial
    assert not evaluate_triviality(runs(10), runs(1)).is_trivial  # 0.9 is not more than 0.9
    # By the published code: 30 failures over 15 successes.
    assert evaluate_triviality(original, mutant, as_published_code=True).share == 2.0
    nothing = evaluate_triviality(runs(0), runs(3))
    assert math.isnan(nothing.share) and not nothing.is_trivial


def test_mean_scores_skip_unknown_values():
    found = compute_mean_score([1.0, 0.5, math.nan])
    assert (found.value, found.n, found.n_requested) == (0.75, 2, 3)
    assert math.isnan(compute_mean_score([math.nan]).value) and math.isnan(
        compute_mean_score([]).value
    )


def test_sensitivity():
    assert compute_sensitivity(0.5, 0.75) == pytest.approx(1 / 3)
    assert (
        compute_sensitivity(0.5, 0.75, as_published_code=True) == 0.333
    )  # the reference's own check value
    assert compute_sensitivity(0.9, 0.8) == 0.0 and compute_sensitivity(0.9, 0.9) == 0.0
    assert compute_sensitivity(0.0, 0.4) == 1.0
    assert (
        math.isnan(compute_sensitivity(0.0, 0.0))
        and compute_sensitivity(0.0, 0.0, as_published_code=True) == 0.0
    )
    assert math.isnan(compute_sensitivity(math.nan, 1.0))


def test_the_closest_value_that_is_eligible():
    assert find_closest_value([0.9, 0.95, 0.98], 0.99, [True, True, False]) == 1
    assert find_closest_value([0.9], 0.99, [False]) is None


def test_shapes_that_do_not_fit_are_refused():
    for pairs in ((runs(1, 2), runs(1)), (runs(1), runs(1, 2))):
        with pytest.raises(ValueError, match=r"is (shorter|longer) than"):
            evaluate_kill(*pairs)
    with pytest.raises(ValueError, match="shapes"):
        evaluate_triviality(runs(1), runs(1, of=9))


def test_originals_as_good_as_their_mutants_are_not_weaker():
    result = evaluate_kill(runs(7, 7, 3), runs(7, 8, 3))
    assert (result.n, result.weaker) == (3, 1)


def test_published_code_needs_p_below_the_level_for_weaker_originals():
    # Fisher's p of one failure against n successes is 1 / (n + 1).
    at_the_level, below = ([runs(0, of=1), runs(n, of=n)] for n in (19, 20))
    assert evaluate_kill(*at_the_level).weaker == evaluate_kill(*below).weaker == 1
    assert evaluate_kill(*at_the_level, as_published_code=True).weaker == 0
    assert evaluate_kill(*below, as_published_code=True).weaker == 1


def test_fisher_does_not_kill_at_the_level_and_the_bootstrap_may():
    for n, killed in ((19, 0), (20, 1)):  # p is 0.05 and 1 / 21
        result = evaluate_kill([runs(n, of=n)[0]], [runs(0, of=1)[0]])
        assert (result.n, result.weaker, result.killed) == (1, 0, killed)
        assert (result.bootstrap_killed, result.agreeing) == (1, killed)
        assert result.killed_by_fisher_only == 0


@pytest.mark.parametrize(("failures", "differs"), [(2, False), (3, False), (4, True)])
def test_the_bootstrap_has_a_level_of_five_percent_on_both_sides(failures, differs):
    # No failure in 20 tests has probability (1 - failures / 20)^20: 12%, 3.9% and 1.2%.
    one, two = np.ones(20, bool), np.arange(20) >= failures
    assert _differs_by_bootstrap(one, two, np.random.default_rng(0)) == differs
    assert _differs_by_bootstrap(two, one, np.random.default_rng(0)) == differs
