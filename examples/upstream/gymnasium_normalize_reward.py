"""Gymnasium's NormalizeReward: the discounted return is carried over a time limit.

Only `terminated` resets it, so that in tasks that always end by a time limit it sums over all
episodes; the statistics that rewards are divided by follow it. Since 0.27.0; 0.26.3 reset it at
both. Run: python gymnasium_normalize_reward.py
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import NormalizeReward, TimeLimit

EPISODE_STEPS = 2


class ConstantReward(gymnasium.Env[Any, Any]):
    """An environment with rewards of 1 that never terminates."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return a reward of 1."""
        return np.zeros(1, np.float32), 1.0, False, False, {}


def collect_returns(episodes: int) -> list[float]:
    """Return the discounted return that the wrapper holds after each step."""
    env = NormalizeReward(TimeLimit(ConstantReward(), EPISODE_STEPS), gamma=1.0)
    found = []
    for _ in range(episodes):
        env.reset(seed=0)
        for _ in range(EPISODE_STEPS):
            env.step(0)
            found.append(float(np.ravel(env.discounted_reward)[0]))
    return found


def main() -> int:
    """Print the returns; 1 if they are carried over."""
    found, expected = collect_returns(3), [1.0, 2.0] * 3
    print(f"gymnasium {gymnasium.__version__}, three episodes of two steps with rewards of 1")
    print(f"discounted returns: {found}")
    print(f"expected:           {expected}")
    return int(found != expected)


if __name__ == "__main__":
    raise SystemExit(main())
