"""Rates at which two frameworks that differ by the margin or more are called equivalent.

    python benchmarks/false_equivalence.py

prints the table in docs/reference/simulations.md: for each shape of returns and number of seeds the
rate by two one-sided tests alone, the former rule, and by the rule, which also bounds the effect of
possible unobserved failures on the means. Each case has a difference of at least the margin.
Then, for the same cases, the rate at any of several checks: without correction, and by the stopping
rule, which has the same bound.
"""

import argparse
import dataclasses
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.stats import two_sample as pairwise
from parallax.analysis.stats.moments import compute_moments
from parallax.analysis.verdicts.groups import ScoreGroup
from parallax.analysis.verdicts.margins import (
    compute_margin,
    compute_unobserved_p,
    find_score_range,
)
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.sequential import SequentialSchedule, judge_sequentially

# PPO on InvertedPendulum: scores from 0 to 1000, 6.37 by random actions, 980 published.
CELL = StudyCell("simulated", "InvertedPendulum-v4", "ppo", "original", "")
OPTIONS = VerdictOptions()
SEEDS = (3, 5, 10, 20, 30, 40, 60)
PLANS = (SequentialSchedule(5, 30), SequentialSchedule(10, 60), SequentialSchedule(20, 120))
LEVEL = 0.05
# The same p-values of equivalence, without the permutations that "different" would need.
QUICK = dataclasses.replace(OPTIONS, alpha=1e-300)

Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Case:
    """Two frameworks whose true means are at least the margin apart.

    Attributes:
        name: Description of the two.
        first: Draws returns of a number of runs.
        second: The same for the other.
    """

    name: str
    first: Draw
    second: Draw


def make_normal_draw(mean: float, sd: float) -> Draw:
    """Draw normal returns."""
    return lambda rng, n: rng.normal(mean, sd, n)


def make_failing_draw(
    rate: float, good: float = 1000.0, bad: float = 5.0, noise: float = 0.0
) -> Draw:
    """Draw runs that reach `good`, except for a share that ends at `bad`."""
    return lambda rng, n: (
        np.where(rng.random(n) < rate, bad, good) - np.abs(rng.normal(0, 1, n)) * noise
    )


def make_tail_draw(top: float, mean_loss: float, shape: float) -> Draw:
    """Draw returns near the top with a long lognormal tail below, none under 0."""
    scale = mean_loss / np.exp(shape**2 / 2)
    return lambda rng, n: np.maximum(0.0, top - scale * rng.lognormal(0, shape, n))


def make_constant_draw(value: float) -> Draw:
    """Draw the same return each time."""
    return lambda _, n: np.full(n, value)


def list_margin_cases(margin: float) -> tuple[Case, ...]:
    """Return every case, from the usual to the difficult."""
    steady = make_constant_draw(1000.0)
    best = make_failing_draw(0.0, noise=10)
    return (
        Case("normal, deviation 20", make_normal_draw(700, 20), make_normal_draw(700 - margin, 20)),
        Case(
            "normal, deviations 20 and 80",
            make_normal_draw(700, 20),
            make_normal_draw(700 - margin, 80),
        ),
        Case("skewed", make_tail_draw(1000, 40, 1), make_tail_draw(1000 - margin, 40, 1)),
        Case("skewed against steady", steady, make_tail_draw(1000, 1.15 * margin, 1.5)),
        Case("two-humped, 10% fail", steady, make_failing_draw(0.1)),
        Case("two-humped, 20% fail", steady, make_failing_draw(0.2)),
        Case("two-humped, 30% fail", steady, make_failing_draw(0.3)),
        Case("two-humped with noise, 10% fail", best, make_failing_draw(0.1, noise=10)),
        Case("15% against 5% fail", make_failing_draw(0.05), make_failing_draw(0.15)),
        Case("half fail half way", steady, make_failing_draw(0.2, bad=500.0)),
        Case("10% are lucky", make_constant_draw(20.0), make_failing_draw(0.1, 20.0, 1000.0)),
        Case(
            "uniform against steady",
            make_constant_draw(900.0),
            lambda rng, n: rng.uniform(603, 1000, n),
        ),
        Case("5% fail, and lower by half", steady, make_failing_draw(0.05, 1000 - margin / 2)),
        Case("constant", steady, make_constant_draw(1000.0 - margin)),
    )


def list_equal_cases() -> tuple[Case, ...]:
    """Return cases without a difference, or a small one, which show the cost of the bound."""
    steady, wide = make_failing_draw(0.0, 960.0, noise=20), make_normal_draw(800, 60)
    return (
        Case("no difference, constant", make_constant_draw(1000.0), make_constant_draw(1000.0)),
        Case("no difference, near the top", steady, steady),
        Case("no difference, normal, deviation 60", wide, wide),
        Case("no difference, 2% fail", make_failing_draw(0.02), make_failing_draw(0.02)),
        Case("2% fail against none", make_constant_draw(1000.0), make_failing_draw(0.02)),
    )


def make_group(name: str, scores: np.ndarray) -> ScoreGroup:
    """Return a framework's scores."""
    n = len(scores)
    return ScoreGroup(CELL, name, compute_moments(scores), 0.0, scores, (), n, n, (1,))


def measure_rates(case: Case, n: int, repeats: int) -> tuple[float, float]:
    """Return the share called equivalent by two one-sided tests alone, and by the rule."""
    rng = np.random.default_rng((n, zlib.crc32(case.name.encode())))
    before = after = 0
    for _ in range(repeats):
        pair = make_group("a", case.first(rng, n)), make_group("b", case.second(rng, n))
        if _compute_equivalence_p(*pair) >= LEVEL:
            continue
        before += 1
        ends, margin = find_score_range(pair, OPTIONS), compute_margin(pair, OPTIONS).size
        after += compute_unobserved_p(pair, ends, margin) < LEVEL
    return before / repeats, after / repeats


def _compute_equivalence_p(first: ScoreGroup, second: ScoreGroup) -> float:
    item = pairwise.compute_contrast([first.moments], [second.moments])
    return float(
        pairwise.compute_equivalence_p(item, compute_margin((first, second), OPTIONS).size)
    )


def measure_sequential_rates(
    case: Case, schedule: SequentialSchedule, repeats: int
) -> tuple[float, float]:
    """Return the share called equivalent at any check: by the tests alone, and by the rule."""
    rng = np.random.default_rng((schedule.max_seeds, zlib.crc32(case.name.encode())))
    before = after = 0
    for _ in range(repeats):
        scores = case.first(rng, schedule.max_seeds), case.second(rng, schedule.max_seeds)
        before += any(
            _compute_equivalence_p(make_group("a", scores[0][:n]), make_group("b", scores[1][:n]))
            < LEVEL
            for n in schedule.list_sizes(schedule.max_seeds)
        )
        pair = make_group("a", scores[0]), make_group("b", scores[1])
        after += judge_sequentially(pair, QUICK, schedule)[0].p_equivalence < LEVEL
    return before / repeats, after / repeats


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2_000)
    parser.add_argument(
        "--sequential", type=int, default=300, help="pairs that are checked repeatedly"
    )
    options = parser.parse_args()
    margin = compute_margin((make_group("a", np.ones(2)),), OPTIONS).size
    print(
        f"Before / by the rule, {options.repeats:,} pairs each, margin {margin:.1f} of 0 to 1000\n"
    )
    worst = _print_table(measure_rates, SEEDS, [f"n = {n}" for n in SEEDS], options.repeats)
    _print_worst_rate(worst, options.repeats)
    print(
        f"\nChecked repeatedly: alone / by the stopping rule, {options.sequential:,} pairs each\n"
    )
    heads = [f"every {plan.batch} up to {plan.max_seeds}" for plan in PLANS]
    worst = _print_table(measure_sequential_rates, PLANS, heads, options.sequential)
    _print_worst_rate(worst, options.sequential)
    return 0


At = TypeVar("At")


def _print_table(
    rate: Callable[[Case, At, int], tuple[float, float]],
    at: Sequence[At],
    heads: Sequence[str],
    repeats: int,
) -> float:
    """Print a table, and return the largest rate of false equivalence by the rule."""
    margin = compute_margin((make_group("a", np.ones(2)),), OPTIONS).size
    print(f"| returns | {' | '.join(heads)} |")
    print(f"|{'---|' * (len(heads) + 1)}")
    worst = 0.0
    for case in list_margin_cases(margin):
        found = [rate(case, item, repeats) for item in at]
        worst = max(worst, *(after for _, after in found))
        cells = " | ".join(f"{before:.0%} / {after:.1%}" for before, after in found)
        print(f"| {case.name} | {cells} |", flush=True)
    for case in list_equal_cases():
        found = [rate(case, item, max(repeats // 10, 100)) for item in at]
        cells = " | ".join(f"{before:.0%} / {after:.0%}" for before, after in found)
        print(f"| {case.name} | {cells} |", flush=True)
    return worst


def _print_worst_rate(worst: float, repeats: int) -> None:
    error = (LEVEL * (1 - LEVEL) / repeats) ** 0.5
    print(f"\nLargest rate of a false word by the rule: {worst:.1%}, standard error {error:.1%}")


if __name__ == "__main__":
    sys.exit(main())
