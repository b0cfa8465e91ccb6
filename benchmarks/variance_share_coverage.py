"""Coverage of the 95% intervals of variance shares, with a study's own scores as the truth.

    python benchmarks/variance_share_coverage.py docs/ladder/ladder.parquet

True means of frameworks are the observed ones, drawn together so that their variance is the
estimated component (0 where that is negative). Scores are normal around them, with the same
numbers of seeds and with the deviations as observed; runs that two levels share stay shared.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from parallax.analysis.data.load import load_runs
from parallax.analysis.stats.decomposition import (
    FrameworkVariance,
    compute_variance_shares,
    decompose_spread,
    estimate_framework_variance,
)
from parallax.analysis.verdicts.alignment_levels import LEVELS
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_study

Levels = Mapping[str, list[list[NDArray[np.float64]]]]
"""Scores by level, task and framework."""


def collect_scores(path: Path) -> tuple[list[str], Levels]:
    """Return the tasks of a packed study, and their normalized scores."""
    results = judge_study(load_runs(path), VerdictOptions(endpoint="auc"))
    (study,) = results.levels
    tasks = [task for task, found in study.by_task.items() if len(found) == len(LEVELS)]
    names = study.frameworks
    scores = {
        level: [[study.by_task[task][level].scores[name] for name in names] for task in tasks]
        for level in LEVELS
    }
    return [f"{task.algorithm} on {task.env}" for task in tasks], scores


def shrink_means(
    groups: list[NDArray[np.float64]],
) -> tuple[NDArray[np.float64], FrameworkVariance]:
    """Return means with the variance of the estimated component, and the true components."""
    found = estimate_framework_variance([groups])
    means, between = np.array([one.mean() for one in groups]), max(found.between, 0.0)
    means = means.mean() + (means - means.mean()) * np.sqrt(between / means.var(ddof=1))
    freedom = np.array([len(one) - 1 for one in groups])
    within = freedom @ [one.var(ddof=1) for one in groups] / freedom.sum()
    return means, FrameworkVariance(between, float(within))


def draw_scores(levels: Levels, generator: np.random.Generator) -> Levels:
    """Draw new scores of all runs."""
    drawn: dict[tuple[int, int, bytes], NDArray[np.float64]] = {}
    found: dict[str, list[list[NDArray[np.float64]]]] = {level: [] for level in levels}
    for level, tasks in levels.items():
        for index, groups in enumerate(tasks):
            means, _ = shrink_means(groups)
            row = []
            for number, (mean, group) in enumerate(zip(means, groups, strict=True)):
                key = index, number, group.tobytes()
                noise = drawn.setdefault(key, generator.normal(size=len(group)))
                row.append(mean + group.std(ddof=1) * noise)
            found[level].append(row)
    return found


def compute_true_shares(levels: Levels) -> NDArray[np.float64]:
    """Return the true shares: hyperparameters, code, residual, seeds, other differences, excess.

    The excess is the share of hyperparameters minus that of other differences.
    """
    sums = []
    for level in LEVELS:
        parts = [shrink_means(groups)[1] for groups in levels[level]]
        sums.append(
            FrameworkVariance(sum(one.between for one in parts), sum(one.within for one in parts))
        )
    shares = compute_variance_shares(*sums).array
    other = shares[1] + shares[2]
    return np.append(shares, [other, shares[0] - other])


def measure_coverage(levels: Levels, repeats: int, seed: int) -> NDArray[np.float64]:
    """Return the share of intervals with the truth, in the order of `compute_true_shares`."""
    generator, true = np.random.default_rng(seed), compute_true_shares(levels)
    inside = []
    for _ in range(repeats):
        found = decompose_spread(draw_scores(levels, generator), generator, resamples=400)
        low = np.append(found.low, [found.equal[1], found.excess[1]])
        high = np.append(found.high, [found.equal[2], found.excess[2]])
        inside.append((low <= true) & (true <= high))
    return np.mean(inside, axis=0)


def main() -> None:
    """Print a row of coverages for all tasks together, and for each alone."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tasks, levels = collect_scores(arguments.study)
    rows = {"all tasks": levels}
    for index, task in enumerate(tasks):
        rows[task] = {level: [items[index]] for level, items in levels.items()}
    print("| tasks | hyperparameters | other differences | difference of the two | seeds |")
    print("|---|---|---|---|---|")
    for name, scores in rows.items():
        found = measure_coverage(scores, arguments.repeats, arguments.seed)
        shown = " | ".join(f"{found[place]:.0%}" for place in (0, 4, 5, 3))
        print(f"| {name} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
