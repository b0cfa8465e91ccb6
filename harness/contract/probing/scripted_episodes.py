"""Task whose observations, rewards and ends are formulas of copy, episode and step.

It needs gymnasium and numpy only, so that it also runs in an interpreter that has nothing else. An
observation names where it comes from, so that a wrong one can be named.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TERMINATED, TRUNCATED, BOTH, GOES_ON = "terminated", "truncated", "both", "goes on"
COPY, EPISODE, STEP, WAVE, RECEIVED, DRAW = range(6)
"""Columns of an observation; `RECEIVED` is the last action and `DRAW` a random number."""
OBSERVATION_SIZE = 6


@dataclasses.dataclass(frozen=True)
class EpisodeScript:
    """Script of one copy of the task.

    Attributes:
        copy: Number of the copy.
        ends: Length and kind of each episode in order; the last one is repeated.
        low: Smallest action.
        high: Largest action.
        draws: Whether a reset draws a random number; 0 otherwise.
    """

    copy: int = 0
    ends: tuple[tuple[int, str], ...] = ((3, TERMINATED),)
    low: float = -1.0
    high: float = 1.0
    draws: bool = False

    def get_end(self, episode: int) -> tuple[int, str]:
        """Return length and kind of an episode."""
        return self.ends[min(episode, len(self.ends) - 1)]

    def compute_observation(
        self, episode: int, step: int, received: float = 0.0, draw: float = 0.0
    ) -> Array:
        """Return the observation after `step` steps, float64[`OBSERVATION_SIZE`]."""
        wave = 3.0 + 2.0 * math.sin(1.3 * step + 0.9 * episode + 0.7 * self.copy)
        return np.array([self.copy, episode, step, wave, received, draw])

    def compute_reward(self, episode: int, step: int) -> float:
        """Return the reward of step number `step`, which is 1 for the first."""
        return 1.0 + math.cos(0.8 * step + 0.5 * episode + 0.3 * self.copy)

    def compute_flags(self, episode: int, step: int) -> tuple[bool, bool]:
        """Return `terminated` and `truncated` after `step` steps."""
        length, kind = self.get_end(episode)
        ended = step >= length
        return ended and kind in (TERMINATED, BOTH), ended and kind in (TRUNCATED, BOTH)


class ScriptedEpisodesEnv(gymnasium.Env[Any, Any]):
    """One copy of the task."""

    def __init__(self, script: EpisodeScript) -> None:
        self.script = script
        limits = np.full(OBSERVATION_SIZE, np.inf, np.float32)
        self.observation_space = gymnasium.spaces.Box(-limits, limits, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(script.low, script.high, (1,), np.float32)
        self._episode, self._step, self._draw = -1, 0, 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start the next episode."""
        super().reset(seed=seed)
        self._episode, self._step = self._episode + 1, 0
        self._draw = float(self.np_random.normal()) if self.script.draws else 0.0
        return self._observe(0.0), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Return the next row of the script."""
        self._step += 1
        place = self._episode, self._step
        reward, flags = self.script.compute_reward(*place), self.script.compute_flags(*place)
        return self._observe(float(np.ravel(action)[0])), reward, *flags, {}

    def _observe(self, received: float) -> Array:
        place = self._episode, self._step
        observation = self.script.compute_observation(*place, received, self._draw)
        return observation.astype(np.float32)


@dataclasses.dataclass(frozen=True)
class EnvMaker:
    """Function without arguments that returns one copy; can be sent to another process."""

    script: EpisodeScript

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """Return a new copy of the task."""
        return ScriptedEpisodesEnv(self.script)


def make_env_makers(scripts: Sequence[EpisodeScript]) -> list[EnvMaker]:
    """Return one maker per script."""
    return [EnvMaker(script) for script in scripts]
