"""PPO's networks as in upstream's recipe."""

from collections.abc import Mapping
from typing import Any

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torch import nn
from torchrl.envs import ExplorationType
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator

from adapters.torchrl.collect import action_spec
from envs.tasks import Task

ACTOR_GAIN, CRITIC_GAIN = 1.0, 0.01
"""Orthogonal gain of every layer, the last included."""


def make_actor(settings: Mapping[str, Any], task: Task) -> ProbabilisticActor:
    """Location from the network, scale from one free parameter per dimension."""
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


def make_critic(settings: Mapping[str, Any], task: Task) -> ValueOperator:
    """State value."""
    network = _mlp(task.observation_size, 1, settings, CRITIC_GAIN)
    return ValueOperator(network, in_keys=["observation"])


def _mlp(inputs: int, outputs: int, settings: Mapping[str, Any], gain: float) -> MLP:
    network = MLP(inputs, outputs, num_cells=settings["MLP.num_cells"], activation_class=nn.Tanh)
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)
    return network
