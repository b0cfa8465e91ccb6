"""Wrappers that change one thing in a task: interventions put them around the training task."""

from typing import Any

import gymnasium
import gymnasium.wrappers


class ScaledReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Multiplies every reward."""

    def __init__(self, env: gymnasium.Env[Any, Any], factor: float) -> None:
        """Wrap `env`.

        Args:
            env: The task.
            factor: Factor that rewards are multiplied by.
        """
        super().__init__(env)
        self._factor = factor

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, self._factor * float(reward), terminated, truncated, info


class SparseReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pays the rewards of several steps at once, and 0 in between.

    The last step of an episode pays all rewards that are still due, so that the return of an
    episode does not change.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], every: int) -> None:
        """Wrap `env`.

        Args:
            env: The task.
            every: Steps between two rewards.
        """
        super().__init__(env)
        self._every = every
        self._steps, self._gathered = 0, 0.0

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self._steps, self._gathered = 0, 0.0
        return self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        self._gathered += float(reward)
        given = 0.0
        if self._steps % self._every == 0 or terminated or truncated:
            given, self._gathered = self._gathered, 0.0
        return observation, given, terminated, truncated, info


class FixedStart(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Starts every episode from the same state."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int) -> None:
        """Wrap `env`.

        Args:
            env: The task.
            seed: Seed of the initial state.
        """
        super().__init__(env)
        self._seed = seed

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode; a requested seed is ignored."""
        return self.env.reset(**{**arguments, "seed": self._seed})


def clip_box_actions(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Wrap a task with continuous actions to clip them to its bounds; return others unchanged."""
    if isinstance(env.action_space, gymnasium.spaces.Box):
        return gymnasium.wrappers.ClipAction(env)
    return env
