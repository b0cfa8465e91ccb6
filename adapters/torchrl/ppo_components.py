"""What PPO learns with, as in upstream's recipe."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torch import nn
from torchrl.envs import ExplorationType
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, group_optimizers
from torchrl.objectives.value import GAE

from adapters.torchrl.collect import action_spec
from envs.tasks import Task

ACTOR_GAIN, CRITIC_GAIN = 1.0, 0.01
"""Orthogonal gain of every layer, the last included."""


@dataclasses.dataclass(frozen=True)
class Components:
    """What PPO learns with.

    Attributes:
        actor: Stochastic policy.
        advantages: Adds advantages and value targets to a rollout.
        loss: Holds the actor's and the critic's parameters.
        optimizer: Of actor and critic, a group each.
        settings: Native settings, for the schedules.
        total_updates: Gradient steps of the whole run.
    """

    actor: ProbabilisticActor
    advantages: GAE
    loss: ClipPPOLoss
    optimizer: torch.optim.Optimizer
    settings: Mapping[str, Any]
    total_updates: int


def build(settings: Mapping[str, Any], task: Task) -> Components:
    """Networks, loss and optimisers as they are before the first update."""
    actor, critic = _actor(settings, task), _critic(settings, task)
    advantages = GAE(
        gamma=settings["GAE.gamma"],
        lmbda=settings["GAE.lmbda"],
        value_network=critic,
        average_gae=False,
        vectorized=True,
    )
    loss = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=settings["ClipPPOLoss.clip_epsilon"],
        clip_value=settings["ClipPPOLoss.clip_value"],
        normalize_advantage=settings["ClipPPOLoss.normalize_advantage"],
        entropy_coeff=settings["ClipPPOLoss.entropy_coeff"],
        critic_coeff=settings["ClipPPOLoss.critic_coeff"],
        loss_critic_type="l2",
    )
    optimizer = group_optimizers(*(_adam(network, settings) for network in (actor, critic)))
    frames = settings["Collector.frames_per_batch"]
    rollouts = settings["Collector.total_frames"] // frames
    per_epoch = math.ceil(frames / settings["TensorDictReplayBuffer.batch_size"])
    total_updates = rollouts * settings["script.ppo_epochs"] * per_epoch
    return Components(actor, advantages, loss, optimizer, settings, total_updates)


def _actor(settings: Mapping[str, Any], task: Task) -> ProbabilisticActor:
    # Location from the network, scale from one free parameter per dimension.
    spec = action_spec(task)
    network = nn.Sequential(
        _mlp(task.observation_size, task.action_size, settings, ACTOR_GAIN),
        AddStateIndependentNormalScale(torch.Size([task.action_size]), scale_lb=1e-8),
    )
    return ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": spec.space.low, "high": spec.space.high, "tanh_loc": False},
        default_interaction_type=ExplorationType.RANDOM,
        return_log_prob=True,
    )


def _critic(settings: Mapping[str, Any], task: Task) -> ValueOperator:
    network = _mlp(task.observation_size, 1, settings, CRITIC_GAIN)
    return ValueOperator(network, in_keys=["observation"])


def _mlp(inputs: int, outputs: int, settings: Mapping[str, Any], gain: float) -> MLP:
    network = MLP(inputs, outputs, num_cells=settings["MLP.num_cells"], activation_class=nn.Tanh)
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)
    return network


def _adam(network: nn.Module, settings: Mapping[str, Any]) -> torch.optim.Optimizer:
    # A tensor as in upstream's script, where it makes the schedule's arithmetic float32.
    rate = torch.tensor(settings["Adam.lr"])
    return torch.optim.Adam(network.parameters(), lr=rate, eps=settings["Adam.eps"])
