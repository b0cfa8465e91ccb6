"""A replay buffer of Stable-Baselines3's making, from which a strategy chooses and weighs.

CleanRL's scripts take the same class from Stable-Baselines3. It is not named here: each adapter
derives a class from this one and the buffer that it finds.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.optimizer import register_optimizer_step_post_hook

from parallax.adapters.torch_common.sum_tree import CompiledSumTree
from parallax.harness.contract.adapter import CostMonitor, Monitor
from parallax.harness.replay.prioritized import Indices
from parallax.harness.replay.replayer import ComputeCriticErrors, ReplaySampler, make_replay_sampler

ErrorFunction = Callable[[Any], torch.Tensor]
"""Errors of every critic, [critics, n], of a batch as the buffer gives it."""


class ReplaySamples(NamedTuple):
    """Minibatch with the indices it was drawn from, which upstream's own type does not have."""

    observations: torch.Tensor
    actions: torch.Tensor
    next_observations: torch.Tensor
    dones: torch.Tensor
    rewards: torch.Tensor
    discounts: None = None


class PrioritizedReplayMixin:
    """Stands before Stable-Baselines3's buffer, which is read at the places that are drawn.

    An index is a transition of one of the parallel environments: `row * n_envs + env`.
    """

    def __init__(
        self, buffer_size: int, *arguments: Any, replay_settings: Mapping[str, Any], **settings: Any
    ) -> None:
        """Make upstream's buffer and the strategy.

        Args:
            buffer_size: Transitions, of all parallel environments together.
            arguments: As for upstream's buffer.
            replay_settings: As for `make_replay_sampler`.
            settings: As for upstream's buffer.
        """
        upstream: Any = super()
        upstream.__init__(buffer_size, *arguments, **settings)
        own: Any = self
        self.replayer = make_replay_sampler(
            replay_settings, own.buffer_size * own.n_envs, CompiledSumTree
        )
        self._errors: ErrorFunction | None = None

    def set_error_function(self, errors: ErrorFunction) -> None:
        """Set the function that computes errors under the current networks."""
        self._errors = errors

    def add(self, *arguments: Any, **named: Any) -> None:
        """Store one step of all parallel environments."""
        own: Any = super()
        own.add(*arguments, **named)
        self.replayer.strategy.add(self.n_envs)  # type: ignore[attr-defined]

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Return a minibatch; its losses must be `weighted` before the next one."""
        with time_sampling(self.replayer):
            return self.at(self.replayer.draw(batch_size, self._make_error_reader(env)), env)

    def compute_weighted_losses(
        self,
        loss: Callable[..., torch.Tensor],
        currents: Sequence[torch.Tensor],
        target: torch.Tensor,
    ) -> list[torch.Tensor]:
        """Return each critic's loss on the last minibatch, weighted by transition.

        Args:
            loss: As PyTorch's, with `reduction`.
            currents: What each critic says, one number for each transition.
            target: What it should say, of the same shape.
        """
        with torch.no_grad():
            gaps = torch.stack([(current - target).flatten() for current in currents])
        loss_weights = self.replayer.compute_loss_weights(gaps.numpy())
        weights = torch.as_tensor(loss_weights, dtype=target.dtype).reshape(target.shape)
        return [(weights * loss(one, target, reduction="none")).mean() for one in currents]

    def at(self, places: Indices, env: Any = None) -> ReplaySamples:
        """Return the transitions at some places, as upstream's buffer gives them."""
        own: Any = self
        rows, copies = np.divmod(places, own.n_envs)
        ended = own.dones[rows, copies] * (1 - own.timeouts[rows, copies])
        rewards = own.rewards[rows, copies].reshape(-1, 1)
        normalize = own._normalize_obs
        return ReplaySamples(
            own.to_torch(normalize(own.observations[rows, copies], env)),
            own.to_torch(own.actions[rows, copies]),
            own.to_torch(normalize(own.next_observations[rows, copies], env)),
            own.to_torch(ended.reshape(-1, 1)),
            own.to_torch(own._normalize_reward(rewards, env)),
        )

    def _make_error_reader(self, env: Any) -> ComputeCriticErrors:
        measure = self._errors
        assert measure is not None
        return isolate_error_rng(lambda places: measure(self.at(places, env)))


def isolate_error_rng(errors: Callable[[Indices], torch.Tensor]) -> ComputeCriticErrors:
    """Wrap a function of errors: arrays, with random numbers apart from the training's."""

    def gaps(places: Indices) -> NDArray[Any]:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            return errors(places).numpy()

    return gaps


@contextlib.contextmanager
def time_sampling(replayer: ReplaySampler) -> Iterator[None]:
    """Count what is done within as the drawing of a minibatch, sweeps apart."""
    account = replayer.account
    before, started = account.interleaved_seconds, account.clock()
    yield
    account.sampling += account.clock() - started - (account.interleaved_seconds - before)
    account.start_learning()


@contextlib.contextmanager
def record_replay_cost(replayer: ReplaySampler, monitor: Monitor) -> Iterator[None]:
    """Record the costs of replay and the errors of priorities within the context."""
    replayer.set_recorder(monitor.record)
    hook = register_optimizer_step_post_hook(lambda *_: replayer.account.stepped())
    try:
        yield
    finally:
        hook.remove()
    if isinstance(monitor, CostMonitor):
        monitor.account({"replay": replayer.account.to_dict()})
