"""Recording a training in torch: what the probing parts of several adapters share.

Nothing of a framework is named here.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapters.torch_common import watch as torch_watch
from adapters.torch_common.places import Scalars
from adapters.torch_common.precision import doubled
from adapters.torch_common.randomness import Dictated, Kernels, Undisturbed
from harness.contract.events import Backward, Forward
from harness.probes import recording
from harness.probes.contract import Parameters, Script, Watch
from harness.probes.places import upstream_line
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

    def read(self, whole: NDArray[Any]) -> Array:
        """The canonical array, where `whole` is the framework's, or its gradient."""
        array = np.array(whole[self.index], dtype=float)
        return array if self.columns is None else array[:, self.columns]

    def write(self, array: Array) -> None:
        """Overwrites the framework's values."""
        if self.columns is not None:
            array = array[:, np.argsort(self.columns)]
        with torch.no_grad():
            part = self.tensor.detach()[self.index]
            part.copy_(torch.as_tensor(array, dtype=part.dtype).reshape(part.shape))


Slots = Mapping[str, Slot]


class Tensors:
    """Networks in torch; what has not changed is read as the same array as before.

    Args of the constructor:
        slots: Where they are.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._views: dict[str, tuple[int, NDArray[Any]]] = {}
        self._last: dict[str, tuple[NDArray[Any], Array]] = {}

    @property
    def names(self) -> Iterable[str]:
        """Of all slots."""
        return self._slots

    def read(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Canonical arrays, of all slots unless some are named; they cannot be written to."""
        return {name: self._read(name) for name in (self._slots if names is None else names)}

    def write(self, weights: Parameters) -> None:
        """Overwrites the framework's values."""
        for name, array in weights.items():
            self._slots[name].write(array)

    def place(self, name: str) -> int:
        """Where the tensor's numbers lie."""
        return self._slots[name].tensor.data_ptr()

    def part(self, name: str, whole: NDArray[Any]) -> Array:
        """The canonical array, where `whole` is the framework's, or its gradient."""
        return self._slots[name].read(whole)

    def in_order(self, pairs: Array) -> Array:
        """Columns as the first critic has them, in canonical order."""
        columns = self._slots["critic1.0.weight"].columns
        return pairs if columns is None else pairs[:, columns]

    def _read(self, name: str) -> Array:
        slot = self._slots[name]
        now = self._view(name, slot.tensor)[slot.index]
        before, array = self._last.get(name, (None, None))
        if before is None or array is None or not np.array_equal(before, now):
            array = slot.read(self._view(name, slot.tensor))
            array.flags.writeable = False
            self._last[name] = np.array(now), array
        return array

    def _view(self, name: str, tensor: torch.Tensor) -> NDArray[Any]:
        # The numbers of a tensor where they lie; making a view takes longer than a look.
        place, view = self._views.get(name, (0, None))
        if view is None or place != tensor.data_ptr():
            view = tensor.detach().numpy()
            self._views[name] = tensor.data_ptr(), view
        return view


def linears(network: str, layers: Mapping[str, Any]) -> dict[str, Slot]:
    """Slots of layers that have a weight and a bias."""
    return {
        f"{network}.{name}.{kind}": Slot(getattr(layer, kind))
        for name, layer in layers.items()
        for kind in ("weight", "bias")
    }


class Recorder(recording.Recorder):
    """Records one training.

    Args of the constructor:
        script: What is dictated.
        watch: The training's monitor.
        locate: Finds the networks; called at each reset until they are there.
        stored: Reads what the framework stores, in canonical names.
        early: Whether it is read before the first optimiser step that follows steps of the
            environment, each time, and not at the end.
    """

    def __init__(
        self,
        script: Script,
        watch: Watch,
        locate: Callable[[], Slots],
        stored: recording.Stored,
        early: bool = False,
    ) -> None:
        super().__init__(script, watch, stored, early)
        self._locate, self._scalars = locate, Scalars()
        self._dictating: Dictated | Kernels = Kernels(script.world)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Dictates and records within; leaves nothing behind."""
        world, pause, around = self._script.world, Undisturbed(), None
        if self._script.places or world.dictation.choices:
            self._dictating = Dictated(world)
            around = pause.begin, pause.end
        self._subscribe(around)
        self._scalars = self._dictating.scalars
        watched = torch_watch.watching(self._events)
        double = doubled(self._script.double)
        with double, watched, dictated(world), self._dictating, pause.closing():
            yield

    def _located(self) -> Tensors | None:
        slots = self._locate()
        return Tensors(slots) if slots else None

    def _start(self) -> None:
        self._dictating.start()

    def _line(self, event: Backward) -> str:
        return self._scalars.line(event.place) or upstream_line()

    def _drawn(self) -> Mapping[str, str]:
        return self._dictating.drawn

    def _width(self, event: Forward) -> int:
        if not (isinstance(event.layer, torch.nn.Linear) and event.inputs):
            return 0
        return event.layer.in_features if torch.is_grad_enabled() else 0

    def _shown(self, event: Forward) -> Array:
        return np.array(_whole(event.inputs[0]).detach().numpy(), dtype=float)


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    # Within vmap a tensor stands for one of many; here are all.
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor
