"""Coverage of intervals of pooled differences, and the gain by them and by paired tests.

    python benchmarks/pooling.py

prints the tables in docs/reference/simulations.md: two frameworks on eight tasks with five seeds
each, whose true differences scatter around a mean; how often intervals contain the truth, and their
width relative to Welch's. Then the power of a test of paired seeds, by the correlation of their
scores.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from parallax.analysis.stats.moments import FloatArray, compute_moments
from parallax.analysis.stats.pooling import pool_differences
from parallax.analysis.stats.two_sample import compute_contrast, compute_paired_difference

TASKS, SEEDS = 8, 5
Shape = Callable[[np.random.Generator, int], FloatArray]


def draw_normal(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw with standard deviation 1 and mean 0."""
    return rng.normal(size=n)


def draw_skewed(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw from a mirrored exponential of standard deviation 1 and mean 0."""
    return 1 - rng.exponential(size=n)


SHAPES: dict[str, Shape] = {"normal": draw_normal, "skewed": draw_skewed}


def simulate_study(
    shape: Shape, between: float, rng: np.random.Generator
) -> tuple[bool, float, float, float]:
    """Return whether the mean is covered, shares of tasks covered (pooled, alone), width ratio."""
    truth = rng.normal(0.1, between, TASKS)
    deviations = rng.choice([0.05, 0.1, 0.2], size=(2, TASKS))
    tests = []
    for task in range(TASKS):
        first, second = (
            shape(rng, SEEDS) * deviations[side, task] + (truth[task] if side == 0 else 0.0)
            for side in (0, 1)
        )
        tests.append(compute_contrast([compute_moments(first)], [compute_moments(second)]))
    differences = np.array([float(test.difference) for test in tests])
    errors = np.array([float(test.error) for test in tests])
    freedom = np.array([float(test.degrees_of_freedom) for test in tests])
    found = pool_differences(differences, errors**2, freedom)
    halves = errors * stats.t.ppf(0.975, freedom)
    covered = (found.lows <= truth) & (truth <= found.highs)
    alone = np.abs(differences - truth) <= halves
    width = (found.highs - found.lows).mean() / (2 * halves.mean())
    return bool(found.low <= 0.1 <= found.high), covered.mean(), alone.mean(), float(width)


def measure_power(
    correlation: float, n: int, repeats: int, rng: np.random.Generator
) -> tuple[float, ...]:
    """Return rates at which paired and Welch's tests find a shift of 1.5 deviations, and none."""
    rows = []
    for shift in (1.5, 0.0):
        counts = np.zeros(2)
        for _ in range(repeats):
            common = rng.normal(size=n) * np.sqrt(correlation)
            own = rng.normal(size=(2, n)) * np.sqrt(1 - correlation)
            first, second = common + own[0] + shift, common + own[1]
            welch = stats.ttest_ind(first, second, equal_var=False).pvalue
            counts += [compute_paired_difference(first, second).p < 0.05, welch < 0.05]
        rows += list(counts / repeats)
    return tuple(rows)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=1000)
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    print(
        "| returns | deviation between tasks | mean covered | tasks, pooled | tasks, alone "
        "| width |"
    )
    print("|---|---|---|---|---|---|")
    for name, shape in SHAPES.items():
        for between in (0.0, 0.05, 0.2):
            studies = [simulate_study(shape, between, rng) for _ in range(repeats)]
            mean, pooled, alone, width = np.mean(studies, axis=0)
            print(f"| {name} | {between} | {mean:.1%} | {pooled:.1%} | {alone:.1%} | {width:.2f} |")
    print()
    print("| seeds | correlation | paired | Welch | paired, no difference | Welch, no difference |")
    print("|---|---|---|---|---|---|")
    for n in (5, 10):
        for correlation in (0.0, 0.3, 0.6, 0.9):
            rates = measure_power(correlation, n, repeats, rng)
            print(f"| {n} | {correlation} | " + " | ".join(f"{rate:.1%}" for rate in rates) + " |")


if __name__ == "__main__":
    main()
