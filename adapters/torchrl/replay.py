"""Non-uniform replay: TorchRL's buffer and losses with a strategy's indices and weights.

Its prioritised samplers need compiled trees, which only load with the PyTorch version that its
wheel was built for. But samplers are a public interface, and losses return the error of each
transition, and with `reduction="none"` also its loss.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.objectives import DDPGLoss, DQNLoss, LossModule, SACLoss, TD3Loss

from parallax.adapters.torch_common.prioritized_buffer import (
    isolate_error_rng,
    record_replay_cost,
    time_sampling,
)
from parallax.adapters.torch_common.sum_tree import CompiledSumTree
from parallax.harness.contract.adapter import Monitor
from parallax.harness.replay.replayer import ReplaySampler, make_replay_sampler

SAMPLER_SETTING = "ReplayBuffer.sampler"
"""Setting that names a replay strategy."""

CAPACITY_SETTING = "LazyTensorStorage.max_size"
BATCH_SIZE_SETTING = "TensorDictReplayBuffer.batch_size"


class ReplayStrategySampler(Sampler):  # type: ignore[misc]
    """Sampler of the indices that a replay strategy draws."""

    def __init__(self, replayer: ReplaySampler, loss: "WeightedLoss") -> None:
        """Create the sampler for an empty buffer."""
        self._replayer, self._loss = replayer, loss

    def sample(self, storage: Any, batch_size: int) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the indices of a minibatch."""
        gaps = isolate_error_rng(
            lambda places: self._loss.errors(storage[torch.from_numpy(places)])
        )
        return torch.from_numpy(self._replayer.draw(batch_size, gaps)), {}

    def add(self, index: Any) -> None:
        """Count one stored transition."""
        self._replayer.strategy.add(1)

    def extend(self, index: torch.Tensor) -> None:
        """Count stored transitions, which fill a ring from 0 as the strategy assumes."""
        self._replayer.strategy.add(len(index))

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the strategy is saved separately."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load nothing: the strategy is restored separately."""

    def _empty(self) -> None:
        raise NotImplementedError

    def dumps(self, path: Any) -> None:
        """Write nothing."""

    def loads(self, path: Any) -> None:
        """Read nothing."""


class PrioritizedTensorDictBuffer(TensorDictReplayBuffer):  # type: ignore[misc]
    """TorchRL's buffer with such a sampler; measures the time of sampling."""

    def __init__(self, replayer: ReplaySampler, **settings: Any) -> None:
        super().__init__(**settings)
        self.replayer = replayer

    def sample(self, *arguments: Any, **named: Any) -> Any:
        """Return a minibatch."""
        with time_sampling(self.replayer):
            return super().sample(*arguments, **named)


class WeightedLoss:
    """Mixin before one of TorchRL's losses that weights the losses of its critics.

    Policy and temperature learn from the minibatch without weights.
    """

    replayer: ReplaySampler
    reduction: str

    def errors(self, batch: TensorDictBase) -> torch.Tensor:
        """Return the absolute errors of every critic, [critics, n]."""
        raise NotImplementedError

    def apply_weights(self, losses: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
        """Return the mean of the losses of the last minibatch, [n], each with its weight."""
        loss_weights = self.replayer.compute_loss_weights(errors.detach().cpu().numpy())
        return (losses.new_tensor(loss_weights) * losses).mean()

    @contextlib.contextmanager
    def disable_reduction(self) -> Iterator[None]:
        """Let the loss return one value per transition within the context."""
        usual = self.reduction
        self.reduction = "none"
        try:
            yield
        finally:
            self.reduction = usual


class WeightedDQNLoss(WeightedLoss, DQNLoss):  # type: ignore[misc]
    """Weighted DQN loss."""

    def forward(self, batch: TensorDictBase) -> TensorDict:
        """Return the loss."""
        losses, errors = self._compute_losses(batch)
        return TensorDict(loss=self.apply_weights(losses, errors))

    def errors(self, batch: TensorDictBase) -> torch.Tensor:
        """See `WeightedLoss.errors`."""
        return self._compute_losses(batch)[1]

    def _compute_losses(self, batch: TensorDictBase) -> tuple[torch.Tensor, torch.Tensor]:
        with self.disable_reduction():
            losses = DQNLoss.forward(self, batch)["loss"]
        # DQNLoss, DDPGLoss and TD3Loss report squared errors as `td_error`, SACLoss absolute ones.
        return losses, batch["td_error"].sqrt().reshape(1, -1)


class WeightedDDPGLoss(WeightedLoss, DDPGLoss):  # type: ignore[misc]
    """Weighted DDPG loss."""

    def loss_value(self, batch: TensorDictBase) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the critic's loss."""
        with self.disable_reduction():
            losses, details = DDPGLoss.loss_value(self, batch)
        return self.apply_weights(losses, details["td_error"].sqrt()[None]), details

    def errors(self, batch: TensorDictBase) -> torch.Tensor:
        """See `WeightedLoss.errors`."""
        errors: torch.Tensor = DDPGLoss.loss_value(self, batch)[1]["td_error"]
        return errors.sqrt()[None]


class WeightedTD3Loss(WeightedLoss, TD3Loss):  # type: ignore[misc]
    """Weighted TD3 loss."""

    def value_loss(self, batch: TensorDictBase) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the critics' loss."""
        with self.disable_reduction():
            losses, details = TD3Loss.value_loss(self, batch)
        return self.apply_weights(losses, details["td_error"].sqrt()), details

    def errors(self, batch: TensorDictBase) -> torch.Tensor:
        """See `WeightedLoss.errors`."""
        errors: torch.Tensor = TD3Loss.value_loss(self, batch)[1]["td_error"]
        return errors.sqrt()


class WeightedSACLoss(WeightedLoss, SACLoss):  # type: ignore[misc]
    """Weighted SAC loss; it reports only the larger error of its two critics."""

    def qvalue_v2_loss(self, batch: TensorDictBase) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the critics' loss."""
        with self.disable_reduction():
            losses, details = SACLoss.qvalue_v2_loss(self, batch)
        return self.apply_weights(losses, details["td_error"][None]), details

    def errors(self, batch: TensorDictBase) -> torch.Tensor:
        """See `WeightedLoss.errors`."""
        errors: torch.Tensor = SACLoss.qvalue_v2_loss(self, batch)[1]["td_error"]
        return errors[None]


_WEIGHTED_LOSSES = {
    DQNLoss: WeightedDQNLoss,
    DDPGLoss: WeightedDDPGLoss,
    TD3Loss: WeightedTD3Loss,
    SACLoss: WeightedSACLoss,
}


def get_loss_class(base: Any, settings: Mapping[str, Any]) -> Any:
    """Return TorchRL's loss class, or the weighted one where a replay strategy is configured."""
    if SAMPLER_SETTING not in settings:
        return base

    def make(*arguments: Any, **named: Any) -> WeightedLoss:
        strategy_options = settings[SAMPLER_SETTING]["StrategicSampler"]
        loss: WeightedLoss = _WEIGHTED_LOSSES[base](*arguments, **named)
        loss.replayer = make_replay_sampler(
            strategy_options, settings[CAPACITY_SETTING], CompiledSumTree
        )
        return loss

    return make


def select_vmap_option(settings: Mapping[str, Any]) -> dict[str, bool]:
    """Return the argument of a loss that deactivates vmap; releases before 0.9 have none."""
    return {"deactivate_vmap": True} if settings.get("deactivate_vmap") else {}


def make_replay_buffer(settings: Mapping[str, Any], loss: LossModule) -> TensorDictReplayBuffer:
    """Return an empty replay buffer."""
    usual = {
        "storage": LazyTensorStorage(
            settings[CAPACITY_SETTING], device=next(loss.parameters()).device
        ),
        "batch_size": settings[BATCH_SIZE_SETTING],
    }
    if not isinstance(loss, WeightedLoss):
        return TensorDictReplayBuffer(**usual)
    sampler = ReplayStrategySampler(loss.replayer, loss)
    return PrioritizedTensorDictBuffer(loss.replayer, sampler=sampler, **usual)


@contextlib.contextmanager
def record_buffer_cost(buffer: TensorDictReplayBuffer, monitor: Monitor) -> Iterator[None]:
    """Record the costs of a replay strategy within the context; none for TorchRL's buffer."""
    with contextlib.ExitStack() as stack:
        if isinstance(buffer, PrioritizedTensorDictBuffer):
            stack.enter_context(record_replay_cost(buffer.replayer, monitor))
        yield
