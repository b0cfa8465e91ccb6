"""Tasks that need a memory from the package `popgym` (Morad et al. 2023, arXiv:2303.01859).

They are registered with Gymnasium when one is asked for. Cards and the like are shown as numbers of
kinds, which are no sizes: networks see them one-hot.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envs.extras import brought_by

PREFIX = "popgym-"


def prepare(env_id: str) -> None:
    """Registers the tasks, if `env_id` is one.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    if not is_popgym(env_id) or env_id in gymnasium.registry:
        return
    with brought_by("popgym"):
        import popgym  # noqa: F401  registers them


def is_popgym(env_id: str) -> bool:
    """Whether Gymnasium's name is that of one of these tasks."""
    return env_id.startswith(PREFIX)


def shows_kinds(space: spaces.Space[Any]) -> bool:
    """Whether observations are numbers of kinds: one, several, or several parts of such."""
    if isinstance(space, spaces.Tuple):
        return all(shows_kinds(part) for part in space.spaces)
    return isinstance(space, spaces.Discrete | spaces.MultiDiscrete)


class OneHot(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows each number of a kind as zeros and a one, float32[all kinds together]."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wraps a task whose observations are numbers of kinds."""
        super().__init__(env)
        self._kinds = env.observation_space
        self.observation_space = spaces.Box(0.0, 1.0, (spaces.flatdim(self._kinds),), np.float32)

    def observation(self, observation: Any) -> NDArray[np.float32]:
        """An observation as networks take it."""
        return np.asarray(spaces.flatten(self._kinds, observation), np.float32)
