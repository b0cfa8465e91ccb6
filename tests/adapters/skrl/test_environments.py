"""Several environments in skrl's wrapper."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest
import support
import torch
from skrl.agents.torch.dqn import DQN
from skrl.agents.torch.td3 import TD3

from parallax.adapters.skrl.train import ParallelEnvironments, wrap_environments
from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.train.prepare import prepare_run


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


def test_step_returns_final_observation_before_the_next_episode_starts():
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


def test_single_environment_uses_skrls_wrapper():
    assert not isinstance(wrap_environments([CountingEnv(2)]), ParallelEnvironments)
    assert wrap_environments([CountingEnv(2), CountingEnv(2)]).num_envs == 2


def test_rollouts_and_length_are_divided_among_environments():
    adapter, task = load_adapter("skrl"), load_task("Pendulum-v1")
    native = adapter.translate(
        "ppo", load_recipe("ppo", "skrl"), RunContext(task, 5000, 0, n_envs=4)
    )
    assert native.settings["PPO_CFG.rollouts"] == native.settings["RandomMemory.memory_size"] == 256
    assert native.settings["RandomMemory.num_envs"] == 4
    assert (native.total_steps, native.framework_steps) == (5000, 1250)


def translate(algorithm, n_envs, steps=5000, patches=False, **changes):
    adapter, task = (
        load_adapter("skrl"),
        load_task("Pendulum-v1" if algorithm != "dqn" else "CartPole-v1"),
    )
    hyperparameters = dataclasses.replace(load_recipe(algorithm, "skrl"), **changes)
    context = RunContext(task, steps, 0, n_envs=n_envs, patch_constants=patches)
    return adapter.translate(algorithm, hyperparameters, context)


def test_off_policy_agents_count_one_step_for_all_environments():
    changes = {"buffer_size": 1000, "learning_starts": 98, "train_freq": 4, "gradient_steps": 4}
    native = translate("td3", 4, 402, **changes)
    assert (native.total_steps, native.framework_steps) == (404, 101)
    for name, value in {
        "RandomMemory.memory_size": 250,
        "RandomMemory.num_envs": 4,
        "TD3_CFG.random_timesteps": 25,
        "TD3_CFG.learning_starts": 24,
    }.items():
        assert native.settings[name] == value
    schedule = native.update_schedule
    assert (schedule.random_steps, schedule.first_update) == (100, 100)
    assert schedule.total_gradient_steps == 4 * 77


def test_intervals_of_discrete_agents_are_divided_by_n_envs():
    changes = {"train_freq": 8, "target_update_interval": 32, "exploration_steps": 100}
    native = translate("dqn", 4, **changes, learning_starts=0, gradient_steps=2)
    assert native.settings["DQN_CFG.update_interval"] == 2
    assert native.settings["DQN_CFG.target_update_interval"] == 8
    assert native.settings["DQN_CFG.exploration_scheduler"][2] == 25
    assert native.update_schedule.first_update == 4


@pytest.mark.parametrize("patches", [False, True])
@pytest.mark.parametrize("algorithm", ["td3", "dqn"])
def test_steps_of_all_environments_must_fill_update_cycles(algorithm, patches):
    with pytest.raises(SpecError, match=r"train_freq=6: .*a multiple of n_envs=4"):
        translate(algorithm, 4, patches=patches, train_freq=6)


def test_defaults_update_after_each_step_of_all_environments():
    for n_envs in (1, 4):
        spec = support.spec("skrl", "td3", n_envs=n_envs)
        prepared = prepare_run(spec, load_adapter("skrl"))
        assert prepared.hyperparameters.train_freq == n_envs


@pytest.mark.parametrize("algorithm", ["td3", "dqn"])
def test_rare_updates_happen_as_declared(algorithm, tmp_path):
    changes = {"train_freq": 8, "gradient_steps": 3, "learning_starts": 20}
    changes |= {"target_update_interval": 16} if algorithm == "dqn" else {}
    spec = support.spec(
        "skrl",
        algorithm,
        n_envs=4,
        steps=66,
        eval_every=66,
        patches=True,
        alignment="exact",
        hps="skrl",
        hyperparameters=changes,
    )
    kind = {"td3": TD3, "dqn": DQN}[algorithm]
    counts = []
    with pytest.MonkeyPatch.context() as patch:
        own = kind.update
        patch.setattr(kind, "update", lambda *a, **k: counts.append(k["timestep"]) or own(*a, **k))
        _, run = support.run(spec, tmp_path)
    assert run["status"] == "completed", run["failure"]
    schedule = prepare_run(spec, load_adapter("skrl")).native.update_schedule
    assert 4 * (counts[0] + 1) == schedule.first_update
    assert 3 * len(counts) == schedule.total_gradient_steps
