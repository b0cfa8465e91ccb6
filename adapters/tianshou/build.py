"""Tianshou's algorithms with networks as in its MuJoCo examples."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import PPO, SAC, TD3, Algorithm
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.exploration import GaussianNoise
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import (
    ContinuousActorDeterministic,
    ContinuousActorProbabilistic,
    ContinuousCritic,
)
from torch import nn
from torch.distributions import Distribution, Independent, Normal

from envs.tasks import Task

Settings = Mapping[str, Any]
Box = gymnasium.spaces.Box


def build(algorithm: str, settings: Settings, task: Task) -> Algorithm[Any, Any]:
    """The algorithm that settings describe; draws its weights from torch's generator."""
    low, high = (np.array(limit, np.float32) for limit in (task.action_low, task.action_high))
    builders = {"ppo": _ppo, "td3": _td3, "sac": _sac}
    return builders[algorithm](settings, task, Box(low, high))


def options(settings: Settings, component: str) -> dict[str, Any]:
    """Arguments of one component, by name."""
    parts = {name: name.partition(".") for name in settings}
    return {part[2]: settings[name] for name, part in parts.items() if part[0] == component}


def _ppo(settings: Settings, task: Task, action_space: Box) -> PPO:
    hidden = {**options(settings, "Net"), "activation": nn.Tanh}
    body = Net(state_shape=task.observation_size, **hidden)
    actor = ContinuousActorProbabilistic(
        preprocess_net=body, action_shape=task.action_size, unbounded=True
    )
    critic = ContinuousCritic(preprocess_net=Net(state_shape=task.observation_size, **hidden))
    _initialize(actor, critic)
    with warnings.catch_warnings():
        # Tianshou takes every actor for a bounded one whose max_action is 1, the default.
        warnings.filterwarnings("ignore", message="action_scaling and action_bound_method")
        policy = ProbabilisticActorPolicy(
            actor=actor, dist_fn=_gaussian, deterministic_eval=True, action_space=action_space
        )
    optimizer = _adam(settings)
    schedule = settings["with_lr_scheduler_factory"]
    if schedule is not None:
        factory = LRSchedulerFactoryLinear(*schedule["LRSchedulerFactoryLinear"])
        optimizer.with_lr_scheduler_factory(factory)
    return PPO(policy=policy, critic=critic, optim=optimizer, **options(settings, "PPO"))


def _td3(settings: Settings, task: Task, action_space: Box) -> TD3:
    body = Net(state_shape=task.observation_size, **options(settings, "Net"))
    actor = ContinuousActorDeterministic(preprocess_net=body, action_shape=task.action_size)
    critics = _critics(settings, task)
    noise = GaussianNoise(**options(settings, "GaussianNoise"))
    policy = ContinuousDeterministicPolicy(
        actor=actor, exploration_noise=noise, action_space=action_space
    )
    return TD3(policy=policy, **critics, **options(settings, "TD3"))


def _sac(settings: Settings, task: Task, action_space: Box) -> SAC[Any]:
    body = Net(state_shape=task.observation_size, **options(settings, "Net"))
    actor = ContinuousActorProbabilistic(
        preprocess_net=body, action_shape=task.action_size, unbounded=True, conditioned_sigma=True
    )
    critics = _critics(settings, task)
    rate = settings["AdamOptimizerFactory(alpha).lr"]
    alpha = AutoAlpha(**options(settings, "AutoAlpha"), optim=AdamOptimizerFactory(lr=rate))
    policy = SACPolicy(actor=actor, action_space=action_space)
    return SAC(policy=policy, alpha=alpha, **critics, **options(settings, "SAC"))


def _critics(settings: Settings, task: Task) -> dict[str, Any]:
    sizes = {"state_shape": task.observation_size, "action_shape": task.action_size}
    nets = [Net(**sizes, concat=True, **options(settings, "Net")) for _ in range(2)]
    first, second = (ContinuousCritic(preprocess_net=net) for net in nets)
    optimizer = _adam(settings, "(critic)")
    return {
        "policy_optim": _adam(settings, "(policy)"),
        "critic": first,
        "critic_optim": optimizer,
        "critic2": second,
        "critic2_optim": optimizer,
    }


def _adam(settings: Settings, of: str = "") -> AdamOptimizerFactory:
    shared = options(settings, "AdamOptimizerFactory")
    return AdamOptimizerFactory(**shared | options(settings, f"AdamOptimizerFactory{of}"))


def _gaussian(parameters: tuple[torch.Tensor, torch.Tensor]) -> Distribution:
    return Independent(Normal(*parameters), 1)


def _initialize(actor: ContinuousActorProbabilistic, critic: ContinuousCritic) -> None:
    nn.init.constant_(actor.sigma_param, -0.5)
    for layer in _linear([actor, critic]):
        nn.init.orthogonal_(layer.weight, gain=np.sqrt(2))
        nn.init.zeros_(layer.bias)
    for layer in _linear([actor.mu]):
        layer.weight.data.mul_(0.01)


def _linear(modules: Sequence[nn.Module]) -> list[nn.Linear]:
    return [part for m in modules for part in m.modules() if isinstance(part, nn.Linear)]
