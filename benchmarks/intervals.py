"""CPU time of aggregates and performance profiles with intervals, compared with rliable.

Both sides get the same scores of 9 implementations, 5 seeds x 8 tasks, in the same run, on one
thread each, in separate processes. rliable 1.2.0 needs pandas < 3 and arch 7, so it has its own
virtual environment:

    python3.11 -m venv rliable-venv
    rliable-venv/bin/pip install "rliable==1.2.0" "pandas<3" "arch>=7,<8"
    python benchmarks/intervals.py --rliable rliable-venv/bin/python

With 50,000 resamples rliable takes some ten minutes; `--resamples 2000` gives a first impression.

An end of an interval is a percentile of random draws. It counts as within Monte-Carlo error if
rliable's lies between our percentiles four standard errors of the difference below and above.
"""

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

from benchmarks.interval_cases import (
    IMPLEMENTATIONS,
    SEEDS,
    TASKS,
    THRESHOLDS,
    make_scores,
    time_work,
)
from parallax.analysis.stats.aggregates import compute_aggregates, compute_profiles

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]
Side = dict[str, dict[str, Any]]


def main() -> int:
    """Measure both sides and print the comparison."""
    options = _make_parser().parse_args()
    if options.ours:
        Path(options.ours).write_text(json.dumps(measure_harness(options.resamples)))
        return 0
    reps = str(options.resamples)
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "ours.json", Path(folder) / "rliable.json"
        own = [sys.executable, __file__, "--resamples", reps, "--ours", str(first)]
        theirs = [options.rliable, str(FOLDER / "rliable_intervals.py"), reps, str(second)]
        for command in (own, theirs):
            subprocess.run(command, check=True, env={**os.environ, **ONE_THREAD})
        print_comparison(
            json.loads(first.read_text()), json.loads(second.read_text()), options.resamples
        )
    return 0


def measure_harness(resamples: int) -> Side:
    """Return times and numbers of our side, with brackets for the ends."""
    work = _make_work(resamples)
    found = {name: time_work(functools.partial(call, 0.95), 5) for name, call in work.items()}
    error = np.sqrt(2 * 0.025 * 0.975 / resamples)
    wider, narrower = (0.95 + sign * 2 * 4 * error for sign in (1, -1))
    for name, call in work.items():
        found[name]["brackets"] = [
            np.stack(call(level)[1:]).tolist() for level in (min(wider, 1.0), narrower)
        ]
    return found


def _make_work(resamples: int) -> dict[str, Callable[[float], Arrays]]:
    scores = {name: list(values.T) for name, values in make_scores().items()}

    def aggregates(level: float) -> Arrays:
        item = compute_aggregates(scores, np.random.default_rng(0), resamples, level)
        return item.point, item.low, item.high

    def profiles(level: float) -> Arrays:
        item = compute_profiles(scores, THRESHOLDS, np.random.default_rng(0), resamples, level)
        return item.share, item.low, item.high

    return {"aggregates": aggregates, "profiles": profiles}


def print_comparison(own: Side, theirs: Side, resamples: int) -> None:
    """Print the comparison as a Markdown table."""
    print(
        f"{IMPLEMENTATIONS} implementations x ({SEEDS} seeds x {TASKS} tasks), {resamples:,} "
        f"resamples; profiles at {len(THRESHOLDS)} thresholds\n\n"
        "| | ours, CPU s | rliable, CPU s | times less CPU | points apart, at most "
        "| ends apart, at most | ends within Monte-Carlo error |\n|---|---|---|---|---|---|---|"
    )
    for name, mine in own.items():
        other = theirs[name]
        differences = np.abs(np.array(mine["values"]) - np.array(other["values"]))
        wide, narrow = (np.array(ends) for ends in mine["brackets"])
        ends, slack = np.array(other["values"])[1:], 1e-6
        within = (ends >= np.minimum(wide, narrow) - slack) & (
            ends <= np.maximum(wide, narrow) + slack
        )
        print(
            f"| {name} | {mine['cpu']:.2f} | {other['cpu']:.1f} | {other['cpu'] / mine['cpu']:.0f} "
            f"| {differences[0].max():.0e} | {differences[1:].max():.4f} "
            f"| {within.sum()} of {within.size} |"
        )
    same = all(mine["same_bits"] for mine in own.values())
    print(f"\nOurs, five calls with one seed: {'the same bits' if same else 'DIFFERENT bits'}.")
    walls = ", ".join(
        f"{name} {mine['wall']:.2f} and {theirs[name]['wall']:.0f}" for name, mine in own.items()
    )
    print(f"Wall seconds, ours and rliable's: {walls}.")


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rliable", default="rliable-venv/bin/python", help="its Python")
    parser.add_argument("--resamples", type=int, default=50_000)
    parser.add_argument("--ours", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
