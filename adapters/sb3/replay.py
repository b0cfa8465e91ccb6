"""Replay other than uniform: SB3's own buffer, from which a strategy chooses and weighs."""

from typing import Any

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer

from adapters.torch_common.strategic import Errors, Samples, Strategic


class StrategicBuffer(Strategic, ReplayBuffer):
    """SB3's replay buffer, read at the places that a strategy draws."""


def errors_of(algorithm: str, model: BaseAlgorithm) -> Errors:
    """Differences of all critics and their target, as the algorithm's update defines it.

    Args:
        algorithm: `dqn`, `ddpg`, `td3` or `sac`.
        model: SB3's, whose networks are asked as they are at each call.
    """
    values = {"dqn": _choice_values, "sac": _soft_values}.get(algorithm, _smoothed_values)
    live: Any = model

    def errors(batch: Samples) -> torch.Tensor:
        target = batch.rewards + (1 - batch.dones) * live.gamma * values(live, batch)
        if algorithm == "dqn":
            currents = (live.q_net(batch.observations).gather(1, batch.actions.long()),)
        else:
            currents = live.critic(batch.observations, batch.actions)
        return torch.stack([(current - target).flatten() for current in currents])

    return errors


def _choice_values(model: Any, batch: Samples) -> torch.Tensor:
    best: torch.Tensor = model.q_net_target(batch.next_observations).amax(1, keepdim=True)
    return best


def _smoothed_values(model: Any, batch: Samples) -> torch.Tensor:
    limit = model.target_noise_clip
    noise = (torch.randn_like(batch.actions) * model.target_policy_noise).clamp(-limit, limit)
    actions = (model.actor_target(batch.next_observations) + noise).clamp(-1, 1)
    values = model.critic_target(batch.next_observations, actions)
    return torch.cat(values, 1).amin(1, keepdim=True)


def _soft_values(model: Any, batch: Samples) -> torch.Tensor:
    actions, density = model.actor.action_log_prob(batch.next_observations)
    learned = model.ent_coef_optimizer is not None
    temperature = model.log_ent_coef.exp() if learned else model.ent_coef_tensor
    values = torch.cat(model.critic_target(batch.next_observations, actions), 1)
    best: torch.Tensor = values.amin(1, keepdim=True) - temperature * density.reshape(-1, 1)
    return best
