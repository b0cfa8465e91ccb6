"""Several environments in skrl's wrapper."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from parallax.adapters.skrl.train import ParallelEnvironments, wrap_environments
from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import RunContext, load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe


class CountingEnv(gymnasium.Env[Any, Any]):
    """Shows the number of its episode and its step; episodes have a given length."""

    observation_space = gymnasium.spaces.Box(-100, 100, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, length: int) -> None:
        self.length, self.episode, self.taken = length, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.episode, self.taken = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken += 1
        return self._observe(), 1.0, False, self.taken == self.length, {}

    def _observe(self) -> Any:
        return np.array([self.episode, self.taken], np.float32)


def test_a_step_returns_the_last_observation_of_an_episode_and_the_next_begins_with_its_first():
    env = ParallelEnvironments([CountingEnv(2), CountingEnv(3)])
    env.reset()
    actions = torch.zeros(2, 1)
    returned, first, ends = [], [], []
    for _ in range(3):
        observations, _, _, truncated, _ = env.step(actions)
        returned.append(observations.tolist())
        first.append(env.first_observations.tolist())
        ends.append(truncated[:, 0].tolist())
    assert returned == [[[1, 1], [1, 1]], [[1, 2], [1, 2]], [[2, 1], [1, 3]]]
    assert first == [[[1, 1], [1, 1]], [[2, 0], [1, 2]], [[2, 1], [2, 0]]]
    assert ends == [[False, False], [True, False], [False, True]]


def test_one_environment_has_skrls_own_wrapper():
    assert not isinstance(wrap_environments([CountingEnv(2)]), ParallelEnvironments)
    assert wrap_environments([CountingEnv(2), CountingEnv(2)]).num_envs == 2


def test_rollouts_and_length_are_shared_out_among_environments():
    adapter, task = load_adapter("skrl"), load_task("Pendulum-v1")
    native = adapter.translate(
        "ppo", load_recipe("ppo", "skrl"), RunContext(task, 5000, 0, n_envs=4)
    )
    assert native.settings["PPO_CFG.rollouts"] == native.settings["RandomMemory.memory_size"] == 256
    assert native.settings["RandomMemory.num_envs"] == 4
    assert (native.total_steps, native.framework_steps) == (5000, 1250)


def test_agents_with_a_replay_buffer_have_one_environment():
    adapter, task = load_adapter("skrl"), load_task("Pendulum-v1")
    with pytest.raises(SpecError, match="n_envs=2: skrl's agents with a replay buffer"):
        adapter.translate("td3", load_recipe("td3", "skrl"), RunContext(task, 5000, 0, n_envs=2))
