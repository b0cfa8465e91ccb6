"""NumPy's global random functions, dictated for a while."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from harness.probes.world import World


@contextlib.contextmanager
def dictated(world: World) -> Iterator[None]:
    """Replaces what frameworks draw from NumPy's global generator once training has begun.

    Everything is restored afterwards.
    Normal numbers come from the dictation. Indices into replay are 0, 1, 2, ..., so that a
    minibatch is the first transitions. Each permutation is another rotation.
    """
    d, turns = world.dictation, Rotations()

    def normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return loc + scale * d.acting_noise[world.row]

    def randint(low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        first, last = (0, low) if high is None else (low, high)
        count = 1 if size is None else int(np.prod(size))
        world.draws.append((world.steps, int(first), int(last), count))
        drawn = (first + np.arange(count) % (last - first)).astype(dtype)
        return int(drawn[0]) if size is None else drawn.reshape(size)

    def permutation(count: Any) -> Any:
        return turns.next(count if isinstance(count, int) else len(count))

    def shuffle(array: Any) -> None:
        array[:] = np.sort(array)[turns.next(len(array))]

    replacements: dict[str, Callable[..., Any]] = {
        "normal": normal,
        "randint": randint,
        "permutation": permutation,
        "shuffle": shuffle,
    }
    originals = {name: getattr(np.random, name) for name in replacements}
    try:
        for name, function in replacements.items():
            setattr(np.random, name, _once_started(world, function, originals[name]))
        yield
    finally:
        for name, function in originals.items():
            setattr(np.random, name, function)


def _once_started(
    world: World, function: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    return lambda *args, **kwargs: (function if world.started else original)(*args, **kwargs)


class Rotations:
    """Permutations that differ from one call to the next, the first the identity."""

    def __init__(self) -> None:
        self._calls = 0

    def next(self, count: int) -> Any:
        """Numbers 0..count-1, rotated by a prime per call."""
        self._calls += 1
        return np.roll(np.arange(count), -5 * (self._calls - 1))
