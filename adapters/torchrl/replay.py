"""Replay other than uniform: TorchRL's own buffer and losses, places and weights by a strategy.

Its prioritised samplers need compiled trees that load with the PyTorch only that its wheel was
built for. A sampler is a public interface, though, and losses tell the error of each transition,
and each one's loss where they are asked not to reduce.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.objectives import DDPGLoss, DQNLoss, LossModule, SACLoss, TD3Loss

from adapters.torch_common.strategic import accounted, apart, sampling
from adapters.torch_common.sum_tree import CompiledTree
from harness.contract.adapter import Monitor
from harness.replay.replayer import Replayer, make_replayer

SAMPLER = "ReplayBuffer.sampler"
"""Setting that tells of a strategy."""

CAPACITY, BATCH = "LazyTensorStorage.max_size", "TensorDictReplayBuffer.batch_size"


class StrategicSampler(Sampler):  # type: ignore[misc]
    """Chooses the places that a strategy draws."""

    def __init__(self, replayer: Replayer, loss: "Weighing") -> None:
        """Has seen nothing stored yet.

        Args:
            replayer: The strategy in this training.
            loss: Tells the errors of transitions under the current networks.
        """
        self._replayer, self._loss = replayer, loss

    def sample(self, storage: Any, batch_size: int) -> tuple[torch.Tensor, dict[str, Any]]:
        """Places of a minibatch."""
        gaps = apart(lambda places: self._loss.errors(storage[torch.from_numpy(places)]))
        return torch.from_numpy(self._replayer.draw(batch_size, gaps)), {}

    def add(self, index: Any) -> None:
        """One transition was stored."""
        self._replayer.strategy.add(1)

    def extend(self, index: torch.Tensor) -> None:
        """Some were stored, in a ring from 0 as the strategy has it."""
        self._replayer.strategy.add(len(index))

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the strategy is kept by itself."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing is laid in."""

    def _empty(self) -> None:
        raise NotImplementedError

    def dumps(self, path: Any) -> None:
        """Writes nothing."""

    def loads(self, path: Any) -> None:
        """Reads nothing."""


class StrategicBuffer(TensorDictReplayBuffer):  # type: ignore[misc]
    """TorchRL's buffer with such a sampler; counts what drawing costs."""

    def __init__(self, replayer: Replayer, **settings: Any) -> None:
        super().__init__(**settings)
        self.replayer = replayer

    def sample(self, *arguments: Any, **named: Any) -> Any:
        """A minibatch."""
        with sampling(self.replayer):
            return super().sample(*arguments, **named)


class Weighing:
    """Stands before one of TorchRL's losses, whose critics learn by weights.

    Policy and temperature learn from the minibatch without weights.
    """

    replayer: Replayer
    reduction: str

    def errors(self, batch: TensorDictBase) -> torch.Tensor:
        """Absolute errors of every critic, [critics, n]."""
        raise NotImplementedError

    def weighed(self, losses: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
        """The mean of the losses of the last minibatch, [n], each with its weight."""
        told = self.replayer.weigh(errors.detach().numpy())
        return (torch.as_tensor(told, dtype=losses.dtype) * losses).mean()

    @contextlib.contextmanager
    def unreduced(self) -> Iterator[None]:
        """Has losses come back as they are for each transition."""
        usual = self.reduction
        self.reduction = "none"
        try:
            yield
        finally:
            self.reduction = usual


class WeighedDQN(Weighing, DQNLoss):  # type: ignore[misc]
    """DQN's."""

    def forward(self, batch: TensorDictBase) -> TensorDict:
        """The loss."""
        losses, errors = self._each(batch)
        return TensorDict(loss=self.weighed(losses, errors))

    def errors(self, batch: TensorDictBase) -> torch.Tensor:
        """See `Weighing.errors`."""
        return self._each(batch)[1]

    def _each(self, batch: TensorDictBase) -> tuple[torch.Tensor, torch.Tensor]:
        with self.unreduced():
            losses = DQNLoss.forward(self, batch)["loss"]
        return losses, batch["td_error"].sqrt().reshape(1, -1)


class WeighedDDPG(Weighing, DDPGLoss):  # type: ignore[misc]
    """DDPG's."""

    def loss_value(self, batch: TensorDictBase) -> tuple[torch.Tensor, dict[str, Any]]:
        """The critic's loss."""
        with self.unreduced():
            losses, details = DDPGLoss.loss_value(self, batch)
        return self.weighed(losses, details["td_error"].sqrt()[None]), details

    def errors(self, batch: TensorDictBase) -> torch.Tensor:
        """See `Weighing.errors`."""
        errors: torch.Tensor = DDPGLoss.loss_value(self, batch)[1]["td_error"]
        return errors.sqrt()[None]


class WeighedTD3(Weighing, TD3Loss):  # type: ignore[misc]
    """TD3's."""

    def value_loss(self, batch: TensorDictBase) -> tuple[torch.Tensor, dict[str, Any]]:
        """The critics' loss."""
        with self.unreduced():
            losses, details = TD3Loss.value_loss(self, batch)
        return self.weighed(losses, details["td_error"].sqrt()), details

    def errors(self, batch: TensorDictBase) -> torch.Tensor:
        """See `Weighing.errors`."""
        errors: torch.Tensor = TD3Loss.value_loss(self, batch)[1]["td_error"]
        return errors.sqrt()


class WeighedSAC(Weighing, SACLoss):  # type: ignore[misc]
    """SAC's, which tells the larger error of its critics only."""

    def qvalue_v2_loss(self, batch: TensorDictBase) -> tuple[torch.Tensor, dict[str, Any]]:
        """The critics' loss."""
        with self.unreduced():
            losses, details = SACLoss.qvalue_v2_loss(self, batch)
        return self.weighed(losses, details["td_error"][None]), details

    def errors(self, batch: TensorDictBase) -> torch.Tensor:
        """See `Weighing.errors`."""
        errors: torch.Tensor = SACLoss.qvalue_v2_loss(self, batch)[1]["td_error"]
        return errors[None]


_WEIGHED = {DQNLoss: WeighedDQN, DDPGLoss: WeighedDDPG, TD3Loss: WeighedTD3, SACLoss: WeighedSAC}


def loss_class(base: Any, settings: Mapping[str, Any]) -> Any:
    """TorchRL's class as it is, or where a strategy is asked for the one that weighs.

    Args:
        base: TorchRL's.
        settings: Of the run.
    """
    if SAMPLER not in settings:
        return base

    def make(*arguments: Any, **named: Any) -> Weighing:
        told = settings[SAMPLER]["StrategicSampler"]
        loss: Weighing = _WEIGHED[base](*arguments, **named)
        loss.replayer = make_replayer(told, settings[CAPACITY], CompiledTree)
        return loss

    return make


def buffer_of(settings: Mapping[str, Any], loss: LossModule) -> TensorDictReplayBuffer:
    """An empty replay buffer.

    Args:
        settings: Of the run.
        loss: What learns from it.
    """
    usual = {"storage": LazyTensorStorage(settings[CAPACITY]), "batch_size": settings[BATCH]}
    if not isinstance(loss, Weighing):
        return TensorDictReplayBuffer(**usual)
    sampler = StrategicSampler(loss.replayer, loss)
    return StrategicBuffer(loss.replayer, sampler=sampler, **usual)


@contextlib.contextmanager
def recorded(buffer: TensorDictReplayBuffer, monitor: Monitor) -> Iterator[None]:
    """Has a run record what a strategy costs within; of TorchRL's own buffer nothing."""
    with contextlib.ExitStack() as stack:
        if isinstance(buffer, StrategicBuffer):
            stack.enter_context(accounted(buffer.replayer, monitor))
        yield
