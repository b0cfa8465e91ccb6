"""PPO with networks as in Tianshou's MuJoCo example."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import LRSchedulerFactoryLinear
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from torch import nn
from torch.distributions import Distribution, Independent, Normal

from adapters.tianshou.components import Settings, action_box, adam, options
from envs.tasks import Task


def build(settings: Settings, task: Task) -> PPO:
    """The algorithm that settings describe."""
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
            actor=actor, dist_fn=_gaussian, deterministic_eval=True, action_space=action_box(task)
        )
    optimizer = adam(settings)
    schedule = settings["with_lr_scheduler_factory"]
    if schedule is not None:
        factory = LRSchedulerFactoryLinear(*schedule["LRSchedulerFactoryLinear"])
        optimizer.with_lr_scheduler_factory(factory)
    return PPO(policy=policy, critic=critic, optim=optimizer, **options(settings, "PPO"))


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
