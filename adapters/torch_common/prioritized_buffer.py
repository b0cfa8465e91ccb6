"""Replay buffer of Stable-Baselines3 in which a strategy selects and weights transitions.

CleanRL's scripts import the same class from Stable-Baselines3. It is not named here: each adapter
derives a class from this mixin and the buffer that it finds.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.optimizer import register_optimizer_step_post_hook

from parallax.adapters.torch_common.state import fork_rng
from parallax.adapters.torch_common.sum_tree import CompiledSumTree
from parallax.harness.contract.adapter import CostMonitor, Monitor
from parallax.harness.replay.prioritized import Indices
from parallax.harness.replay.replayer import ComputeCriticErrors, ReplaySampler, make_replay_sampler

ErrorFunction = Callable[[Any], torch.Tensor]
"""Function from a batch of the buffer to the errors of every critic, [critics, n]."""


class ReplaySamples(NamedTuple):
    """Minibatch with the indices it was drawn from, which upstream's own type does not have."""

    observations: torch.Tensor
    actions: torch.Tensor
    next_observations: torch.Tensor
    dones: torch.Tensor
    rewards: torch.Tensor
    # Later releases of SB3 read it, for n-step returns, and use gamma where it is None.
    discounts: None = None


class PrioritizedReplayMixin:
    """Mixin before Stable-Baselines3's buffer that returns the transitions a strategy draws.

    An index is a transition of one of the parallel environments: `row * n_envs + env`.
    """

    def __init__(
        self, buffer_size: int, *arguments: Any, replay_settings: Mapping[str, Any], **settings: Any
    ) -> None:
        """Create upstream's buffer and, from `replay_settings`, the strategy."""
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
        """Return a minibatch; call `compute_weighted_losses` for it before the next one."""
        with time_sampling(self.replayer):
            return self.read_batch(
                self.replayer.draw(batch_size, self._make_error_reader(env)), env
            )

    def compute_weighted_losses(
        self,
        loss: Callable[..., torch.Tensor],
        currents: Sequence[torch.Tensor],
        target: torch.Tensor,
    ) -> list[torch.Tensor]:
        """Return each critic's loss on the last minibatch, weighted by transition.

        Args:
            loss: Loss function like PyTorch's, with `reduction`.
            currents: Predictions of each critic, one number for each transition.
            target: Target of the predictions, of the same shape.
        """
        with torch.no_grad():
            errors = torch.stack([(current - target).flatten() for current in currents])
        loss_weights = self.replayer.compute_loss_weights(errors.cpu().numpy())
        weights = target.new_tensor(loss_weights).reshape(target.shape)
        return [(weights * loss(one, target, reduction="none")).mean() for one in currents]

    def read_batch(self, places: Indices, env: Any = None) -> ReplaySamples:
        """Return the transitions at some indices, as upstream's buffer returns them."""
        own: Any = self
        rows, copies = np.divmod(places, own.n_envs)
        # As `ReplayBuffer._get_samples` of SB3: time limits are not terminal.
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
        return isolate_error_rng(lambda places: measure(self.read_batch(places, env)))


def isolate_error_rng(compute_errors: Callable[[Indices], torch.Tensor]) -> ComputeCriticErrors:
    """Wrap an error function to return arrays and to leave the training's generator unchanged."""

    def compute_isolated(places: Indices) -> NDArray[Any]:
        with fork_rng(), torch.no_grad():
            return compute_errors(places).cpu().numpy()

    return compute_isolated


@contextlib.contextmanager
def time_sampling(replayer: ReplaySampler) -> Iterator[None]:
    """Count the time within the context as sampling, except for interleaved sweeps."""
    account = replayer.account
    before, started = account.interleaved_seconds, account.read_clock()
    yield
    account.sampling += account.read_clock() - started - (account.interleaved_seconds - before)
    account.start_learning()


@contextlib.contextmanager
def record_replay_cost(replayer: ReplaySampler, monitor: Monitor) -> Iterator[None]:
    """Record the costs of replay and the errors of priorities within the context."""
    replayer.set_recorder(monitor.record)
    hook = register_optimizer_step_post_hook(lambda *_: replayer.account.add_learning())
    try:
        yield
    finally:
        hook.remove()
    if isinstance(monitor, CostMonitor):
        monitor.add_costs({"replay": replayer.account.to_dict()})
