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

_CHAIN = re.compile(r"MemoryChain-(\d{1,9})-v0")


class _PartialObservation:
    """Mixin that shows some dimensions of the observations of the next base class."""

    seen: ClassVar[tuple[int, ...]]

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        made: Any = self
        whole, seen = made.observation_space, list(self.seen)
        made.observation_space = gymnasium.spaces.Box(
            whole.low[seen], whole.high[seen], dtype=np.float32
        )

    def reset(self, **arguments: Any) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        behind: Any = super()
        observation, info = behind.reset(**arguments)
        return observation[list(self.seen)], info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        behind: Any = super()
        observation, *rest = behind.step(action)
        return (observation[list(self.seen)], *rest)


class CartPoleHidden(_PartialObservation, CartPoleEnv):
    """CartPole that shows position and angle, in m and rad, and no velocities."""

    seen = (0, 2)


class PendulumHidden(_PartialObservation, PendulumEnv):
    """Pendulum that shows the cosine and sine of its angle, and no velocity."""

    seen = (0, 1)


class MemoryChain(gymnasium.Env[Observation, Any]):
    """Memory task: a cue at the first step, a query `length - 1` steps later.

    Observations are the cue, -1 or 1 at the first step and else 0, and whether this is the query
    step, 1 or 0. The action at the query is worth 1 if it names the cue (0 for -1, 1 for 1),
    and else -1; it ends the episode. All other actions are worth 0. Without memory, the mean return
    is 0 for any length but 1, which shows the cue with the query; with memory it is 1.
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
        self._taken = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw a cue."""
        super().reset(seed=seed)
        self._cue, self._taken = int(self.np_random.integers(2)), 0
        return self._observe_cue(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        self._taken += 1
        ends = self._taken >= self._length
        right = 1.0 if int(action) == self._cue else -1.0
        return self._observe_cue(), right if ends else 0.0, ends, False, {}

    def _observe_cue(self) -> Observation:
        cue = 2.0 * self._cue - 1.0 if self._taken == 0 else 0.0
        asked = float(self._taken == self._length - 1)
        return np.array([cue, asked], np.float32)


_HIDDEN: Mapping[str, tuple[str, int]] = {
    "CartPoleHidden-v0": ("CartPoleHidden", 500),
    "PendulumHidden-v0": ("PendulumHidden", 200),
}
"""Class and time limit by name; the limits are those of the original tasks."""


def register_memory_task(env_id: str) -> None:
    """Register a task with Gymnasium by its name, if it is one of these."""
    if env_id in gymnasium.registry:
        return
    if env_id in _HIDDEN:
        name, limit = _HIDDEN[env_id]
        gymnasium.register(
            env_id, entry_point=f"parallax.envs.memory_tasks:{name}", max_episode_steps=limit
        )
    elif chain := _CHAIN.fullmatch(env_id):
        length = int(chain[1])
        gymnasium.register(
            env_id,
            entry_point="parallax.envs.memory_tasks:MemoryChain",
            max_episode_steps=length + 1,  # never reached: episodes end before
            kwargs={"length": length},
        )
