"""Trains with Tianshou's collector, buffer and trainer."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm import Algorithm
from tianshou.data import Batch, Collector
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.torch_utils import policy_within_training_step, torch_train_mode

from adapters.tianshou.buffers import make_buffer
from adapters.tianshou.build import build, options
from adapters.tianshou.log import MonitorLogger
from harness.adapter import Context, MakeEnv, Monitor, Native, Weights

RECORD_EVERY = 100
"""Training steps of TD3 and SAC between records of the trace."""


def train(
    algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Trains to the end."""
    settings = native.settings
    envs = DummyVectorEnv([make_env] * context.n_envs)
    envs.seed(settings["seed"])
    seed_generators(settings["seed"])
    model = build(algorithm, settings, context.task)
    monitor.attach(lambda observations: greedy(model, observations), lambda: weights(model))
    buffer = make_buffer(**options(settings, "ReplayBuffer"), n_envs=context.n_envs)
    collector = Collector(model, envs, buffer, exploration_noise=True)
    common = {"training_collector": collector, "verbose": False, "show_progress": False}
    if algorithm == "ppo":
        common |= options(settings, "OnPolicyTrainerParams")
        params: Any = OnPolicyTrainerParams(**common, logger=MonitorLogger(monitor, every=1))
    else:
        warm_up(collector, settings["Collector.collect.n_step"])
        common |= options(settings, "OffPolicyTrainerParams")
        params = OffPolicyTrainerParams(**common, logger=MonitorLogger(monitor, RECORD_EVERY))
    model.run_training(params)


def seed_generators(seed: int) -> None:
    """Seeds the two global generators that Tianshou draws from."""
    np.random.seed(seed)
    torch.manual_seed(seed)


def warm_up(collector: Collector[Any], steps: int) -> None:
    """Collects with random actions."""
    collector.reset()
    if steps:
        collector.collect(n_step=steps, random=True)


def greedy(model: Algorithm[Any, Any], observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """Tianshou's own actions outside of training, mapped to the environment's bounds."""
    policy = model.policy
    outside = policy_within_training_step(policy, enabled=False)
    with outside, torch_train_mode(policy, enabled=False), torch.no_grad():
        actions = policy(Batch(obs=observations, info={})).act
    return np.asarray(policy.map_action(actions), dtype=np.float32)


def weights(model: Algorithm[Any, Any]) -> Weights:
    """All parameters; Tianshou's `_old` networks are the targets."""
    return {
        name.replace("_old.module.", "_target."): value.detach().numpy().copy()
        for name, value in model.named_parameters()
    }
