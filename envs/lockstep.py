"""Many copies of one task, stepped together."""

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.minatar import Independent, is_game
from envs.raw.stepping import RawLockstep
from envs.raw.tasks import raw_task
from envs.tasks import make

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Step = tuple[Floats, Floats, Flags, Flags]


class Lockstep(Protocol):
    """N copies of one task; a finished copy rests until the next reset."""

    def reset(self, seeds: Sequence[int]) -> Floats:
        """Starts an episode in every copy.

        Args:
            seeds: One per copy, as for Gymnasium's `reset`.

        Returns:
            Observations float64[N, observations], or [N, channels, height, width] of images.

        Raises:
            ValueError: There is not one seed per copy.
        """

    def step(self, actions: NDArray[Any], active: Flags) -> Step:
        """Steps the copies that are active.

        Args:
            actions: Array [N, actions], or [N] of choices, passed to the task as it is.
            active: Which copies to step, bool[N].

        Returns:
            Observations float64[N, observations], rewards float64[N], terminated bool[N] and
            truncated bool[N]. A copy that rests keeps its observation and gets 0 and False.

        Raises:
            ValueError: `actions` has another shape.
        """


def make_lockstep(env_id: str, n: int, **options: Any) -> Lockstep:
    """N copies of a task, in the fastest way that agrees with Gymnasium bit for bit.

    Args:
        env_id: Gymnasium's name.
        n: How many.
        options: Keyword arguments for the task.

    Raises:
        TaskError: The environment does not exist or cannot be made.
    """
    options = {"disable_env_checker": True, **options}
    env = make(env_id, **options)
    task = raw_task(env.spec)
    if task is not None:
        return RawLockstep(env, task, n)
    envs = [env, *(make(env_id, **options) for _ in range(n - 1))]
    return GymnasiumLockstep([Independent(env) for env in envs] if is_game(env_id) else envs)


class GymnasiumLockstep:
    """Any task, one Gymnasium environment per copy."""

    def __init__(self, envs: Sequence[gymnasium.Env[Any, Any]]) -> None:
        self._envs = envs
        self._observations = np.empty(0)
        self._shape = (len(envs), *(envs[0].action_space.shape or ()))

    def reset(self, seeds: Sequence[int]) -> Floats:
        """See `Lockstep.reset`."""
        pairs = zip(self._envs, seeds, strict=True)
        started = [env.reset(seed=seed)[0] for env, seed in pairs]
        self._observations = np.array(started, np.float64)
        return self._observations

    def step(self, actions: NDArray[Any], active: Flags) -> Step:
        """See `Lockstep.step`."""
        if actions.shape != self._shape:
            raise ValueError(f"actions have shape {actions.shape}; {self._shape} is needed.")
        self._observations = self._observations.copy()
        rewards = np.zeros(len(self._envs))
        terminated, truncated = np.zeros((2, len(self._envs)), np.bool_)
        for i in np.flatnonzero(active).tolist():
            step = self._envs[i].step(actions[i])
            self._observations[i], rewards[i], terminated[i], truncated[i], _ = step
        return self._observations, rewards, terminated, truncated
