"""Parking of highway-env as a test: which bay is the goal, and where the car begins.

As in muPRL (`envs/parking/` of testingautomated-usi/muPRL), on highway-env's own task. There the
car always begins at the origin when it trains, while tests begin anywhere near it, as muPRL's do.
"""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIZE = 4
BAYS = 19
"""Goals that tests draw from, of the 28 there are."""
FURTHEST = (10.0, 5.0)
"""Largest coordinates that a car begins at in tests, in m; smallest are 0."""
STEPS = 100
"""Decisions that a car has to park in, as in muPRL; the task as it is now gives it 500."""


def draw(generator: np.random.Generator, n: int, size: int) -> Floats:
    """Configurations, float[n, 4]: the bay's number, the heading in turns, x and y in m."""
    bays = generator.integers(0, BAYS, n).astype(np.float64)
    places = generator.uniform(0, FURTHEST, (n, 2))
    return np.column_stack([bays, generator.uniform(0, 1, n), places])


def begin(task: Any, configuration: Floats) -> Floats:
    """Puts a task that has been reset into a configuration; gives the observation, flat."""
    bay, heading, *place = configuration
    car, lane = task.vehicle, task.road.network.lanes_list()[int(bay)]
    car.position, car.heading, car.speed = np.array(place), 2 * np.pi * heading, 0.0
    car.goal.position, car.goal.heading = lane.position(lane.length / 2, 0), lane.heading
    shown = gymnasium.spaces.flatten(task.observation_space, task.observation_type.observe())
    return np.array(shown)


def read(task: Any) -> Floats:
    """The configuration of a task that has just been reset, float[4]."""
    car, lanes = task.vehicle, task.road.network.lanes_list()
    away = [np.linalg.norm(lane.position(lane.length / 2, 0) - car.goal.position) for lane in lanes]
    return np.array([np.argmin(away), car.heading / (2 * np.pi), *car.position])


def quality(task: Any) -> float:
    """The share of the time to park in that is left.

    muPRL asks for it at the end, when it is smallest.
    """
    return float(1 - task.time * task.config["policy_frequency"] / STEPS)


def parked(task: Any) -> bool:
    """Whether the car stands in its bay."""
    seen = task.observation_type_parking.observe()
    return bool(task._is_success(seen["achieved_goal"], seen["desired_goal"]))
