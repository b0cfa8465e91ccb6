"""Wrappers that plant faulty rewards into a task."""

from typing import Any

import gymnasium

STEP_OF_NAN = 350
"""Step of each environment whose reward is NaN: after learning began."""


class HugeRewards(gymnasium.RewardWrapper[Any, Any]):
    """Multiplies rewards by 1e25, whose square is no float32 number."""

    def reward(self, reward: Any) -> float:
        """Return the reward, much larger."""
        return float(reward) * 1e25


class OneNaNReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Returns NaN as the reward of one step."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._steps = 0

    def step(self, action: Any) -> Any:
        """Take a step; the reward of step `STEP_OF_NAN` is NaN."""
        observation, reward, *rest = self.env.step(action)
        self._steps += 1
        return observation, float("nan") if self._steps == STEP_OF_NAN else reward, *rest
