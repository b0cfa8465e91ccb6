"""LunarLander as a test: the terrain, the push it begins with, and how safely it comes down.

As in muPRL (`envs/lunarlander/` of testingautomated-usi/muPRL), on Gymnasium's own task: what a
reset draws by chance is dictated to it, and read back from the generator that drew it.
"""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FREE = (0, 1, 2, 8, 9, 10, 11)
"""Heights of the terrain that the task does not level for the helipad, of twelve."""
HEIGHTS, FORCES = 12, 2
SIZE = len(FREE) + FORCES
DRAWS_PER_STEP = 2
"""Random numbers that a step takes from the task's generator, whatever is done: its engines are
a little out of place."""
DRAWS_PER_RESET = HEIGHTS + FORCES + DRAWS_PER_STEP
_ALL = 2**128  # states of the generator, which goes back by going so many less on


class _Dictated:
    """A generator whose first draws are given; the others come from another one."""

    def __init__(self, given: list[Any], behind: np.random.Generator) -> None:
        self._given, self._behind = iter(given), behind

    def uniform(self, low: float, high: float, size: Any = None) -> Any:
        """What is given, as long as there is something."""
        found = next(self._given, None)
        return self._behind.uniform(low, high, size) if found is None else found


def draw(generator: np.random.Generator, n: int, size: int) -> Floats:
    """Configurations as the task draws them, float[n, 9]: 7 heights and 2 forces."""
    highest, strongest = _ranges()
    heights = generator.uniform(0, highest, (n, len(FREE)))
    return np.column_stack([heights, generator.uniform(-strongest, strongest, (n, FORCES))])


def begin(task: Any, configuration: Floats) -> NDArray[np.float32]:
    """Resets the task into a configuration; gives the observation."""
    heights, (x, y) = np.zeros(HEIGHTS), configuration[len(FREE) :]
    heights[list(FREE)] = configuration[: len(FREE)]
    own = task.np_random
    task.np_random = _Dictated([heights, float(x), float(y)], own)
    try:
        observation, _ = task.reset()
    finally:
        task.np_random = own
    return np.array(observation)


def read(task: Any) -> Floats:
    """The configuration of a task that has just been reset, float[9]."""
    highest, strongest = _ranges()
    before = copy.deepcopy(task.np_random)
    before.bit_generator.advance(_ALL - DRAWS_PER_RESET)
    heights = before.uniform(0, highest, size=HEIGHTS)
    return np.array([*heights[list(FREE)], *before.uniform(-strongest, strongest, FORCES)])


def skip(task: Any, steps: int) -> None:
    """Brings the task's generator to where so many steps would."""
    task.np_random.bit_generator.advance(DRAWS_PER_STEP * steps)


def quality(task: Any) -> float:
    """How far the lander is from leaving the screen, and from having crashed.

    1 less its distance from the middle, as a share of half the screen; no more than 1 - 1 / (1 + d)
    while a leg that is d away touches the ground; 0 where it crashed.
    """
    if task.game_over:
        return 0.0
    place, half = task.lander.position, _half_width()
    away = [_distance(place, leg.position) for leg in task.legs if leg.ground_contact]
    room = max(0.0, 1 - abs(place.x - half) / half)
    return float(min([room, *(1 - 1 / (1 + one) for one in away)]))


def landed(task: Any) -> bool:
    """Whether it has come to rest, wherever that is."""
    return not task.lander.awake and not task.game_over


def _distance(one: Any, other: Any) -> float:
    return float(np.hypot(one.x - other.x, one.y - other.y))


def _half_width() -> float:
    from gymnasium.envs.box2d.lunar_lander import SCALE, VIEWPORT_W

    return float(VIEWPORT_W / SCALE / 2)


def _ranges() -> tuple[float, float]:
    """Largest height of the terrain in m, and largest force in N."""
    from gymnasium.envs.box2d.lunar_lander import INITIAL_RANDOM, SCALE, VIEWPORT_H

    return VIEWPORT_H / SCALE / 2, INITIAL_RANDOM
