"""Scripted replacements of JAX's random number functions.

Keys make no difference: numbers come from the dictation in the order of the environment's steps, as
those of other libraries do. Compiled functions request them anew at each call.
"""

import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from numpy.typing import NDArray

from parallax.adapters.jax_common.eager_execution import is_traced
from parallax.harness.contract.probing.scripted_env import ScriptedWorld
from parallax.harness.contract.probing.scripted_rng import RotatingPermutations, WatchedFunctions

DrawFunction = Callable[..., NDArray[Any]]


@contextlib.contextmanager
def script_jax_rng(world: ScriptedWorld) -> Iterator[None]:
    """Replace what is drawn by `jax.random` once training has begun; put it back afterwards.

    What is compiled within must be called there only.
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
    # What stands for functions of `jax.random`, with their signatures but for the key; in NumPy,
    # since what is compiled must not call JAX.
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
        # Distributions of several dimensions may be drawn with these in front of the rows.
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
