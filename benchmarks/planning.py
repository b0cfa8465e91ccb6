"""Checks that planned seeds decide as often as stated, and the precision of pilot studies.

    python benchmarks/planning.py

prints the table in docs/reference/simulations.md. Frameworks differ by some standard deviations,
equal in all pairs of a family; the needed seeds follow from the truth, and a pilot of five seeds
estimates them and their range.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from parallax.analysis.stats import effect_size_and_power as effects
from parallax.analysis.stats import two_sample as pairwise
from parallax.analysis.stats.moments import SampleMoments, compute_moments
from parallax.analysis.stats.multiple_testing import adjust_holm

PILOT, LEVEL, MARGIN = 5, 0.05, 0.01


def measure_decided_shares(gap: float, n: int, family: int, repeats: int) -> tuple[float, float]:
    """Return the share of pairs found different with n seeds: by Bonferroni, and after Holm."""
    rng = np.random.default_rng(1)
    alone, holm, count = 0, 0, 0
    while count < repeats:
        first, second = rng.normal(gap, 1, (family, n)), rng.normal(0, 1, (family, n))
        size = np.full(family, float(n))
        items = [
            SampleMoments(x.mean(axis=1), x.std(axis=1, ddof=1), size) for x in (first, second)
        ]
        p = pairwise.compute_two_sided_p(pairwise.compute_contrast(items[:1], items[1:]))
        agrees = np.ones(family, dtype=bool)
        if n < 8:
            agrees = np.array(
                [
                    pairwise.compute_permutation_p(a, b, np.random.default_rng(0)) < LEVEL
                    for a, b in zip(first, second, strict=True)
                ]
            )
        alone += int(((p < LEVEL / family) & agrees).sum())
        holm += int(((adjust_holm(p) < LEVEL) & agrees).sum())
        count += family
    return alone / count, holm / count


def simulate_pilots(gap: float, family: int, repeats: int) -> tuple[np.ndarray, float, float]:
    """Return pilots' estimates, how often their range has the true need, and its mean width."""
    rng = np.random.default_rng(2)
    true = compute_seeds_needed(gap, (1.0, 1.0), family)
    points, inside, width = [], 0, []
    for _ in range(repeats):
        first, second = rng.normal(gap, 1, PILOT), rng.normal(0, 1, PILOT)
        sds = float(first.std(ddof=1)), float(second.std(ddof=1))
        difference = float(first.mean() - second.mean())
        points.append(compute_seeds_needed(difference, sds, family))
        low, high = effects.estimate_seed_range(
            (compute_moments(first), compute_moments(second)), LEVEL / family, MARGIN, rng
        )
        inside += low <= true <= high
        width.append(np.log(min(high, 1000) / low))
    return np.array(points), inside / repeats, float(np.exp(np.mean(width)))


def compute_seeds_needed(gap: float, sds: tuple[float, float], family: int) -> float:
    """Return the seeds needed to decide, given these values."""
    values = (np.array([value]) for value in (gap, *sds, LEVEL / family, MARGIN))
    gaps, one, two, level, margin = values
    return float(effects.estimate_seeds_needed(gaps, (one, two), level, margin)[0])


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=400)
    repeats = parser.parse_args().repeats
    print("| difference, deviations | pairs | need | decided | after Holm | pilots say | ", end="")
    print("range holds the need | range, times |\n|---|---|---|---|---|---|---|---|")
    for family in (1, 24, 96):
        for gap in (3.0, 2.0, 1.0):
            n = compute_seeds_needed(gap, (1.0, 1.0), family)
            alone, holm = measure_decided_shares(gap, int(n), family, max(repeats, 10 * family))
            points, inside, width = simulate_pilots(gap, family, repeats)
            low, high = np.quantile(points, [0.1, 0.9], method="inverted_cdf")
            said = f"{low:.0f} to {high:.0f}" if np.isfinite(high) else f"{low:.0f} to > 1,000"
            cells = (f"{gap:g}", family, f"{n:.0f}", f"{alone:.0%}", f"{holm:.0%}", said)
            print(f"| {' | '.join(map(str, cells))} | {inside:.0%} | {width:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
