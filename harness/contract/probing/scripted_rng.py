"""Scripted replacements of NumPy's and Python's random numbers, and a watch over generators.

Epsilon-greedy implementations draw a number between 0 and 1 and compare it with epsilon. The
numbers drawn here record what they are compared with, so that one run shows the whole schedule.

Scripted numbers hide how generators are used. `RngWatch` records that where frameworks draw their
own numbers: calls that seed a generator or make a new one, generators whose state comes back to an
earlier one, and keys that are used twice.
"""

import contextlib
import functools
import operator
import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import GeneratorEvent
from parallax.harness.contract.probing.scripted_env import ScriptedWorld

RecordThreshold = Callable[[float], None]
"""Receives the number that a random number is compared with."""
COMPARISONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
"""Comparisons that are recorded, by the name of Python's operator."""


class _RecordedComparisons:
    """Comparisons of a number or an array that `_compare` carries out."""

    record_threshold: RecordThreshold

    def __lt__(self, other: Any) -> Any:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("gt", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare("ge", other)

    def _compare(self, how: str, other: Any) -> Any:
        raise NotImplementedError


class ThresholdSpy(_RecordedComparisons, float):
    """A number that reports what it is compared with."""

    def _compare(self, how: str, other: Any) -> bool:
        self.record_threshold(float(other))
        return bool(COMPARISONS[how](float(self), float(other)))


class ThresholdSpyArray(_RecordedComparisons, np.ndarray[Any, Any]):
    """Such numbers for all parallel environments at once."""

    def _compare(self, how: str, other: Any) -> Any:
        self.record_threshold(float(np.max(other)))
        return COMPARISONS[how](self.view(np.ndarray), other)


def make_threshold_spy(value: float, record_threshold: RecordThreshold) -> ThresholdSpy:
    """Return a number that reports what it is compared with."""
    made = ThresholdSpy(value)
    made.record_threshold = record_threshold
    return made


def make_threshold_spies(value: float, count: int, record_threshold: RecordThreshold) -> Array:
    """Return `count` such numbers, float[count]."""
    made = np.full(count, value).view(ThresholdSpyArray)
    made.record_threshold = record_threshold
    return made


def make_choice_scores(action: int, rows: int, n_actions: int) -> Array:
    """Return numbers of which that of one discrete action is the largest, [rows, n_actions]."""
    found = np.zeros((rows, n_actions))
    found[:, action] = 1.0
    return found


@contextlib.contextmanager
def script_numpy_rng(world: ScriptedWorld) -> Iterator[None]:
    """Replace NumPy's global random functions once training has begun, and restore them.

    Normal numbers come from the script. Replay indices are 0, 1, 2, ..., so that a minibatch is
    the first transitions. Each permutation is another rotation.
    """
    d = world.scripted_data
    turns, choices = RotatingPermutations(world), ScriptedChoiceGenerator(world)

    def normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        drawn = d.acting_noise[world.row]  # of no dimension where actions are discrete
        noise = loc + scale * (drawn if np.size(drawn) else np.float64(d.exploration_draw))
        return noise if size is None else _broadcast_noise(noise, size)

    def randn(*shape: int) -> Any:
        return normal(size=shape)

    def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        shares = d.random_actions[world.row]
        return low + (high - low) * (shares if size is None else np.resize(shares, size))

    def randint(low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        first, last = (0, low) if high is None else (low, high)
        count = 1 if size is None else int(np.prod(size))
        drawn = world.draw_integers(int(first), int(last), count).astype(dtype)
        return int(drawn[0]) if size is None else drawn.reshape(size)

    def permutation(count: Any) -> Any:
        if isinstance(count, int | np.integer):
            return turns.draw_permutation(int(count))
        return np.asarray(count)[turns.draw_permutation(len(count))]

    def shuffle(array: Any) -> None:
        array[:] = np.sort(array)[turns.draw_permutation(len(array))]

    replacements: dict[str, Callable[..., Any]] = {
        "normal": normal,
        "standard_normal": lambda size=None: normal(size=size),
        "randn": randn,
        "uniform": uniform,
        "randint": randint,
        "choice": choices.choice,
        "permutation": permutation,
        "shuffle": shuffle,
    }
    if d.n_discrete_actions:
        replacements |= dict.fromkeys(("rand", "random"), _make_threshold_spies(world))
    originals = {name: getattr(np.random, name) for name in replacements}
    single = random.random
    try:
        if d.n_discrete_actions:
            setattr(random, "random", _use_after_start(world, _make_threshold_spies(world), single))  # noqa: B010
        for name, function in replacements.items():
            setattr(np.random, name, _use_after_start(world, function, originals[name]))
        yield
    finally:
        setattr(random, "random", single)  # noqa: B010
        for name, function in originals.items():
            setattr(np.random, name, function)


def _make_threshold_spies(world: ScriptedWorld) -> Callable[..., Any]:
    # One number, one per environment, or one per environment and discrete action.
    d = world.scripted_data

    def rand(*shape: int) -> Any:
        match shape:
            case ():
                return make_threshold_spy(d.exploration_draw, world.record_threshold)
            # Tianshou's dqn.py draws one per environment, and an action as the largest of several.
            case (count,):
                return make_threshold_spies(d.exploration_draw, count, world.record_threshold)
        return make_choice_scores(d.get_random_choice(world.row), shape[0], shape[-1])

    return rand


def _broadcast_noise(noise: Any, size: Any) -> Any:
    # The same noise for all environments if several actions are drawn.
    shape = (size,) if isinstance(size, int | np.integer) else tuple(size)
    fits = np.shape(noise)[-1:] in ((), shape[-1:])
    return np.array(np.broadcast_to(noise, shape)) if fits else noise


class ScriptedChoiceGenerator:
    """Replacement of a NumPy generator that is used to draw indices only."""

    def __init__(self, world: ScriptedWorld) -> None:
        self._world, self._turns = world, RotatingPermutations(world)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        """Return scripted integers below `a`, or entries of it; `p` is ignored."""
        entries = np.arange(a) if isinstance(a, int | np.integer) else np.asarray(a)
        count = 1 if size is None else int(np.prod(size))
        if replace:
            drawn = entries[self._world.draw_integers(0, len(entries), count)]
        else:
            drawn = entries[self._turns.draw_permutation(len(entries), count)[:count]]
        return drawn[0] if size is None else drawn.reshape(size)


def _use_after_start(
    world: ScriptedWorld, function: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    return lambda *args, **kwargs: (function if world.started else original)(*args, **kwargs)


class RotatingPermutations:
    """Permutations that differ from call to call; the first is the identity.

    Where the script says so, each begins with the integers that a draw with replacement would give.
    """

    def __init__(self, world: ScriptedWorld) -> None:
        self._world, self._calls = world, 0

    def draw_permutation(self, size: int, count: int | None = None) -> NDArray[np.int64]:
        """Return 0..size-1, rotated by 5 more in each call; the caller uses `count` of them."""
        self._calls += 1
        self._world.record_permutation(size, size if count is None else count)
        if self._world.scripted_data.permutes_as_draws:
            return self._world.permute_as_draws(size)
        return np.roll(np.arange(size), -5 * (self._calls - 1))


WatchedFunctions = Sequence[tuple[Any, str, str]]
"""Module, name in it, and name in words of functions that seed or make a generator, or classes."""
NUMPY_FUNCTIONS: WatchedFunctions = (
    (np.random, "seed", "numpy.random.seed"),
    (np.random, "set_state", "numpy.random.set_state"),
    (np.random, "default_rng", "numpy.random.default_rng creates a generator"),
    (np.random, "RandomState", "numpy.random.RandomState creates a generator"),
    (random, "Random", "random.Random creates a generator"),
    (random, "seed", "random.seed"),
    (random, "setstate", "random.setstate"),
)


def _read_numpy_state() -> Hashable:
    state: dict[str, Any] = np.random.get_state(legacy=False)
    return state["state"]["key"].tobytes(), state["state"]["pos"], state["has_gauss"]


STATE_READERS: Mapping[str, Callable[[], Hashable]] = {
    "numpy.random": _read_numpy_state,
    "random": random.getstate,
}
"""Functions that return the state of a global generator, by its name."""


class _WatchedClass(type):
    """A stand-in for a class, whose objects are those of the class, that reports each new one."""

    def __new__(cls, original: type, report: Callable[[], None]) -> "_WatchedClass":
        return super().__new__(cls, original.__name__, (), {"__doc__": original.__doc__})

    def __init__(cls, original: type, report: Callable[[], None]) -> None:
        super().__init__(original.__name__, (), {})
        cls._original, cls._report = original, report

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        cls._report()
        return cls._original(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._original, name)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._original)


class RngWatch:
    """Records what happens to random generators once the networks exist.

    Args of the constructor:
        world: Says when training has begun.
        count_updates: Returns the optimizer steps taken.
        find_line: Returns the framework's source line that is running; empty if there is none.
        readers: Further readers of states, by the generator's name.
        is_abstract: Returns whether a function's result has no values, for example if the
            library only traces shapes.
    """

    def __init__(
        self,
        world: ScriptedWorld,
        count_updates: Callable[[], int],
        find_line: Callable[[], str],
        readers: Mapping[str, Callable[[], Hashable]],
        is_abstract: Callable[[Any], bool] = lambda made: False,
    ) -> None:
        self._is_abstract = is_abstract
        self.events: list[GeneratorEvent] = []
        self._world, self._count_updates, self._find_line = world, count_updates, find_line
        self._readers = {**STATE_READERS, **readers}
        self._seen: dict[str, dict[Hashable, None]] = {name: {} for name in self._readers}
        self._last: dict[str, Hashable] = {}
        self._keys: set[Hashable] = set()

    @property
    def _has_begun(self) -> bool:
        # Frameworks seed their environments after creating the networks, before the first step.
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
        if isinstance(original, type):
            return _WatchedClass(original, lambda: self.record(words))

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            if not self._is_abstract(made):
                self.record(words)
            return made

        return call
