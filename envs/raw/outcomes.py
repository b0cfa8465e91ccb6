"""What a step of a MuJoCo task leads to, as formulas over arrays of copies.

Each formula keeps the order of operations and the number types of the task's class in
Gymnasium 1.4, so that results agree with it to the last digit; what the quantities mean is
on the tasks' pages in Gymnasium's documentation. All take the state before and after the
step, the actions taken (costs are computed in their own number type) and the seconds per step.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Flags = NDArray[np.bool_]
State = Mapping[str, NDArray[np.float64]]
"""What a task looks at in its simulation, by name, each float64[N, size]."""
Outcome = tuple[NDArray[np.float64], NDArray[np.float64], Flags]
"""Observations float64[N, observations], rewards float64[N], terminated bool[N]."""


def run(
    before: State, after: State, actions: Array, dt: float, *, hidden: int, effort: float
) -> Outcome:
    """HalfCheetah and Swimmer: forward speed minus effort, without an early end.

    The first `hidden` positions are not observed.
    """
    rewards = _speed(before["qpos"], after["qpos"], dt) - _effort(actions, effort)
    return _observe(after, hidden), rewards, np.zeros(len(actions), np.bool_)


def walk(
    before: State,
    after: State,
    actions: Array,
    dt: float,
    *,
    healthy: Callable[[State], Flags],
    fallen_bonus: float,
) -> Outcome:
    """Hopper and Walker2d: as `run`, plus 1 while healthy; a fall ends the episode."""
    upright = healthy(after)
    bonus = np.where(upright, 1.0, fallen_bonus)
    rewards = _speed(before["qpos"], after["qpos"], dt) + bonus - _effort(actions, 1e-3)
    return _observe(after, hidden=1, speed_limit=10), rewards, ~upright


def hopper_healthy(state: State) -> Flags:
    """Above 0.7 m, upright within 0.2 rad, and nothing beyond 100."""
    height, angle = state["qpos"][:, 1], state["qpos"][:, 2]
    rest = np.concatenate([state["qpos"][:, 2:], state["qvel"]], axis=1)
    bounded: Flags = (np.abs(rest) < 100).all(axis=1)
    return bounded & (height > 0.7) & (height < np.inf) & (np.abs(angle) < 0.2)


def walker_healthy(state: State) -> Flags:
    """Between 0.8 and 2 m, upright within 1 rad."""
    height, angle = state["qpos"][:, 1], state["qpos"][:, 2]
    return (height > 0.8) & (height < 2.0) & (np.abs(angle) < 1.0)


def ant(before: State, after: State, actions: Array, dt: float, *, contact: bool) -> Outcome:
    """Ant: the torso's speed plus 1 minus effort; `contact` adds contact forces (v5)."""
    observations = _observe(after, hidden=2)
    height = after["qpos"][:, 2]
    finite = np.isfinite(after["qpos"]).all(axis=1) & np.isfinite(after["qvel"]).all(axis=1)
    upright = finite & (height >= 0.2) & (height <= 1.0)
    bonus, costs = np.ones(len(actions)), _effort(actions, 0.5)
    if contact:
        forces = np.clip(after["contact"], -1.0, 1.0)
        bonus, costs = np.where(upright, 1.0, 0.0), costs + _effort(forces, 5e-4)
        observations = np.concatenate([observations, forces[:, 6:]], axis=1)  # not the world's
    return observations, _speed(before["torso"], after["torso"], dt) + bonus - costs, ~upright


def pendulum(
    before: State, after: State, actions: Array, dt: float, *, fallen_bonus: float
) -> Outcome:
    """InvertedPendulum: 1 while the pole stands within 0.2 rad."""
    observations = _observe(after, hidden=0)
    fallen = ~np.isfinite(observations).all(axis=1) | (np.abs(observations[:, 1]) > 0.2)
    return observations, np.where(fallen, fallen_bonus, 1.0), fallen


def double_pendulum(
    before: State,
    after: State,
    actions: Array,
    dt: float,
    *,
    fallen_bonus: float,
    constraints: int,
) -> Outcome:
    """InvertedDoublePendulum: 10 minus distance and swing, while the tip is above 1 m."""
    angles = np.ascontiguousarray(after["qpos"][:, 1:])
    speeds = np.clip(after["qvel"], -10, 10)
    forces = np.clip(after["constraint"], -10, 10)[:, :constraints]
    fallen = after["tip"][:, 2] <= 1
    # One number at a time, as Gymnasium: an array's square can differ in the last digit.
    distance = np.array([0.01 * x**2 + (y - 2) ** 2 for x, _, y in after["tip"]])
    swing = np.array([1e-3 * v**2 + 5e-3 * w**2 for _, v, w in after["qvel"]])
    rewards = np.where(fallen, fallen_bonus, 10.0) - distance - swing
    parts = [after["qpos"][:, :1], np.sin(angles), np.cos(angles), speeds, forces]
    return np.concatenate(parts, axis=1), rewards, fallen


def reacher(before: State, after: State, actions: Array, dt: float, *, lagging: bool) -> Outcome:
    """Reacher: minus distance to the target and effort; `lagging` pays the old distance (v4)."""
    gap = after["tip"] - after["target"]
    paid = before["tip"] - before["target"] if lagging else gap
    # vecdot adds up as the norm of a single vector does; a norm along an axis does not.
    rewards = -np.sqrt(np.vecdot(paid, paid)) - _effort(actions, 1.0)
    angles = np.ascontiguousarray(after["qpos"][:, :2])
    positions, speeds = after["qpos"][:, 2:], after["qvel"][:, :2]
    parts = [np.cos(angles), np.sin(angles), positions, speeds, gap if lagging else gap[:, :2]]
    return np.concatenate(parts, axis=1), rewards, np.zeros(len(actions), np.bool_)


def _speed(before: Array, after: Array, dt: float) -> Array:
    return (after[:, 0] - before[:, 0]) / dt


def _effort(values: Array, weight: float) -> Array:
    effort: Array = weight * np.square(values).sum(axis=1)
    return effort


def _observe(state: State, hidden: int, speed_limit: float | None = None) -> Array:
    speeds = state["qvel"]
    if speed_limit is not None:
        speeds = np.clip(speeds, -speed_limit, speed_limit)
    return np.concatenate([state["qpos"][:, hidden:], speeds], axis=1)
