"""Error rate and cost of the stopping rule of `parallax study plan --sequential`.

    python benchmarks/stopping_rule.py

prints the tables in docs/reference/simulations.md: how often two frameworks without a difference
are called different, how often two that differ by the margin are called equivalent, and how many
seeds it takes to find a difference; for comparison, tests at each check without correction, and
once at the end.
"""

import argparse
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

from benchmarks.interval_coverage import Draw, draw_normal, draw_skewed, draw_two_humped
from parallax.analysis.stats import two_sample as pairwise
from parallax.analysis.stats.moments import SampleMoments
from parallax.analysis.stats.multiple_testing import (
    compute_one_sided_sequential_p,
    compute_sequential_p,
)

BATCH, MOST, ALPHA = 5, 30, 0.05
SIZES = tuple(range(BATCH, MOST + 1, BATCH))


def draw_wide(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Draw normal scores with four times the standard deviation."""
    return 4 * draw_normal(rng, shape)


NULLS: dict[str, tuple[Draw, Draw]] = {
    "normal": (draw_normal, draw_normal),
    "normal, deviations 1 and 4": (draw_normal, draw_wide),
    "skewed": (draw_skewed, draw_skewed),
    "two-humped": (draw_two_humped, draw_two_humped),
}

# Equal means of unequal returns: none of these tests is made for this with few seeds.
SHAPES: dict[str, tuple[Draw, Draw]] = {
    "skewed against normal": (draw_skewed, draw_normal),
    "two-humped against steady": (draw_two_humped, lambda rng, shape: 50 * draw_normal(rng, shape)),
}


def compute_batch_moments(samples: np.ndarray) -> SampleMoments:
    """Return moments with float[checks, repeats] of samples float[seeds, repeats]."""
    means = np.array([samples[:size].mean(axis=0) for size in SIZES])
    sds = np.array([samples[:size].std(axis=0, ddof=1) for size in SIZES])
    return SampleMoments(means, sds, np.broadcast_to(np.array(SIZES, float)[:, None], means.shape))


def compute_contrasts(
    first: np.ndarray, second: np.ndarray
) -> tuple[pairwise.MeanContrast, pairwise.MeanContrast]:
    """Return the contrasts at each check, with Welch's degrees of freedom and with the rule's."""
    items = compute_batch_moments(first), compute_batch_moments(second)
    item = pairwise.compute_contrast([items[0]], [items[1]])
    return item, pairwise.use_smallest_degrees_of_freedom(item, items)


def compute_permutation_p(first: np.ndarray, second: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return group-sequential p-values of permutation tests for some columns, 1 for others."""
    found = np.ones(first.shape[1])
    for i in np.flatnonzero(rows):
        rng = np.random.default_rng(0)
        p = [pairwise.compute_permutation_p(first[:n, i], second[:n, i], rng) for n in SIZES]
        found[i] = float(compute_sequential_p(np.array(p), SIZES, MOST))
    return found


def measure_false_positives(draws: tuple[Draw, Draw], repeats: int) -> list[float]:
    """Return rates of false `different`: once, uncorrected, Welch alone, the whole rule."""
    rng = np.random.default_rng(1)
    first, second = (draw(rng, (MOST, repeats)) for draw in draws)
    p, careful = (pairwise.compute_two_sided_p(item) for item in compute_contrasts(first, second))
    welch, t = (compute_sequential_p(values, SIZES, MOST) < ALPHA for values in (p, careful))
    both = t & (compute_permutation_p(first, second, t) < ALPHA)
    rates = (p[-1] < ALPHA, (p < ALPHA).any(axis=0), welch, both)
    return [float(rate.mean()) for rate in rates]


def measure_false_equivalences(draws: tuple[Draw, Draw], repeats: int) -> list[float]:
    """Return rates of `equivalent` if the difference is the margin: once, uncorrected, the rule."""
    rng = np.random.default_rng(2)
    first, second = (draw(rng, (MOST, repeats)) for draw in draws)
    margin = 1.2 * np.sqrt(first.var() + second.var()) / np.sqrt(2)
    p, careful = (
        pairwise.compute_equivalence_p(item, margin)
        for item in compute_contrasts(first + margin, second)
    )
    guarded = compute_one_sided_sequential_p(careful, SIZES, MOST) < ALPHA
    return [float(rate.mean()) for rate in (p[-1] < ALPHA, (p < ALPHA).any(axis=0), guarded)]


def measure_family_rate(repeats: int, scales: tuple[float, ...]) -> float:
    """Return the rate of any false `different` in 3 frameworks x 8 tasks, after Holm."""
    rng = np.random.default_rng(3)
    p = []
    for _ in range(8):
        items = [scale * draw_normal(rng, (MOST, repeats)) for scale in scales]
        for first, second in itertools.combinations(items, 2):
            _, item = compute_contrasts(first, second)
            p.append(compute_sequential_p(pairwise.compute_two_sided_p(item), SIZES, MOST))
    # Holm's procedure rejects something if and only if the smallest p-value passes Bonferroni's.
    return float((np.min(p, axis=0) * len(p) < ALPHA).mean())


def measure_power(gap: float, repeats: int) -> tuple[float, float, float]:
    """Return shares found once at the end and by the rule, and the rule's mean seeds."""
    rng = np.random.default_rng(4)
    first, second = (draw_normal(rng, (MOST, repeats)) for _ in range(2))
    p, careful = (
        pairwise.compute_two_sided_p(item) for item in compute_contrasts(first + gap, second)
    )
    by_batch = [
        compute_sequential_p(careful[: k + 1], SIZES[: k + 1], MOST) < ALPHA
        for k in range(len(SIZES))
    ]
    stops = np.where(by_batch[-1], np.argmax(by_batch, axis=0), len(SIZES) - 1)
    seeds = np.array(SIZES)[stops].mean()
    return float((p[-1] < ALPHA).mean()), float(by_batch[-1].mean()), float(seeds)


def _print_table(headings: tuple[str, ...], cases: dict, rates: Callable, repeats: int) -> None:
    print(f"| returns | {' | '.join(headings)} |\n|{'---|' * (len(headings) + 1)}")
    for name, draws in cases.items():
        cells = " | ".join(f"{rate:.1%}" for rate in rates(draws, repeats))
        print(f"| {name} | {cells} |", flush=True)
    print()


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10_000)
    repeats = parser.parse_args().repeats
    once, unguarded, rule = "once, at 30", "six checks, uncorrected", "the rule"
    four = (once, unguarded, "level spent, Welch", rule)
    _print_table(four, NULLS, measure_false_positives, repeats)
    _print_table((once, unguarded, rule), NULLS, measure_false_equivalences, repeats)
    for scales in ((1, 1, 1), (1, 2, 4)):
        print(
            f"Any of 24 pairs, deviations {scales}: {measure_family_rate(repeats, scales):.1%}\n",
            flush=True,
        )
    _print_table(four, SHAPES, measure_false_positives, repeats // 10)
    print("| difference, deviations | found once, at 30 | found by the rule | seeds, mean |")
    print("|---|---|---|---|")
    for gap in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0):
        single, found, seeds = measure_power(gap, repeats)
        print(f"| {gap:g} | {single:.1%} | {found:.1%} | {seeds:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
