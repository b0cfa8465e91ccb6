"""Coverage of the 95% intervals for a mean, by method, data and seeds.

    python benchmarks/interval_coverage.py

prints the table in docs/reference/simulations.md. Each share is of 10,000 samples, so its standard
error is at most 0.5 points, and 0.2 near 95%.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from parallax.analysis.stats.intervals import INTERVAL_METHODS, compute_interval_bounds

SIZES = (3, 5, 10, 20)
CHUNK = 500  # samples that share their bootstrap draws
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def draw_normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Draw normal returns."""
    return rng.normal(size=shape)


def draw_skewed(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Draw most runs near the best return, with a weak tail: a mirrored lognormal (sigma 1)."""
    return np.exp(0.5) - rng.lognormal(size=shape)


def draw_two_humped(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Draw four runs in five that learn, about 1000 +- 50; the fifth stays at about 100 +- 50."""
    learned = rng.random(shape) < 0.8
    return np.where(learned, 1000.0, 100.0) - 820 + rng.normal(0, 50, size=shape)


CASES: dict[str, Draw] = {
    "normal": draw_normal,
    "skewed": draw_skewed,
    "two-humped": draw_two_humped,
}


def measure_coverage(
    draw: Draw, n: int, method: str, repeats: int, seed: int = 0
) -> tuple[float, float]:
    """Return the share of intervals that contain the true mean, 0, and their mean width.

    Args:
        draw: Source of samples with mean 0.
        n: Seeds per sample.
        method: One of `parallax.analysis.stats.intervals.INTERVAL_METHODS`.
        repeats: Samples.
        seed: The same seed gives all methods the same samples.
    """
    samples, resamples = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    covered, width = 0, 0.0
    for start in range(0, repeats, CHUNK):
        columns = min(CHUNK, repeats - start)
        _, low, high = compute_interval_bounds(draw(samples, (n, columns)), method, resamples)
        covered += int(np.count_nonzero((low <= 0) & (high >= 0)))
        width += float((high - low).sum())
    return covered / repeats, width / repeats


def render_rows(repeats: int) -> list[str]:
    """Return the rows of the Markdown table."""
    lines = [
        f"| returns | seeds | {' | '.join(f'`{method}`' for method in INTERVAL_METHODS)} |",
        f"|---|---|{'---|' * len(INTERVAL_METHODS)}",
    ]
    for name, draw in CASES.items():
        for n in SIZES:
            found = [measure_coverage(draw, n, method, repeats) for method in INTERVAL_METHODS]
            widths = [width / found[0][1] for _, width in found]
            cells = [
                f"{share:.1%} ({width:.2f})"
                for (share, _), width in zip(found, widths, strict=True)
            ]
            lines.append(f"| {name} | {n} | {' | '.join(cells)} |")
            print(f"{name}, n = {n}: done", file=sys.stderr, flush=True)
    return lines


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10_000)
    print("\n".join(render_rows(parser.parse_args().repeats)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
