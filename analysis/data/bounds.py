"""Ends that no return of a task can pass."""

import math

from analysis.data.published import split_version

# By the tasks' rewards: 1 a step for 1,000 steps; 10 a step less penalties, and the end of the
# episode where the pole falls; less a distance and an effort.
_ENDS: dict[str, tuple[float, float]] = {
    "InvertedPendulum": (0.0, 1000.0),
    "InvertedDoublePendulum": (0.0, 10_000.0),
    "Reacher": (-math.inf, 0.0),
}


def known_bounds(env: str) -> tuple[float, float]:
    """Least and largest return that a task's rewards allow, of any version; infinite where none."""
    task, _ = split_version(env)
    return _ENDS.get(task, (-math.inf, math.inf))
