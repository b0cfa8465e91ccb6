"""Measures rliable's aggregates and profiles of the same scores; see benchmarks/intervals.py.

Usage: `rliable-venv/bin/python benchmarks/rliable_intervals.py RESAMPLES OUTPUT`.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rliable import library, metrics

from benchmarks.interval_cases import THRESHOLDS, make_scores, time_work


def compute_aggregates(values: np.ndarray) -> np.ndarray:
    """Return the four aggregates in our order."""
    names = ("median", "iqm", "mean", "optimality_gap")
    return np.array([getattr(metrics, f"aggregate_{name}")(values) for name in names])


def main(resamples: int, output: Path) -> None:
    """Measure both and write times and numbers as JSON."""
    scores = make_scores()

    def together(found: dict, ends: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        both = np.array([ends[name] for name in scores])
        return np.array([found[name] for name in scores]), both[:, 0], both[:, 1]

    def aggregates() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return together(*library.get_interval_estimates(scores, compute_aggregates, reps=resamples))

    def profiles() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return together(*library.create_performance_profile(scores, THRESHOLDS, reps=resamples))

    found = {"aggregates": time_work(aggregates, 1), "profiles": time_work(profiles, 1)}
    output.write_text(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
