import math

import numpy as np
import pytest

from parallax.analysis.stats.intervals import compute_interval_bounds, compute_thesis_coverage


def coverage(method, n, repeats, seed=1):
    samples = np.random.default_rng(seed).normal(3, 2, (n, repeats))
    _, low, high = compute_interval_bounds(samples, method, np.random.default_rng(0))
    return np.mean((low <= 3) & (high >= 3))


def four_sigma(share, repeats):
    return 4 * math.sqrt(share * (1 - share) / repeats)


@pytest.mark.parametrize("n", [2, 5, 10])
def test_t_covers_95_percent_of_normal_data(n):
    assert abs(coverage("t", n, 40_000) - 0.95) < four_sigma(0.95, 40_000)


@pytest.mark.parametrize(("n", "expected"), [(2, 0.602), (5, 0.845), (10, 0.905), (1000, 0.950)])
def test_the_thesis_formula_covers_less(n, expected):
    assert compute_thesis_coverage(n) == pytest.approx(expected, abs=0.001)
    repeats = 40_000 if n < 100 else 4_000
    measured = coverage("thesis", n, repeats)
    assert abs(measured - compute_thesis_coverage(n)) < four_sigma(expected, repeats)


def test_the_bootstrap_covers_less_at_five_seeds_and_half_at_two():
    assert abs(coverage("bootstrap", 2, 1000) - 0.5) < four_sigma(0.5, 1000)
    assert 0.78 < coverage("bootstrap", 5, 1000) < 0.90
