"""Recording of a training in torch for the probes of several adapters; names no framework."""

import contextlib
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.overrides import TorchFunctionMode

from parallax.adapters.torch_common import watch as torch_watch
from parallax.adapters.torch_common.acceleration import get_accelerated_forward
from parallax.adapters.torch_common.scripted_rng import (
    ScalarOrigins,
    ScriptedRngKernels,
    ScriptedRngMode,
    ScriptedRngPause,
)
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.events import LayerForward, LossBackward
from parallax.harness.contract.probing import recorder
from parallax.harness.contract.probing.protocol import Parameters, ProbeMonitor, ProbeScript
from parallax.harness.contract.probing.recorder import find_upstream_line
from parallax.harness.contract.probing.scripted_rng import WatchedFunctions, script_numpy_rng

_FLOAT32, _FLOAT64 = torch.float32, torch.float64


class Float64Mode(TorchFunctionMode):
    """Mode that replaces float32 by float64 in every operation.

    Numbers that a framework stores in NumPy arrays are not changed: stored rewards are rounded
    to float32 there, in all frameworks.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one function of torch."""
        if func is torch.Tensor.float:
            return args[0].double()
        given = {name: _to_float64(value) for name, value in (kwargs or {}).items()}
        result = func(*(_to_float64(value) for value in args), **given)
        if isinstance(result, torch.Tensor) and result.dtype is _FLOAT32:
            return result.double()
        return result


def _to_float64(value: Any) -> Any:
    if value is _FLOAT32:
        return _FLOAT64
    if isinstance(value, torch.Tensor) and value.dtype is _FLOAT32:
        return value.double()
    if type(value) in (list, tuple):
        return type(value)(_to_float64(item) for item in value)
    return value


@contextlib.contextmanager
def train_in_float64(wanted: bool) -> Iterator[None]:
    """Train in float64 within the context, if wanted."""
    if not wanted:
        yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(_FLOAT64)
    try:
        with Float64Mode():
            yield
    finally:
        torch.set_default_dtype(before)


@dataclasses.dataclass(frozen=True)
class TensorLocation:
    """Location of one canonical array.

    Attributes:
        tensor: The framework's tensor.
        index: Index of its part in that tensor.
        columns: The framework's input columns in canonical order, or None for the same order.
    """

    tensor: torch.Tensor
    index: Any = ...
    columns: NDArray[np.int64] | None = None

    def read(self, whole: NDArray[Any]) -> Array:
        """Return the canonical array, where `whole` is the framework's, or its gradient."""
        array = np.array(whole[self.index], dtype=float)
        return array if self.columns is None else array[:, self.columns]

    def write(self, array: Array) -> None:
        """Overwrite the framework's values."""
        if self.columns is not None:
            array = array[:, np.argsort(self.columns)]
        with torch.no_grad():
            part = self.tensor.detach()[self.index]
            part.copy_(torch.as_tensor(array, dtype=part.dtype).reshape(part.shape))


TensorLocations = Mapping[str, TensorLocation]


class TorchNetworks:
    """Networks in torch; reading an unchanged parameter returns the same array as before.

    Args of the constructor:
        locations: Locations of the canonical arrays.
    """

    def __init__(self, locations: TensorLocations) -> None:
        self._locations = locations
        self._views: dict[str, tuple[int, NDArray[Any]]] = {}
        self._last: dict[str, tuple[NDArray[Any], Array]] = {}

    @property
    def names(self) -> Iterable[str]:
        """Names of all canonical arrays."""
        return self._locations

    def read(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Return canonical arrays, all unless some are named; they cannot be written to."""
        return {name: self._read(name) for name in (self._locations if names is None else names)}

    def write(self, weights: Parameters) -> None:
        """Overwrite the framework's values."""
        for name, array in weights.items():
            self._locations[name].write(array)

    def place(self, name: str) -> int:
        """Return the memory address of the tensor's numbers."""
        return self._locations[name].tensor.data_ptr()

    def part(self, name: str, whole: NDArray[Any]) -> Array:
        """Return the canonical array, where `whole` is the framework's, or its gradient."""
        return self._locations[name].read(whole)

    def order_columns(self, pairs: Array) -> Array:
        """Reorder columns from the first critic's order to the canonical one."""
        columns = self._locations["critic1.0.weight"].columns
        return pairs if columns is None else pairs[:, columns]

    def _read(self, name: str) -> Array:
        location = self._locations[name]
        now = self._view(name, location.tensor)[location.index]
        before, array = self._last.get(name, (None, None))
        if before is None or array is None or not np.array_equal(before, now):
            array = location.read(self._view(name, location.tensor))
            array.flags.writeable = False
            self._last[name] = np.array(now), array
        return array

    def _view(self, name: str, tensor: torch.Tensor) -> NDArray[Any]:
        # A view of the tensor's memory; making it takes longer than comparing addresses.
        place, view = self._views.get(name, (0, None))
        if view is None or place != tensor.data_ptr():
            view = tensor.detach().cpu().numpy()
            # A copy from a GPU is old after the next update.
            self._views[name] = tensor.data_ptr() if tensor.is_cpu else 0, view
        return view


def locate_linear_layers(network: str, layers: Mapping[str, Any]) -> dict[str, TensorLocation]:
    """Return the locations of the weights and biases of layers."""
    return {
        f"{network}.{name}.{kind}": TensorLocation(getattr(layer, kind))
        for name, layer in layers.items()
        for kind in ("weight", "bias")
    }


_RNG_WATCH: tuple[WatchedFunctions, Mapping[str, Callable[[], Hashable]]] = (
    (
        (torch, "manual_seed", "torch.manual_seed"),
        (torch, "Generator", "torch.Generator creates a generator"),
        (torch, "set_rng_state", "torch.set_rng_state"),
        (torch.random, "manual_seed", "torch.manual_seed"),
        (torch.random, "set_rng_state", "torch.set_rng_state"),
    ),
    {"torch": lambda: torch.get_rng_state().numpy().tobytes()},
)
"""Functions that seed torch's generator, and a reader of its state."""


class TorchRecorder(recorder.TrainingRecorder):
    """Records one training; `locate` finds the tensors of the networks."""

    def __init__(
        self,
        script: ProbeScript,
        watch: ProbeMonitor,
        locate: Callable[[], TensorLocations],
        stored: recorder.ReadStored,
        read_before_update: bool = False,
    ) -> None:
        def find_networks() -> TorchNetworks | None:
            locations = locate()
            return TorchNetworks(locations) if locations else None

        super().__init__(script, watch, find_networks, stored, read_before_update)
        self._scalars = ScalarOrigins()
        self._scripted_rng: ScriptedRngMode | ScriptedRngKernels = ScriptedRngKernels(script.world)

    @contextlib.contextmanager
    def record_training(self) -> Iterator[None]:
        """Script and record the training within the context; undo all changes afterwards."""
        if self._script.reads_actions_only:
            self._subscribe_to_events(None)
            yield
            return
        if self._script.world.scripted_data.own_rng:
            self._subscribe_to_events(None)
            with self._watch_rng(*_RNG_WATCH), torch_watch.watch_training(self._events):
                yield
            return
        world, pause, around_steps = self._script.world, ScriptedRngPause(), None
        if self._script.traces_lines or world.scripted_data.n_discrete_actions:
            self._scripted_rng = ScriptedRngMode(world)
            around_steps = pause.begin, pause.end
        self._subscribe_to_events(around_steps)
        self._scalars = self._scripted_rng.scalars
        watched = torch_watch.watch_training(self._events)
        double = train_in_float64(self._script.float64)
        with double, watched, script_numpy_rng(world), self._scripted_rng, pause.resume_on_exit():
            yield

    def _start_scripted_rng(self) -> None:
        self._scripted_rng.start()

    def _find_loss_line(self, event: LossBackward) -> str:
        return self._scalars.line(event.place) or find_upstream_line()

    def _get_draw_lines(self) -> Mapping[str, str]:
        return self._scripted_rng.drawn

    def _get_input_size(self, event: LayerForward) -> int:
        if not event.inputs or not torch.is_grad_enabled():
            return 0
        if isinstance(event.layer, torch.nn.Linear):
            return event.layer.in_features
        # A compiled network is reported as one layer: a critic's takes observations and actions.
        forward = get_accelerated_forward(event.layer)
        is_compiled = forward is not None and forward.is_compiled
        return sum(tensor.shape[-1] for tensor in event.inputs) if is_compiled else 0

    def _read_layer_input(self, event: LayerForward) -> Array:
        return np.concatenate([_to_array(_unwrap_vmap(tensor)) for tensor in event.inputs], -1)


def _to_array(tensor: torch.Tensor) -> Array:
    data = tensor.detach().cpu()
    # NumPy has no bfloat16.
    return np.array((data.float() if data.dtype is torch.bfloat16 else data).numpy(), dtype=float)


def _unwrap_vmap(tensor: torch.Tensor) -> torch.Tensor:
    # Within vmap a tensor is one of many; this returns all of them.
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor
