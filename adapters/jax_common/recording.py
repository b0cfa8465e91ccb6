"""Recording a training in flax and optax, as `torch_common.recording` does in torch.

Nothing of a framework is named here. Updates are computed operation by operation: what upstream's
own functions make of the numbers is the same, but for the rounding of what a compiler fuses.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from parallax.adapters.jax_common import eager_execution
from parallax.adapters.jax_common import watch as jax_watch
from parallax.adapters.jax_common.parameters import (
    TrainStates,
    get_parameter_arrays,
    weights_from_states,
)
from parallax.adapters.jax_common.scripted_rng import SEEDING_FUNCTIONS, watch_keys
from parallax.adapters.jax_common.scripted_rng import script_jax_rng as drawn
from parallax.adapters.jax_common.watch import FlaxLayer
from parallax.harness.contract.adapter import Array, Weights
from parallax.harness.contract.events import LayerForward
from parallax.harness.contract.probing import recorder
from parallax.harness.contract.probing.protocol import Parameters, ProbeMonitor, ProbeScript
from parallax.harness.contract.probing.scripted_rng import script_numpy_rng


@dataclasses.dataclass(frozen=True)
class ArrayLocation:
    """Location of one canonical array.

    Attributes:
        name: Name of the framework's array, as in `parameters.weights_from_states`.
        index: Index of its part in that array.
        turned: Whether rows are inputs, as in flax's kernels.
    """

    name: str
    index: Any = ...
    transposed: bool = False

    def read(self, whole: NDArray[Any]) -> Array:
        """Return the canonical array, where `whole` is the framework's, or its gradient."""
        array = np.atleast_1d(np.array(whole[self.index], dtype=float))
        return np.ascontiguousarray(array.T) if self.transposed else array

    def write(self, array: Array, whole: NDArray[Any]) -> None:
        """Write the canonical array into the framework's."""
        turned = array.T if self.transposed else array
        whole[self.index] = turned.reshape(whole[self.index].shape)


ArrayLocations = Mapping[str, ArrayLocation]


def locate_linear_layers(
    network: str, layers: Mapping[str, str], index: Any = ...
) -> dict[str, ArrayLocation]:
    """Return the slots of layers that have a kernel and a bias.

    Args:
        network: Canonical name.
        layers: Canonical layers to the framework's.
        index: Which part of the framework's arrays, where one holds several networks.
    """
    kinds = {"weight": ("kernel", True), "bias": ("bias", False)}
    return {
        f"{network}.{ours}.{kind}": ArrayLocation(f"{theirs}.{name}", index, turned)
        for ours, theirs in layers.items()
        for kind, (name, turned) in kinds.items()
    }


class FlaxNetworks:
    """Networks in flax; what has not changed is read as the same array as before.

    Args of the constructor:
        slots: Where they are.
        states: The train states as upstream's object has them now.
        restore: Gives upstream's object other parameters.
    """

    def __init__(
        self,
        slots: ArrayLocations,
        states: Callable[[], TrainStates],
        restore: Callable[[Weights], None],
    ) -> None:
        self._slots, self._states, self._restore = slots, states, restore
        self._last: dict[str, tuple[Any, Array]] = {}

    @property
    def names(self) -> Iterable[str]:
        """Of all slots."""
        return self._slots

    def read(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Canonical arrays, of all slots unless some are named; they cannot be written to."""
        now = get_parameter_arrays(self._states())
        return {n: self._read(n, now) for n in (self._slots if names is None else names)}

    def write(self, weights: Parameters) -> None:
        """Give upstream's object these."""
        if not weights:
            return
        whole = dict(weights_from_states(self._states()))
        for name, array in weights.items():
            self._slots[name].write(array, whole[self._slots[name].name])
        self._restore(whole)

    def place(self, name: str) -> int:
        """Return the number of the parameter that the array is a part of."""
        return eager_execution.get_parameter_id(
            get_parameter_arrays(self._states())[self._slots[name].name]
        )

    def part(self, name: str, whole: NDArray[Any]) -> Array:
        """Return the canonical array, where `whole` is the framework's, or its gradient."""
        return self._slots[name].read(whole)

    def order_columns(self, pairs: Array) -> Array:
        """Return the pairs unchanged: observations come first."""
        return pairs

    def _read(self, name: str, now: Mapping[str, Any]) -> Array:
        leaf = now[self._slots[name].name]
        before, array = self._last.get(name, (None, None))
        if array is None or before is not leaf:  # JAX's arrays never change
            array = self._slots[name].read(np.asarray(leaf))
            array.flags.writeable = False
            self._last[name] = leaf, array
        return array


@contextlib.contextmanager
def compute_in_float64(wanted: bool) -> Iterator[None]:
    """Let JAX make and compute float64 arrays within, if wanted."""
    if not wanted:
        yield
        return
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


class JaxRecorder(recorder.TrainingRecorder):
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
        script: ProbeScript,
        watch: ProbeMonitor,
        locate: Callable[[], FlaxNetworks | None],
        stored: recorder.ReadStored,
        read_before_update: bool = False,
    ) -> None:
        super().__init__(script, watch, stored, read_before_update)
        self._locate = locate

    @contextlib.contextmanager
    def record_training(self) -> Iterator[None]:
        """Script and record within; leave nothing behind."""
        world = self._script.world
        self._subscribe(None)
        if world.scripted_data.own_rng:
            with (
                # flax makes a key to ask an initializer for shapes, at each call of a layer.
                self._watch_rng(SEEDING_FUNCTIONS, {}, eager_execution.is_traced) as watch,
                jax_watch.watch_training(self._events),
                watch_keys(watch.check_key),
            ):
                yield
            return
        with (
            compute_in_float64(self._script.float64),
            jax_watch.watch_training(self._events),
            script_numpy_rng(world),
            drawn(world),
        ):
            yield

    def _find_networks(self) -> FlaxNetworks | None:
        return self._locate()

    def _start_scripted_rng(self) -> None:
        """The world says itself that it has begun."""

    def _get_input_size(self, event: LayerForward) -> int:
        layer = event.layer
        known = isinstance(layer, FlaxLayer) and layer.differentiated and layer.weight is not None
        return layer.weight.shape[1] if known and event.inputs else 0

    def _read_layer_input(self, event: LayerForward) -> Array:
        return np.array(event.inputs[0], dtype=float)
