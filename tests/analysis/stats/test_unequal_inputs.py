"""Values that belong together are refused where their numbers differ, and not cut to the fewest."""

import numpy as np
import pytest

from parallax.analysis.stats import (
    aggregates,
    multiple_testing,
    mutation_score,
    pooling,
    two_sample,
)

ONE, TWO = [np.arange(3.0)], [np.arange(3.0), np.arange(1.0, 4.0)]


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: two_sample.compute_fisher_p((0, 1), (3, 4, 5)),
        lambda: two_sample.compute_stratified_fisher_p([(0, 1)], [(3, 4), (3, 4)]),
        lambda: two_sample.compute_newcombe_interval((0, 1, 1), (3, 4)),
        lambda: aggregates.compute_improvement({"a": TWO, "b": ONE}, rng(), resamples=5),
        lambda: multiple_testing.compute_sequential_p([0.1], [5, 10], 10),
        lambda: pooling.compute_stratified_permutation_p(ONE, TWO, rng()),
        lambda: pooling.compute_stratified_difference_p(TWO, ONE, (0.0, 9.0), 1.0),
        lambda: mutation_score.find_closest_value([0.5, 0.7], 1.0, [True]),
        lambda: mutation_score.evaluate_triviality(np.ones((2, 3), bool), np.ones((1, 3), bool)),
    ],
)
def test_unequal_numbers_of_values_are_refused(call):
    with pytest.raises(ValueError, match=r"is (shorter|longer) than|too many values"):
        call()
