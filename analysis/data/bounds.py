"""Ends that no return of a task can pass."""

import math

from analysis.data.published import split_version

# By the tasks' rewards: 1 a step for 1,000 steps; 10 a step less penalties, and the end of the
# episode where the pole falls; less a distance and an effort; for 200 steps less the squares of an
# angle up to pi, of a tenth of a speed up to 8 and of a thousandth of a torque up to 2; 1 a step.
_ENDS: dict[str, tuple[float, float]] = {
    "InvertedPendulum": (0.0, 1000.0),
    "InvertedDoublePendulum": (0.0, 10_000.0),
    "Reacher": (-math.inf, 0.0),
    "Pendulum": (-200 * (math.pi**2 + 0.1 * 8**2 + 0.001 * 2**2), 0.0),
    "CartPole": (0.0, 500.0),
}


def known_bounds(env: str) -> tuple[float, float]:
    """Least and largest return that a task's rewards allow, of any version; infinite where none."""
    task, _ = split_version(env)
    return _ENDS.get(task, (-math.inf, math.inf))
