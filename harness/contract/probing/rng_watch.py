"""Watch over random generators while a training draws its own random numbers.

Scripted numbers hide how generators are used. Here frameworks draw what they would draw, and three
things are recorded: calls that seed a generator or make a new one, generators whose state comes
back to an earlier one, and keys that are used twice.
"""

import contextlib
import functools
import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.probing.protocol import GeneratorEvent
from parallax.harness.contract.probing.scripted_env import ScriptedWorld

WatchedFunctions = Sequence[tuple[Any, str, str]]
"""Module, name in it, and name in words of functions that seed or make a generator."""
NUMPY_FUNCTIONS: WatchedFunctions = (
    (np.random, "seed", "numpy.random.seed"),
    (np.random, "set_state", "numpy.random.set_state"),
    (np.random, "default_rng", "numpy.random.default_rng"),
    (random, "seed", "random.seed"),
    (random, "setstate", "random.setstate"),
)


def _read_numpy_state() -> Hashable:
    _, key, position, *_ = np.random.get_state()
    return key.tobytes(), position


STATE_READERS: Mapping[str, Callable[[], Hashable]] = {
    "numpy.random": _read_numpy_state,
    "random": random.getstate,
}
"""Functions that return the state of a global generator, by its name."""


class RngWatch:
    """Records what happens to random generators once the networks exist.

    Args of the constructor:
        world: Says when training has begun.
        count_updates: Returns the optimizer steps taken.
        find_line: Returns the framework's source line that is running; empty if there is none.
        readers: Further readers of states, by the generator's name.
    """

    def __init__(
        self,
        world: ScriptedWorld,
        count_updates: Callable[[], int],
        find_line: Callable[[], str],
        readers: Mapping[str, Callable[[], Hashable]],
    ) -> None:
        self.events: list[GeneratorEvent] = []
        self._world, self._count_updates, self._find_line = world, count_updates, find_line
        self._readers = {**STATE_READERS, **readers}
        self._seen: dict[str, dict[Hashable, None]] = {name: {} for name in self._readers}
        self._last: dict[str, Hashable] = {}
        self._keys: set[Hashable] = set()

    @property
    def _has_begun(self) -> bool:
        # Frameworks seed their environments between the networks' birth and the first step.
        return self._world.started and self._world.steps > 0

    def record(self, description: str) -> None:
        """Record an event if training has begun and a framework's code caused it."""
        line = self._find_line() if self._has_begun else ""
        if line:
            now = self._world.steps, self._count_updates()
            self.events.append(GeneratorEvent(*now, description, line))

    def check_states(self, event: object = None) -> None:
        """Compare the states of the global generators with all earlier ones."""
        if not self._has_begun:
            return
        for name, read in self._readers.items():
            state = hash(read())
            if state == self._last.get(name):
                continue
            if state in self._seen[name]:
                now = self._world.steps, self._count_updates()
                self.events.append(GeneratorEvent(*now, f"{name} is back in an earlier state"))
            self._seen[name][state] = None
            self._last[name] = state

    def check_key(self, function: str, key: Hashable) -> None:
        """Record a random function that is called with the same key again."""
        if self._has_begun and (function, key) in self._keys:
            self.record(f"{function} draws with a key that was used before")
        self._keys.add((function, key))

    @contextlib.contextmanager
    def watch_functions(self, functions: WatchedFunctions) -> Iterator[None]:
        """Record calls of functions within the context; put the originals back afterwards."""
        watched = (*NUMPY_FUNCTIONS, *functions)
        originals = [getattr(owner, name) for owner, name, _ in watched]
        try:
            for (owner, name, words), original in zip(watched, originals, strict=True):
                setattr(owner, name, self._wrap(original, words))
            yield
        finally:
            for (owner, name, _), original in zip(watched, originals, strict=True):
                setattr(owner, name, original)

    def _wrap(self, original: Callable[..., Any], words: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.record(words)
            return original(*args, **kwargs)

        return call
