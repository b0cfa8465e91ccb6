"""A small task for testing adapters: cheap, with odd bounds, ends and a time limit.

Importing this module registers it; `envs.scripted:ParallaxScripted-v0` does both.
"""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

ENV_ID = "envs.scripted:ParallaxScripted-v0"
BOUND = 3.0
TIME_LIMIT = 10


class ScriptedEnv(gymnasium.Env[NDArray[np.float64], NDArray[np.float32]]):
    """Two actions push three noisy numbers about; an end comes by chance, a time limit else.

    Attributes:
        actions: Every action that reached the task, in order.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gymnasium.spaces.Box(-BOUND, BOUND, (2,), np.float32)

    def __init__(self) -> None:
        self._state = np.zeros(3)
        self.actions: list[NDArray[np.float32]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Starts from three standard normal numbers."""
        super().reset(seed=seed)
        self._state = self.np_random.normal(size=3)
        return self._state.copy(), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Moves the state, and pays for staying near zero."""
        self.actions.append(np.array(action))
        push = np.append(action, action.sum()) / BOUND
        self._state = 0.8 * self._state + 0.3 * push + 0.1 * self.np_random.normal(size=3)
        reward = 1.0 - float(np.abs(self._state).mean())
        ends = bool(self.np_random.random() < 0.02)
        return self._state.copy(), reward, ends, False, {}


gymnasium.register(
    "ParallaxScripted-v0", entry_point="envs.scripted:ScriptedEnv", max_episode_steps=TIME_LIMIT
)
