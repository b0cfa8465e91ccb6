"""Wrappers that change one thing in a task: interventions put them around the training task."""

import collections
from typing import Any, Literal

import gymnasium
import gymnasium.wrappers
import numpy as np


class ScaledReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Multiplies every reward."""

    def __init__(self, env: gymnasium.Env[Any, Any], factor: float) -> None:
        """Wrap `env`."""
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
        """Wrap `env`, which is rewarded at every `every`-th step."""
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


class NoisyReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds normal noise to every reward, in proportion to it (Tambon et al. 2023)."""

    def __init__(self, env: gymnasium.Env[Any, Any], share: float) -> None:
        """Wrap `env`; the noise's standard deviation is `share` of the reward."""
        super().__init__(env)
        self._share, self._rng = share, np.random.default_rng()

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode; a seed also seeds the noise."""
        self._rng = _seed_rng(self._rng, arguments)
        return self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        noisy = float(reward) * (1 + self._share * self._rng.standard_normal())
        return observation, noisy, terminated, truncated, info


class ReplayedAnswer(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Answers with observations and rewards of earlier steps: Tambon et al. 2023.

    Kinds: `repeat` gives those of the step before, `random` those of one of the last thousand
    steps, `mangled` an observation and a reward of two of them. Ends of episodes are the task's.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], kind: Literal["repeat", "random", "mangled"]
    ) -> None:
        """Wrap `env`."""
        super().__init__(env)
        self._kind, self._rng = kind, np.random.default_rng()
        self._steps = collections.deque[tuple[Any, Any]](maxlen=1000)

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode; a seed also seeds the draws."""
        self._rng = _seed_rng(self._rng, arguments)
        return self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps.append((observation, reward))
        if self._kind == "repeat":
            observation, reward = self._steps[max(len(self._steps) - 2, 0)]
        else:
            first, second = self._rng.integers(len(self._steps), size=2)
            observation = self._steps[first][0]
            reward = self._steps[second if self._kind == "mangled" else first][1]
        return observation, reward, terminated, truncated, info


def _seed_rng(rng: np.random.Generator, arguments: Any) -> np.random.Generator:
    seed = arguments.get("seed")
    return rng if seed is None else np.random.default_rng(seed)


class FixedStart(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Starts every episode from the same state."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int) -> None:
        """Wrap `env`."""
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
