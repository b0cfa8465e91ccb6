"""Short trainings in this process, watched by a monitor that evaluates on request."""

import dataclasses

import gymnasium
import numpy as np
import pytest
import torch
from tensordict import TensorDict

from parallax.adapters.torchrl import TorchRLAdapter, ppo, sac, td3
from parallax.envs.make import make_training_env
from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.recipes import load_recipe

MODULES = {"ppo": ppo, "td3": td3, "sac": sac}
TINY = {
    "ppo": {"rollout_steps": 64, "minibatch_size": 16, "epochs": 2},
    "td3": {"learning_starts": 100, "batch_size": 32, "buffer_size": 1000},
    "sac": {"learning_starts": 100, "batch_size": 32, "buffer_size": 1000},
}
ROUND = {"train_freq": 20, "gradient_steps": 20}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """R2D2 has a training for each of thirty fields; `make test-long` makes them."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        honoured = getattr(item, "originalname", "") == "test_hyperparameter_is_honoured_or_refused"
        if honoured and params.get("algorithm") == "r2d2":
            item.add_marker(pytest.mark.long)


class Recorder(gymnasium.Wrapper):
    """Keeps observation, action, and the greedy action at that time on request."""

    def __init__(self, env, monitor):
        super().__init__(env)
        self.monitor = monitor

    def reset(self, **kwargs):
        self.observation, info = self.env.reset(**kwargs)
        return self.observation, info

    def step(self, action):
        monitor, greedy = self.monitor, None
        if monitor.steps % monitor.every == 0:
            greedy = monitor.policy(self.observation[None].astype(np.float32))[0]
        monitor.choices.append((self.observation, action, greedy))
        self.observation, *rest = self.env.step(action)
        return self.observation, *rest


class FakeMonitor:
    """Asks for the greedy policy before every `every`-th step, as an evaluation would."""

    def __init__(self, env_id, every):
        self.env_id, self.every = env_id, every
        self.steps, self.envs, self.records, self.choices = 0, 0, [], []

    def attach(self, policy, weights, loadable=None, resumable=None):
        self.policy, self.weights = policy, weights

    def safe_point(self):
        pass

    def record(self, metrics):
        self.records.append(metrics)

    def make_env(self):
        self.envs += 1
        env = make_training_env(
            self.env_id,
            wrappers="none",
            gamma=0.99,
            before_step=self._before_step,
            after_episode=lambda episode_return, length: None,
        )
        return Recorder(env, self)

    def _before_step(self):
        self.steps += 1


@pytest.fixture
def hyperparameters():
    def make(algorithm, **changes):
        tiny = TINY[algorithm] | ({} if algorithm == "ppo" else ROUND) | {"hidden_sizes": (16, 16)}
        return dataclasses.replace(load_recipe(algorithm, "torchrl"), **(tiny | changes))

    return make


@pytest.fixture
def native(hyperparameters):
    def make(algorithm, steps=300, seed=0, env_id="InvertedPendulum-v4", n_envs=1, **changes):
        context = RunContext(load_task(env_id), steps, seed, n_envs)
        adapter = TorchRLAdapter()
        return adapter.translate(algorithm, hyperparameters(algorithm, **changes), context), context

    return make


@pytest.fixture
def train(native):
    def run(algorithm, every=1000, **arguments):
        settings, context = native(algorithm, **arguments)
        monitor = FakeMonitor(context.task.env_id, every)
        TorchRLAdapter().train(algorithm, settings, context, monitor.make_env, monitor)
        return settings, monitor

    return run


@pytest.fixture(scope="session")
def trainings():
    return {}


@pytest.fixture
def trained(train, trainings):
    """The training of an algorithm that tests only look at, made once."""

    def once(algorithm):
        if algorithm not in trainings:
            trainings[algorithm] = train(
                algorithm, steps=220
            )  # 120 updates: one record of TD3 and SAC
        return trainings[algorithm]

    return once


@pytest.fixture
def build(native):
    def make(algorithm, seed=0, **changes):
        settings, context = native(algorithm, **changes)
        torch.manual_seed(seed)
        return MODULES[algorithm].build_components(settings.settings, context.task)

    return make


@pytest.fixture
def transitions():
    return draw_transitions


def draw_transitions(count=8, terminated=False, truncated=False):
    generator = torch.Generator().manual_seed(7)

    def draw(size):
        return torch.randn(count, size, generator=generator)

    following = {
        "observation": draw(4),
        "reward": draw(1),
        "terminated": torch.full((count, 1), terminated),
        "truncated": torch.full((count, 1), truncated),
        "done": torch.full((count, 1), terminated or truncated),
    }
    content = {"observation": draw(4), "action": draw(1).clamp(-1, 1), "next": following}
    return TensorDict(content, [count])
