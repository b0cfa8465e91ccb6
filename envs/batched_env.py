"""Parallel environments of one task, stepped together."""

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from parallax.envs.mujoco_batch import MujocoBatchedEnv, find_mujoco_task
from parallax.envs.optional_tasks import ActionMemoryReset, is_minatar_game
from parallax.envs.tasks import make_task_env

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
BatchedStep = tuple[Floats, Floats, Flags, Flags]


class BatchedEnv(Protocol):
    """N environments of one task; a finished one is inactive until the next reset."""

    def reset(self, seeds: Sequence[int]) -> Floats:
        """Start an episode in every environment.

        Args:
            seeds: One per environment, as for Gymnasium's `reset`.

        Returns:
            Observations float64[N, observations], or [N, channels, height, width] of images.

        Raises:
            ValueError: There is not one seed per environment.
        """

    def step(self, actions: NDArray[Any], active: Flags) -> BatchedStep:
        """Step the active environments.

        Args:
            actions: Array [N, actions], or [N] of discrete actions, passed to the task unchanged.
            active: Mask of the environments to step, bool[N].

        Returns:
            Observations float64[N, observations], rewards float64[N], terminated bool[N] and
            truncated bool[N]. An inactive environment keeps its observation and gets 0 and False.

        Raises:
            ValueError: `actions` has another shape.
        """


def make_batched_env(env_id: str, n: int, **options: Any) -> BatchedEnv:
    """Return N environments of a task, in the fastest way that equals Gymnasium bit for bit.

    Args:
        env_id: Gymnasium's name.
        n: How many.
        options: Further arguments of `make_task_env`.

    Raises:
        TaskError: The environment does not exist or cannot be made.
    """
    options = {"disable_env_checker": True, **options}
    env = make_task_env(env_id, **options)
    task = find_mujoco_task(env.spec)
    if task is not None and not options.get("wrappers"):
        return MujocoBatchedEnv(env, task, n)
    envs = [env, *(make_task_env(env_id, **options) for _ in range(n - 1))]
    return GymnasiumBatchedEnv(
        [ActionMemoryReset(env) for env in envs] if is_minatar_game(env_id) else envs
    )


class GymnasiumBatchedEnv:
    """Batch of separate Gymnasium environments, for any task."""

    def __init__(self, envs: Sequence[gymnasium.Env[Any, Any]]) -> None:
        self._envs = envs
        self._observations = np.empty(0)
        self._shape = (len(envs), *(envs[0].action_space.shape or ()))

    def reset(self, seeds: Sequence[int]) -> Floats:
        """See `BatchedEnv.reset`."""
        pairs = zip(self._envs, seeds, strict=True)
        started = [env.reset(seed=seed)[0] for env, seed in pairs]
        self._observations = np.array(started, np.float64)
        return self._observations

    def step(self, actions: NDArray[Any], active: Flags) -> BatchedStep:
        """See `BatchedEnv.step`."""
        if actions.shape != self._shape:
            raise ValueError(f"actions have shape {actions.shape}; {self._shape} is needed.")
        self._observations = self._observations.copy()
        rewards = np.zeros(len(self._envs))
        terminated, truncated = np.zeros((2, len(self._envs)), np.bool_)
        for i in np.flatnonzero(active).tolist():
            step = self._envs[i].step(actions[i])
            self._observations[i], rewards[i], terminated[i], truncated[i], _ = step
        return self._observations, rewards, terminated, truncated
