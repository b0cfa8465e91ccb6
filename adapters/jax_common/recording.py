"""Recording of a training in flax and optax, as `torch_common.recording` does in torch.

No framework is named here. Updates are computed operation by operation: upstream's own functions
give the same numbers, except for rounding in operations that a compiler fuses. Random numbers
come from the script in the order of the environment's steps, as for other libraries. Keys make no
difference, and compiled functions request new numbers at each call.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from numpy.typing import NDArray

from parallax.adapters.jax_common import eager_execution
from parallax.adapters.jax_common import watch as jax_watch
from parallax.adapters.jax_common.eager_execution import is_traced
from parallax.adapters.jax_common.parameters import (
    TrainStates,
    get_parameter_arrays,
    weights_from_states,
)
from parallax.adapters.jax_common.watch import FlaxLayer
from parallax.harness.contract.adapter import Array, Weights
from parallax.harness.contract.events import LayerForward
from parallax.harness.contract.probing import recorder
from parallax.harness.contract.probing.protocol import Parameters
from parallax.harness.contract.probing.scripted_env import ScriptedWorld
from parallax.harness.contract.probing.scripted_rng import (
    RotatingPermutations,
    WatchedFunctions,
    script_numpy_rng,
)


@dataclasses.dataclass(frozen=True)
class ArrayLocation:
    """Location of one canonical array.

    Attributes:
        name: Name of the framework's array, as in `parameters.weights_from_states`.
        index: Index of its part in that array.
        transposed: Whether rows are inputs, as in flax's kernels.
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
    """Return the locations of layers' kernels and biases, `index` in arrays of several networks."""
    kinds = {"weight": ("kernel", True), "bias": ("bias", False)}
    return {
        f"{network}.{ours}.{kind}": ArrayLocation(f"{theirs}.{name}", index, turned)
        for ours, theirs in layers.items()
        for kind, (name, turned) in kinds.items()
    }


class FlaxNetworks:
    """Networks in flax; reading an unchanged parameter returns the same array as before.

    Args of the constructor:
        locations: Locations of the canonical arrays.
        states: The train states as upstream's object has them now.
        restore: Sets the parameters of upstream's object.
    """

    def __init__(
        self,
        locations: ArrayLocations,
        states: Callable[[], TrainStates],
        restore: Callable[[Weights], None],
    ) -> None:
        self._locations, self._states, self._restore = locations, states, restore
        self._last: dict[str, tuple[Any, Array]] = {}

    @property
    def names(self) -> Iterable[str]:
        """Names of all canonical arrays."""
        return self._locations

    def read(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Return canonical arrays, all unless some are named; they cannot be written to."""
        now = get_parameter_arrays(self._states())
        return {n: self._read(n, now) for n in (self._locations if names is None else names)}

    def write(self, weights: Parameters) -> None:
        """Set these parameters in upstream's object."""
        if not weights:
            return
        whole = dict(weights_from_states(self._states()))
        for name, array in weights.items():
            self._locations[name].write(array, whole[self._locations[name].name])
        self._restore(whole)

    def place(self, name: str) -> int:
        """Return the number of the parameter that the array is a part of."""
        return eager_execution.get_parameter_id(
            get_parameter_arrays(self._states())[self._locations[name].name]
        )

    def part(self, name: str, whole: NDArray[Any]) -> Array:
        """Return the canonical array, where `whole` is the framework's, or its gradient."""
        return self._locations[name].read(whole)

    def order_columns(self, pairs: Array) -> Array:
        """Return the pairs unchanged: observations come first."""
        return pairs

    def _read(self, name: str, now: Mapping[str, Any]) -> Array:
        leaf = now[self._locations[name].name]
        before, array = self._last.get(name, (None, None))
        if array is None or before is not leaf:  # JAX's arrays never change
            array = self._locations[name].read(np.asarray(leaf))
            array.flags.writeable = False
            self._last[name] = leaf, array
        return array


@contextlib.contextmanager
def compute_in_float64(wanted: bool) -> Iterator[None]:
    """Let JAX compute with float64 arrays within the context, if wanted."""
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
    """Records one training."""

    @contextlib.contextmanager
    def record_training(self) -> Iterator[None]:
        """Script and record the training within the context; undo all changes afterwards."""
        world = self._script.world
        self._subscribe_to_events(None)
        if self._script.reads_actions_only:  # upstream's compiled updates, which are faster
            yield
            return
        if world.scripted_data.own_rng:
            with (
                # flax makes a key to ask an initializer for shapes.
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
            script_jax_rng(world),
        ):
            yield

    def _start_scripted_rng(self) -> None:
        """Do nothing: the scripted environment marks the start itself."""

    def _get_input_size(self, event: LayerForward) -> int:
        layer = event.layer
        known = isinstance(layer, FlaxLayer) and layer.differentiated and layer.weight is not None
        return layer.weight.shape[1] if known and event.inputs else 0

    def _read_layer_input(self, event: LayerForward) -> Array:
        return np.array(event.inputs[0], dtype=float)


DrawFunction = Callable[..., NDArray[Any]]


@contextlib.contextmanager
def script_jax_rng(world: ScriptedWorld) -> Iterator[None]:
    """Replace the draws of `jax.random` once training has begun; restore them afterwards.

    Functions that are compiled within the context must only be called there.
    """
    draws = _ScriptedDraws(world).known
    originals = {name: getattr(jax.random, name) for name in draws}
    try:
        for name, draw in draws.items():
            setattr(jax.random, name, _script_after_start(world, draw, originals[name]))
        yield
    finally:
        for name, original in originals.items():
            setattr(jax.random, name, original)


SEEDING_FUNCTIONS: WatchedFunctions = (
    (jax.random, "PRNGKey", "jax.random.PRNGKey"),
    (jax.random, "key", "jax.random.key"),
)
"""Functions that make a key from a number."""
DRAW_FUNCTIONS = ("normal", "uniform", "randint", "permutation", "choice", "categorical", "split")
"""Functions of `jax.random` whose keys are watched; splitting a key twice gives the same keys."""


@contextlib.contextmanager
def watch_keys(check_key: Callable[[str, Hashable], None]) -> Iterator[None]:
    """Report the keys with which functions of `jax.random` are called within the context."""
    originals = {name: getattr(jax.random, name) for name in DRAW_FUNCTIONS}

    def watch(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(key: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_traced(key):
                arguments = [str(argument) for argument in args if np.ndim(argument) == 0]
                data = np.asarray(jax.random.key_data(key)).tobytes()
                check_key(f"jax.random.{name}", (data, *arguments))
            return original(key, *args, **kwargs)

        return call

    try:
        for name, original in originals.items():
            setattr(jax.random, name, watch(name, original))
        yield
    finally:
        for name, original in originals.items():
            setattr(jax.random, name, original)


class _ScriptedDraws:
    # Replacements of functions of `jax.random`, with their signatures except for the key; in NumPy,
    # since callbacks of compiled functions must not call JAX.
    def __init__(self, world: ScriptedWorld) -> None:
        self._world, self._turns = world, RotatingPermutations(world)
        self.known: dict[str, DrawFunction] = {
            "normal": self._normal,
            "uniform": self._uniform,
            "randint": self._randint,
            "permutation": self._permutation,
        }

    def _normal(self, shape: Any = (), dtype: Any = float, **_: Any) -> NDArray[Any]:
        return self._numbers("normal", tuple(shape))

    def _uniform(
        self, shape: Any = (), dtype: Any = float, minval: Any = 0.0, maxval: Any = 1.0, **_: Any
    ) -> NDArray[Any]:
        return np.asarray(minval + (maxval - minval) * self._numbers("uniform", tuple(shape)))

    def _randint(
        self, shape: Any, minval: Any, maxval: Any, dtype: Any = int, **_: Any
    ) -> NDArray[Any]:
        drawn = self._world.draw_integers(int(minval), int(maxval), int(np.prod(shape)))
        return drawn.reshape(shape)

    def _permutation(self, x: Any, axis: int = 0, **_: Any) -> NDArray[Any]:
        if not np.ndim(x):
            return self._turns.draw_permutation(int(x))
        return np.take(np.asarray(x), self._turns.draw_permutation(np.shape(x)[axis]), axis)

    def _numbers(self, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
        # Distributions of several dimensions may draw with the dimensions in front of the rows.
        size = len(self._world.scripted_data.low)
        turned = len(shape) > 1 and shape[-1] != size == shape[-2]
        drawn_shape = (*shape[:-2], shape[-1], shape[-2]) if turned else shape
        numbers = self._world.draw_numbers(kind, int(np.prod(shape))).reshape(drawn_shape)
        return numbers.swapaxes(-1, -2) if turned else numbers


def _script_after_start(
    world: ScriptedWorld, draw: DrawFunction, original: Callable[..., Any]
) -> Callable[..., Any]:
    def call(key: Any, *args: Any, **kwargs: Any) -> Any:
        if not world.started:
            return original(key, *args, **kwargs)
        like = jax.eval_shape(lambda key: original(key, *args, **kwargs), key)
        if is_traced(key):
            return io_callback(lambda: draw(*args, **kwargs).astype(like.dtype), like)
        return jnp.asarray(draw(*args, **kwargs), like.dtype)

    return call
