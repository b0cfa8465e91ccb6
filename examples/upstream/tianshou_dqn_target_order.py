"""Tianshou's DQN: the update after a copy learns from the target network before the copy.

With `target_update_freq=1` the target network is the online network at the beginning of each
update. Targets are computed before the copy, so that they come from the network of one update
earlier. Run: python tianshou_dqn_target_order.py
"""

from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, ReplayBuffer
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step


class WatchedDQN(DQN[DiscreteQLearningPolicy]):  # type: ignore[misc]
    """DQN that records whether targets come from a copy of the online network."""

    comes_from_copy: list[bool]

    def _target_q(self, buffer: ReplayBuffer, indices: np.ndarray) -> torch.Tensor:
        assert self.model_old is not None
        pairs = zip(self.policy.model.parameters(), self.model_old.parameters(), strict=True)
        self.comes_from_copy.append(all(torch.equal(one, other) for one, other in pairs))
        targets: torch.Tensor = super()._target_q(buffer, indices)
        return targets


def fill_buffer(transitions: int) -> ReplayBuffer:
    """Return a buffer of random transitions."""
    rng, buffer = np.random.default_rng(0), ReplayBuffer(transitions)
    for _ in range(transitions):
        seen: dict[str, Any] = {"obs": rng.normal(size=4), "obs_next": rng.normal(size=4)}
        ends = {"terminated": False, "truncated": False, "info": {}}
        buffer.add(Batch(act=rng.integers(2), rew=rng.normal(), **seen, **ends))
    return buffer


def main() -> int:
    """Print what targets come from; 1 if it is not the copy."""
    torch.manual_seed(0)
    space = gymnasium.spaces.Discrete(2)
    model: Any = Net(state_shape=4, action_shape=2, hidden_sizes=[8])
    algorithm = WatchedDQN(
        policy=DiscreteQLearningPolicy(model=model, action_space=space),
        optim=AdamOptimizerFactory(lr=0.01),
        target_update_freq=1,
    )
    algorithm.comes_from_copy = []
    buffer = fill_buffer(32)
    with policy_within_training_step(algorithm.policy):
        for _ in range(4):
            algorithm.update(buffer=buffer, sample_size=8)
    expected = [True] * 4
    print(f"tianshou {version('tianshou')}, target_update_freq=1, four updates")
    print(f"targets come from a copy of the online network: {algorithm.comes_from_copy}")
    print(f"expected:                                       {expected}")
    return int(algorithm.comes_from_copy != expected)


if __name__ == "__main__":
    raise SystemExit(main())
