"""Coverage of aggregates' intervals if tasks have unequal numbers of seeds.

    python benchmarks/unequal_seeds.py

prints the table in docs/reference/simulations.md: eight tasks of different difficulty, of which the
easy ones have 20 seeds and the hard ones 4. Mean error and coverage of the 95% interval of each
aggregate, with all seeds pooled (the former rule, except for the median), and with equal tasks.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy import stats

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from parallax.analysis.stats.aggregates import AGGREGATE_NAMES, compute_aggregates
from parallax.analysis.stats.intervals import compute_percentile_bounds

MEANS = np.linspace(0.1, 1.5, 8)
SPREAD = 0.1
SEEDS = (4, 4, 4, 4, 20, 20, 20, 20)


def compute_truth() -> np.ndarray:
    """Return the aggregates of a very large number of seeds of each task."""
    rng = np.random.default_rng(0)
    tasks = [rng.normal(mean, SPREAD, 40_000) for mean in MEANS]
    return _compute_pooled(tasks)


def _compute_pooled(tasks: list[np.ndarray]) -> np.ndarray:
    flat = np.concatenate(tasks)
    median = np.median([task.mean() for task in tasks])
    gap = 1 - np.minimum(flat, 1).mean()
    return np.array([median, stats.trim_mean(flat, 0.25), flat.mean(), gap])


def bootstrap_pooled(
    tasks: list[np.ndarray], rng: np.random.Generator, resamples: int
) -> tuple[np.ndarray, ...]:
    """Return point estimate and interval with equal weight for every seed."""
    drawn = np.array(
        [_compute_pooled([rng.choice(task, len(task)) for task in tasks]) for _ in range(resamples)]
    )
    return _compute_pooled(tasks), *compute_percentile_bounds(drawn, 0.95)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    repeats, resamples = parser.parse_args().repeats, 400
    rng, true = np.random.default_rng(1), compute_truth()
    found: dict[str, list[tuple[np.ndarray, ...]]] = {"pooled": [], "equal tasks": []}
    for _ in range(repeats):
        tasks = [rng.normal(mean, SPREAD, n) for mean, n in zip(MEANS, SEEDS, strict=True)]
        found["pooled"].append(bootstrap_pooled(tasks, rng, resamples))
        item = compute_aggregates({"a": tasks}, rng, resamples)
        found["equal tasks"].append((item.point[0], item.low[0], item.high[0]))
    print("| | " + " | ".join(f"{name}: error | covered" for name in AGGREGATE_NAMES) + " |")
    print("|" + "---|" * (1 + 2 * len(AGGREGATE_NAMES)))
    for name, rows in found.items():
        point, low, high = (np.array([row[i] for row in rows]) for i in range(3))
        error, inside = (point - true).mean(axis=0), ((low <= true) & (true <= high)).mean(axis=0)
        cells = " | ".join(f"{e:+.3f} | {c:.0%}" for e, c in zip(error, inside, strict=True))
        print(f"| {name} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
