"""Watching a training in torch: what the probing parts of several adapters share.

Nothing of a framework is named here. Weights are written once all networks are there;
optimisers are watched through torch's own hooks.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from adapters.torch_common.randomness import Dictated
from harness.probes.contract import Loss, Parameters, Record, Script, Step, Watch
from harness.probes.results import Array
from harness.probes.world import dictated


@dataclasses.dataclass(frozen=True)
class Slot:
    """Where one canonical array lives.

    Attributes:
        tensor: The framework's tensor.
        index: Which part of it.
        columns: The framework's input columns in canonical order, or None for the same order.
    """

    tensor: torch.Tensor
    index: Any = ...
    columns: NDArray[np.int64] | None = None

    def read(self, tensor: torch.Tensor | None = None) -> Array:
        """The canonical array, or that of the gradient when it is given."""
        part = (self.tensor if tensor is None else tensor).detach()[self.index]
        array = np.array(part.numpy(), dtype=float)
        return array if self.columns is None else array[:, self.columns]

    def write(self, array: Array) -> None:
        """Overwrites the framework's values."""
        if self.columns is not None:
            array = array[:, np.argsort(self.columns)]
        with torch.no_grad():
            part = self.tensor.detach()[self.index]
            part.copy_(torch.as_tensor(array, dtype=part.dtype).reshape(part.shape))


Slots = Mapping[str, Slot]


def linears(network: str, layers: Mapping[str, Any]) -> dict[str, Slot]:
    """Slots of layers that have a weight and a bias."""
    return {
        f"{network}.{name}.{kind}": Slot(getattr(layer, kind))
        for name, layer in layers.items()
        for kind in ("weight", "bias")
    }


__all__ = ["Recorder", "Slot", "captured", "linears"]


class Recorder:
    """Watches one training.

    Args of the constructor:
        script: What is dictated.
        watch: The training's monitor.
        locate: Finds the networks; called when they are all there.
        stored: Reads what the framework stores, in canonical names.
        early: Whether it is read before the first optimiser step, and not at the end.
    """

    def __init__(
        self,
        script: Script,
        watch: Watch,
        locate: Callable[[], Slots],
        stored: Callable[[], Mapping[str, NDArray[Any]]],
        early: bool = False,
    ) -> None:
        self._script, self._watch = script, watch
        self._locate, self._stored, self._early = locate, stored, early
        self._slots: Slots = {}
        self._created: Parameters = {}
        self._steps: list[Step] = []
        self._losses: list[Loss] = []
        self._moves: list[tuple[int, int, str]] = []
        self._targets: dict[str, Array] = {}
        self._seen: Array = np.empty((0, 0))
        self._kept: Mapping[str, NDArray[Any]] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Dictates and records within; leaves nothing behind."""
        world = self._script.world
        world.at_start, world.before_step = self._begin, self._look_at_targets
        backward = torch.Tensor.backward
        recorder = self

        def noted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if tensor.numel() == 1:
                recorder._losses.append(Loss(float(tensor.detach()), len(recorder._steps)))
            return backward(tensor, *args, **kwargs)  # type: ignore[no-untyped-call]

        hooks = (
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
            torch.nn.modules.module.register_module_forward_pre_hook(self._observe),
        )
        tensor_class: Any = torch.Tensor
        tensor_class.backward = noted
        try:
            with dictated(world), Dictated(world):
                yield
        finally:
            tensor_class.backward = backward
            for hook in hooks:
                hook.remove()

    def record(self) -> Record:
        """What was seen."""
        self._look_at_targets()
        return Record(
            created=self._created,
            steps=tuple(self._steps),
            losses=tuple(self._losses),
            target_moves=tuple(self._moves),
            stored=self._kept or self._stored(),
            final=self._read(),
            metrics=tuple(self._watch.metrics),
        )

    def _begin(self) -> None:
        self._slots = self._locate()
        self._created = self._read()
        for name, array in self._script.weights.items():
            self._slots[name].write(array)
        self._targets = self._read_targets()

    def _read(self) -> Parameters:
        return {name: slot.read() for name, slot in self._slots.items()}

    def _read_targets(self) -> dict[str, Array]:
        return {
            name.split(".")[0]: slot.read()
            for name, slot in self._slots.items()
            if "_target." in name and name.endswith(".out.weight")
        }

    def _look_at_targets(self) -> None:
        now, steps = self._read_targets(), len(self._steps)
        for network, array in now.items():
            if not np.array_equal(array, self._targets[network]):
                self._moves.append((self._script.world.steps, steps, network))
        self._targets = now

    def _observe(self, module: torch.nn.Module, args: Any) -> None:
        # The policy's first layer sees observations alone.
        size = self._script.world.dictation.observations.shape[1]
        first = isinstance(module, torch.nn.Linear) and module.in_features == size
        if first and torch.is_grad_enabled() and args:
            self._seen = np.array(args[0].detach().numpy(), dtype=float).reshape(-1, size)

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._look_at_targets()
        settings: dict[str, Mapping[str, float]] = {}
        gradients: dict[str, Array] = {}
        keep = len(self._steps) < self._script.snapshots
        if self._early and not self._steps:
            self._kept = self._stored()
        groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        for name, slot in self._slots.items():
            if id(slot.tensor) in groups:
                settings[name.split(".")[0]] = _numbers(groups[id(slot.tensor)])
                if keep and slot.tensor.grad is not None:
                    gradients[name] = slot.read(slot.tensor.grad)
        step = Step(
            env_steps=self._script.world.steps,
            networks=tuple(settings),
            optimizer=type(optimizer).__name__,
            settings=settings,
            observations=self._seen,
            gradients=gradients,
            before=self._read() if keep else {},
            after={},
        )
        self._steps.append(step)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._steps[-1].before:
            self._steps[-1] = dataclasses.replace(self._steps[-1], after=self._read())


@contextlib.contextmanager
def captured(owner: Any, name: str) -> Iterator[list[Any]]:
    """Keeps what a function returns while it goes on working; restored afterwards."""
    function, results = getattr(owner, name), []

    def keeping(*args: Any, **kwargs: Any) -> Any:
        results.append(function(*args, **kwargs))
        return results[-1]

    setattr(owner, name, keeping)
    try:
        yield results
    finally:
        setattr(owner, name, function)


def _numbers(group: Mapping[str, Any]) -> dict[str, float]:
    numbers = {}
    for name in ("lr", "eps", "weight_decay"):
        if name in group:
            numbers[name] = float(group[name])
    if "betas" in group:
        numbers["beta1"], numbers["beta2"] = (float(beta) for beta in group["betas"])
    return numbers
