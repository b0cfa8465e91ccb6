"""Replay other than uniform: SB3's own buffer, from which a strategy chooses and weighs."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.vec_env import VecNormalize

from harness.replay.making import generator, joined
from harness.replay.strategy import Fresh, Indices, Strategy

_CHUNK = 16_384
"""Transitions whose errors are computed at once in a sweep of the whole memory."""

Errors = Callable[[Any], torch.Tensor]
"""Errors of every critic, [critics, n], of a batch as SB3's buffers give it."""


class Samples(NamedTuple):
    """What SB3's updates take from a minibatch; its own type does not say where it came from."""

    observations: torch.Tensor
    actions: torch.Tensor
    next_observations: torch.Tensor
    dones: torch.Tensor
    rewards: torch.Tensor
    discounts: None = None


class StrategicBuffer(ReplayBuffer):
    """SB3's replay buffer, read at the places that a strategy draws.

    A place is a transition of one copy of the environment: `row * n_envs + copy`.
    """

    def __init__(
        self,
        buffer_size: int,
        *arguments: Any,
        make: Callable[[int], Strategy],
        seed: int,
        critics: str,
        **settings: Any,
    ) -> None:
        """Makes SB3's buffer and the strategy.

        Args:
            buffer_size: Transitions, of all copies together.
            arguments: As for SB3's buffer.
            make: Makes the strategy for so many transitions.
            seed: Of the run.
            critics: As for `harness.replay.making.joined`.
            settings: As for SB3's buffer.
        """
        super().__init__(buffer_size, *arguments, **settings)
        self.strategy = make(self.buffer_size * self.n_envs)
        self._generator = generator(seed)
        self._critics = critics
        self._errors: Errors | None = None
        self._drawn: Indices = np.zeros(0, np.int64)
        self._weights = np.zeros(0)

    def measure_with(self, errors: Errors) -> None:
        """Takes what tells errors under the current networks."""
        self._errors = errors

    def add(self, *arguments: Any, **named: Any) -> None:
        """Stores one step of all copies."""
        super().add(*arguments, **named)
        self.strategy.add(self.n_envs)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """A minibatch; `weighted` must be told of its errors before the next one."""
        if self.strategy.due():
            self.strategy.sweep(self._fresh(env))
        self._drawn, self._weights = self.strategy.sample(self._generator, batch_size)
        return self._at(self._drawn, env)

    def weighted(
        self,
        loss: Callable[..., torch.Tensor],
        currents: Sequence[torch.Tensor],
        target: torch.Tensor,
    ) -> torch.Tensor:
        """The sum of all critics' losses on the last minibatch, each transition with its weight.

        Args:
            loss: As PyTorch's, with `reduction`.
            currents: What each critic says, [n, 1].
            target: What it should say, [n, 1].
        """
        with torch.no_grad():
            gaps = torch.stack([(current - target).flatten() for current in currents])
        errors = joined(gaps.numpy(), self._critics)
        told = self.strategy.corrected(self._drawn, self._weights, errors)
        self.strategy.update(self._drawn, errors)
        weights = torch.as_tensor(told, dtype=target.dtype).reshape(-1, 1)
        losses = [(weights * loss(one, target, reduction="none")).mean() for one in currents]
        return torch.stack(losses).sum()

    def _at(self, places: Indices, env: VecNormalize | None) -> Samples:
        rows, copies = np.divmod(places, self.n_envs)
        ended = self.dones[rows, copies] * (1 - self.timeouts[rows, copies])
        rewards = self.rewards[rows, copies].reshape(-1, 1)
        normalize: Any = self._normalize_obs
        return Samples(
            self.to_torch(normalize(self.observations[rows, copies], env)),
            self.to_torch(self.actions[rows, copies]),
            self.to_torch(normalize(self.next_observations[rows, copies], env)),
            self.to_torch(ended.reshape(-1, 1)),
            self.to_torch(self._normalize_reward(rewards, env)),
        )

    def _fresh(self, env: VecNormalize | None) -> Fresh:
        measure = self._errors
        assert measure is not None

        def fresh(places: Indices) -> NDArray[Any]:
            # What a sweep draws, such as smoothing noise, is not taken from the training's numbers.
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                parts = [
                    measure(self._at(places[start : start + _CHUNK], env)).numpy()
                    for start in range(0, len(places), _CHUNK)
                ]
            return joined(np.concatenate(parts, axis=1), self._critics)

        return fresh


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
