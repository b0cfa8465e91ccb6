"""Rates at which tests for any difference find one, in studies with and without differences.

    python benchmarks/omnibus_rates.py

prints the table in docs/reference/simulations.md: 32 settings of 3 frameworks with 5 seeds each,
and the rate at which some pair is significant after Holm's correction (the former rule), and at
which more pairs are significant without correction than in simulated studies.
"""

import argparse
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats import two_sample as pairwise
from parallax.analysis.stats.moments import compute_moments, stack_moments
from parallax.analysis.stats.multiple_testing import adjust_holm
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.overall import count_differences

SETTINGS, SEEDS, LEVEL, RESAMPLES = 32, 5, 0.05, 400
FRAMEWORKS = ("a", "b", "c")
PAIRS = list(itertools.combinations(range(3), 2))

Draw = Callable[[np.random.Generator, int], np.ndarray]


def draw_normal(rng: np.random.Generator, framework: int) -> np.ndarray:
    """Draw with the same standard deviation for all."""
    return rng.normal(0, 1, SEEDS)


def draw_unequal(rng: np.random.Generator, framework: int) -> np.ndarray:
    """Draw with standard deviations of 1, 2 and 4."""
    return rng.normal(0, 2.0**framework, SEEDS)


def draw_skewed(rng: np.random.Generator, framework: int) -> np.ndarray:
    """Draw with a long lower tail."""
    return -rng.lognormal(0, 1, SEEDS)


def draw_two_humped(rng: np.random.Generator, framework: int) -> np.ndarray:
    """Draw with one run in five that fails."""
    return np.where(rng.random(SEEDS) < 0.2, 0, 10) + rng.normal(0, 1, SEEDS)


def draw_shifted(rng: np.random.Generator, framework: int) -> np.ndarray:
    """Draw with the third framework one standard deviation apart."""
    return rng.normal(framework == 2, 1, SEEDS)


CASES: dict[str, Draw] = {
    "normal": draw_normal,
    "normal, deviations 1, 2 and 4": draw_unequal,
    "skewed": draw_skewed,
    "two-humped": draw_two_humped,
    "one framework apart by a deviation": draw_shifted,
}


def draw_study(draw: Draw, rng: np.random.Generator) -> list[list[ScoreGroup]]:
    """Return the groups of each setting."""
    cells = [StudyCell("s", f"task {i}", "ppo", "original", "") for i in range(SETTINGS)]
    return [[_make_group(cell, k, draw(rng, k)) for k in range(3)] for cell in cells]


def _make_group(cell: StudyCell, framework: int, scores: np.ndarray) -> ScoreGroup:
    size = len(scores)
    return ScoreGroup(
        cell, FRAMEWORKS[framework], compute_moments(scores), 0.0, scores, (), size, size, (1,)
    )


def find_differences(settings: list[list[ScoreGroup]], seed: int) -> tuple[bool, bool]:
    """Return whether Holm's correction and the count find a difference."""
    pairs = [(groups[i], groups[j]) for groups in settings for i, j in PAIRS]
    first, second = (stack_moments([pair[side].moments for pair in pairs]) for side in (0, 1))
    p = pairwise.compute_two_sided_p(pairwise.compute_contrast([first], [second]))
    count = count_differences(pairs, list(p), VerdictOptions(seed=seed, resamples=RESAMPLES))
    return bool((adjust_holm(p) < LEVEL).any()), count.p < LEVEL


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=600)
    repeats = parser.parse_args().repeats
    print("| returns | a pair after Holm's correction | more pairs than by chance |")
    print("|---|---|---|")
    for name, draw in CASES.items():
        rng = np.random.default_rng(0)
        found = np.array([find_differences(draw_study(draw, rng), i) for i in range(repeats)])
        print(
            f"| {name} | {' | '.join(f'{rate:.1%}' for rate in found.mean(axis=0))} |", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
