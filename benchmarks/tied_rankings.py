"""Verdicts on rankings in which all algorithms tie.

    python benchmarks/tied_rankings.py

prints the table in docs/reference/simulations.md: three frameworks, three algorithms of equal mean,
five seeds. Rates at which a gap's magnitude is called changed, by the test of gaps alone, the
former rule, and by the rule; at which the probability of the same order is below 5%, which reads as
another order; and at which it is below the value that 97.5% of tied algorithms exceed.
"""

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats import ranks
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.ranking import MAGNITUDE_CHANGED, judge_rankings

OPTIONS = VerdictOptions(resamples=1_000)


def draw_groups(
    rng: np.random.Generator, spread: tuple[float, ...], seeds: int
) -> list[ScoreGroup]:
    """Return nine groups of equal mean, with standard deviations by algorithm."""
    groups = []
    for framework, (algorithm, sd) in itertools.product(
        "abc", zip(("ppo", "sac", "td3"), spread, strict=True)
    ):
        scores = rng.normal(0, sd, seeds)
        cell = StudyCell("s", "task", algorithm, "original", "")
        groups.append(
            ScoreGroup(
                cell, framework, compute_moments(scores), 0.0, scores, (), seeds, seeds, (1,)
            )
        )
    return groups


def find_verdicts(groups: list[ScoreGroup]) -> tuple[bool, bool, bool, bool]:
    """Return the verdicts: magnitude changed by gaps, by the rule; order below 5%, below chance."""
    (item,) = judge_rankings(groups, OPTIONS)
    pairs = itertools.combinations(item.rankings, 2)
    gaps = [p for a, b in pairs for _, p in ranks.compute_gap_p(a.moments, b.moments).values()]
    return (
        min(gaps) < OPTIONS.alpha,
        item.verdict == MAGNITUDE_CHANGED,
        item.same_order < 0.05,
        item.same_order < item.chance.low,
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=500)
    repeats = parser.parse_args().repeats
    print("| deviations | seeds | changed, gaps alone | changed, the rule | ", end="")
    print("order below 5% | below chance |\n|---|---|---|---|---|---|")
    for spread, seeds in itertools.product(((1.0, 1.0, 1.0), (1.0, 2.0, 4.0)), (5, 20)):
        rng = np.random.default_rng(0)
        found = np.array([find_verdicts(draw_groups(rng, spread, seeds)) for _ in range(repeats)])
        cells = " | ".join(f"{rate:.1%}" for rate in found.mean(axis=0))
        name = ", ".join(f"{sd:g}" for sd in spread)
        print(f"| {name} | {seeds} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
