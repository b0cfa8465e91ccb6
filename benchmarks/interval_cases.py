"""The scores and the stopwatch that both sides of benchmarks/intervals.py share."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

IMPLEMENTATIONS, SEEDS, TASKS = 9, 5, 8
THRESHOLDS = np.linspace(0, 2, 81)


def make_scores() -> dict[str, np.ndarray]:
    """Return float[seeds, tasks] per implementation: normal, with some runs near zero."""
    rng = np.random.default_rng(2026)
    scores = {}
    for i in range(IMPLEMENTATIONS):
        values = rng.normal(0.6 + 0.04 * i, 0.25, size=(SEEDS, TASKS))
        failed = rng.random((SEEDS, TASKS)) < 0.1
        scores[f"implementation {i}"] = np.where(failed, rng.random((SEEDS, TASKS)) / 10, values)
    return scores


def time_work(work: Callable[[], tuple[np.ndarray, ...]], repeats: int) -> dict[str, Any]:
    """Return the median time over repeats, the numbers, and whether all calls are bit-equal."""
    walls, cpus, results = [], [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        results.append(np.stack(work()))
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {
        "wall": float(np.median(walls)),
        "cpu": float(np.median(cpus)),
        "values": results[0].tolist(),
        "same_bits": all(result.tobytes() == results[0].tobytes() for result in results),
    }
