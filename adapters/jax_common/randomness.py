"""JAX's random numbers, dictated where they are asked for.

Keys make no difference: numbers come from the dictation in the order of the environment's steps, as
those of other libraries do. What is compiled asks once and never again, so all that draws has to be
computed operation by operation: `adapters.jax_common.compiled.all_open`.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from adapters.jax_common.loops import is_traced
from harness.probes.world import Rotations, World


@contextlib.contextmanager
def dictated(world: World) -> Iterator[None]:
    """Replaces what is drawn by `jax.random` once training has begun; puts it back afterwards."""
    draws = _Draws(world)
    originals = {name: getattr(jax.random, name) for name in draws.known}
    try:
        for name, draw in draws.known.items():
            setattr(jax.random, name, _once_started(world, draw, originals[name]))
        yield
    finally:
        for name, original in originals.items():
            setattr(jax.random, name, original)


class _Draws:
    # What stands for functions of `jax.random`, with their signatures.
    def __init__(self, world: World) -> None:
        self._world, self._turns = world, Rotations(world)
        self.known: dict[str, Callable[..., Any]] = {
            "normal": self._normal,
            "uniform": self._uniform,
            "randint": self._randint,
            "permutation": self._permutation,
        }

    def _normal(self, key: Any, shape: Any = (), dtype: Any = float, **_: Any) -> Any:
        return self._numbers("normal", shape, dtype)

    def _uniform(
        self,
        key: Any,
        shape: Any = (),
        dtype: Any = float,
        minval: Any = 0.0,
        maxval: Any = 1.0,
        **_: Any,
    ) -> Any:
        return minval + (maxval - minval) * self._numbers("uniform", shape, dtype)

    def _randint(
        self, key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = int, **_: Any
    ) -> Any:
        drawn = self._world.whole_numbers(int(minval), int(maxval), int(np.prod(shape)))
        return jnp.asarray(drawn.reshape(shape), dtype)

    def _permutation(self, key: Any, x: Any, axis: int = 0, **_: Any) -> Any:
        if not np.ndim(x):
            return jnp.asarray(self._turns.next(int(x)))
        return jnp.take(x, self._turns.next(np.shape(x)[axis]), axis)

    def _numbers(self, kind: str, shape: Any, dtype: Any) -> Any:
        return jnp.asarray(self._world.numbers(kind, int(np.prod(shape))).reshape(shape), dtype)


def _once_started(
    world: World, draw: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if not world.started:
            return original(*args, **kwargs)
        assert not is_traced(args, kwargs), "what is compiled would draw the same number each time"
        return draw(*args, **kwargs)

    return call
