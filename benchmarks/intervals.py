"""CPU time of aggregates and performance profiles with intervals, beside rliable.

Both sides get the same scores of 9 implementations, 5 seeds x 8 tasks, in the same run, on one
thread each, in processes of their own. rliable 1.2.0 needs pandas < 3 and arch 7, so it has a
virtual environment of its own:

    python3.11 -m venv rliable-venv
    rliable-venv/bin/pip install "rliable==1.2.0" "pandas<3" "arch>=7,<8"
    python benchmarks/intervals.py --rliable rliable-venv/bin/python

With 50,000 resamples rliable takes over ten minutes; `--resamples 2000` is a first look.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
IMPLEMENTATIONS, SEEDS, TASKS, THRESHOLDS = 9, 5, 8, 81


def main() -> int:
    """Measures both sides and prints the comparison."""
    options = _parser().parse_args()
    if options.side:
        result = (_ours if options.side == "ours" else _rliable)(options)
        Path(options.output).write_text(json.dumps(result))
        return 0
    sides = {"ours": sys.executable, "rliable": options.rliable}
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for side, python in sides.items():
            output = Path(folder) / f"{side}.json"
            command = [python, __file__, "--side", side, "--output", str(output)]
            command += ["--resamples", str(options.resamples), "--rliable", options.rliable]
            subprocess.run(command, check=True, env=_environment())
            found[side] = json.loads(output.read_text())
    _report(found, options.resamples)
    return 0


def make_scores() -> dict[str, np.ndarray]:
    """float[seeds, tasks] per implementation: normal, with some runs near zero."""
    rng = np.random.default_rng(2026)
    scores = {}
    for i in range(IMPLEMENTATIONS):
        values = rng.normal(0.6 + 0.04 * i, 0.25, size=(SEEDS, TASKS))
        failed = rng.random((SEEDS, TASKS)) < 0.1
        scores[f"implementation {i}"] = np.where(failed, rng.random((SEEDS, TASKS)) / 10, values)
    return scores


def _ours(options: argparse.Namespace) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT))
    from analysis.stats.aggregates import aggregate
    from analysis.stats.profiles import profile

    scores = {name: list(values.T) for name, values in make_scores().items()}
    at = np.linspace(0, 2, THRESHOLDS)
    reps = options.resamples

    def aggregates() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        item = aggregate(scores, np.random.default_rng(0), reps)
        return item.point, item.low, item.high

    def profiles() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        item = profile(scores, at, np.random.default_rng(0), reps)
        return item.share, item.low, item.high

    return {"aggregates": _measure(aggregates, 5), "profiles": _measure(profiles, 5)}


def _rliable(options: argparse.Namespace) -> dict[str, Any]:
    from rliable import library, metrics

    scores, at = make_scores(), np.linspace(0, 2, THRESHOLDS)
    names = list(scores)

    def four(values: np.ndarray) -> np.ndarray:
        return np.array(
            [
                metrics.aggregate_median(values),
                metrics.aggregate_iqm(values),
                metrics.aggregate_mean(values),
                metrics.aggregate_optimality_gap(values),
            ]
        )

    def aggregates() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        points, ends = library.get_interval_estimates(scores, four, reps=options.resamples)
        both = np.array([ends[name] for name in names])
        return np.array([points[name] for name in names]), both[:, 0], both[:, 1]

    def profiles() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        share, ends = library.create_performance_profile(scores, at, reps=options.resamples)
        both = np.array([ends[name] for name in names])
        return np.array([share[name] for name in names]), both[:, 0], both[:, 1]

    return {"aggregates": _measure(aggregates, 1), "profiles": _measure(profiles, 1)}


def _measure(work: Callable[[], tuple[np.ndarray, ...]], repeats: int) -> dict[str, Any]:
    """Median time over repeats, the numbers, and whether two calls give the same bits."""
    walls, cpus, results = [], [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        results.append(np.stack(work()))
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    same = all(result.tobytes() == results[0].tobytes() for result in results)
    return {
        "wall": float(np.median(walls)),
        "cpu": float(np.median(cpus)),
        "values": results[0].tolist(),
        "same_bits": same if repeats > 1 else None,
    }


def _report(found: dict[str, Any], resamples: int) -> None:
    print(
        f"{IMPLEMENTATIONS} implementations x ({SEEDS} seeds x {TASKS} tasks), "
        f"{resamples:,} resamples; profiles at {THRESHOLDS} thresholds\n"
    )
    print("| | ours, s | CPU s | rliable, s | CPU s | times less CPU | points apart | ends apart |")
    print("|---|---|---|---|---|---|---|---|")
    for name in ("aggregates", "profiles"):
        ours, theirs = found["ours"][name], found["rliable"][name]
        apart = np.abs(np.array(ours["values"]) - np.array(theirs["values"]))
        numbers = [ours["wall"], ours["cpu"], theirs["wall"], theirs["cpu"]]
        cells = [f"{number:.2f}" for number in numbers]
        cells.append(f"{theirs['cpu'] / ours['cpu']:.0f}")
        cells += [f"{apart[0].max():.1e}", f"{apart[1:].max():.4f}"]
        print(f"| {name} | {' | '.join(cells)} |")
    same = all(found["ours"][name]["same_bits"] for name in ("aggregates", "profiles"))
    print(f"\nOurs, five calls with one seed: {'the same bits' if same else 'DIFFERENT bits'}.")


def _environment() -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, "1")}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rliable", required=True, help="Python with rliable 1.2.0")
    parser.add_argument("--resamples", type=int, default=50_000)
    parser.add_argument("--side", choices=("ours", "rliable"), help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
