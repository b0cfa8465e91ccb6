"""Tasks that need memory: classic tasks without velocities, and a cue to remember.

`parallax.envs.tasks.make_task_env` registers them by name: `CartPoleHidden-v0`,
`PendulumHidden-v0`, and `MemoryChain-<length>-v0` for any length.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv
from numpy.typing import NDArray

Observation = NDArray[np.float32]

_CHAIN_NAME = re.compile(r"MemoryChain-(\d{1,9})-v0")


class _PartialObservation:
    """Mixin that shows some dimensions of the observations of the next base class."""

    shown: ClassVar[list[int]]

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        task: Any = self
        low, high = task.observation_space.low, task.observation_space.high
        task.observation_space = gymnasium.spaces.Box(
            low[self.shown], high[self.shown], dtype=np.float32
        )

    def reset(self, **arguments: Any) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        task: Any = super()
        observation, info = task.reset(**arguments)
        return observation[self.shown], info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        task: Any = super()
        observation, *rest = task.step(action)
        return (observation[self.shown], *rest)


class CartPoleHidden(_PartialObservation, CartPoleEnv):
    """CartPole that shows position and angle, in m and rad, and no velocities."""

    shown: ClassVar[list[int]] = [0, 2]


class PendulumHidden(_PartialObservation, PendulumEnv):
    """Pendulum that shows the cosine and sine of its angle, and no velocity."""

    shown: ClassVar[list[int]] = [0, 1]


class MemoryChain(gymnasium.Env[Observation, Any]):
    """Memory task: a cue at the first step, a query `length - 1` steps later.

    An observation has two numbers: the cue (-1 or 1 at the first step, then 0), and 1 at the query
    step or 0 at the others. The action at the query step ends the episode; its reward is 1 if it
    names the cue (0 for -1, 1 for 1), or -1. Rewards of all other actions are 0. With memory, the
    mean return can be 1; without, it is 0, except for length 1, where cue and query coincide.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, length: int) -> None:
        """Make the task.

        Args:
            length: Steps of an episode, at least 1.

        Raises:
            ValueError: `length` is less than 1.
        """
        if length < 1:
            raise ValueError(f"a chain of length {length} has no step; use 1 or more")
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(2)
        self._length = length
        self._cue = 0
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw a cue."""
        super().reset(seed=seed)
        self._cue, self._steps = int(self.np_random.integers(2)), 0
        return self._make_observation(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        self._steps += 1
        is_over, reward = self._steps >= self._length, 0.0
        if is_over:
            reward = 1.0 if int(action) == self._cue else -1.0
        return self._make_observation(), reward, is_over, False, {}

    def _make_observation(self) -> Observation:
        cue = 2.0 * self._cue - 1.0 if self._steps == 0 else 0.0
        is_query = float(self._steps == self._length - 1)
        return np.array([cue, is_query], np.float32)


_PARTIAL_TASKS: Mapping[str, tuple[str, int]] = {
    "CartPoleHidden-v0": ("CartPoleHidden", 500),
    "PendulumHidden-v0": ("PendulumHidden", 200),
}
"""Class and time limit by name; the limits are those of the original tasks."""


def register_memory_task(env_id: str) -> None:
    """Register a task with Gymnasium by its name, if it is one of these."""
    if env_id in gymnasium.registry:
        return
    if env_id in _PARTIAL_TASKS:
        name, limit = _PARTIAL_TASKS[env_id]
        gymnasium.register(
            env_id, entry_point=f"parallax.envs.memory_tasks:{name}", max_episode_steps=limit
        )
    elif chain := _CHAIN_NAME.fullmatch(env_id):
        length = int(chain[1])
        gymnasium.register(
            env_id,
            entry_point="parallax.envs.memory_tasks:MemoryChain",
            max_episode_steps=length + 1,  # never reached: episodes end before
            kwargs={"length": length},
        )
