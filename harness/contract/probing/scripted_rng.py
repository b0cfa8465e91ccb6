"""Scripted replacements of NumPy's and Python's random numbers.

Epsilon-greedy implementations draw a number between 0 and 1 and compare it with epsilon. The
numbers drawn here record what they are compared with, so that one run shows the whole schedule.
"""

import contextlib
import operator
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.scripted_env import ScriptedWorld

RecordThreshold = Callable[[float], None]
"""Receives the number that a random number is compared with."""
COMPARISONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
"""Comparisons that are recorded, by the name of Python's operator."""


class ThresholdSpy(float):
    """A number that reports what it is compared with."""

    record_threshold: RecordThreshold

    def __lt__(self, other: Any) -> bool:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> bool:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> bool:
        return self._compare("gt", other)

    def __ge__(self, other: Any) -> bool:
        return self._compare("ge", other)

    def _compare(self, how: str, other: Any) -> bool:
        self.record_threshold(float(other))
        return bool(COMPARISONS[how](float(self), float(other)))


class ThresholdSpyArray(np.ndarray[Any, Any]):
    """Such numbers for all parallel environments at once."""

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
    d, turns, choices = (
        world.scripted_data,
        RotatingPermutations(world),
        ScriptedChoiceGenerator(world),
    )

    def normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        noise = loc + scale * d.acting_noise[world.row]
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
        replacements |= {
            "rand": _make_threshold_spies(world),
            "random": _make_threshold_spies(world),
        }
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
            case (count,):
                return make_threshold_spies(d.exploration_draw, count, world.record_threshold)
        return make_choice_scores(d.get_random_choice(world.row), shape[0], shape[-1])

    return rand


def _broadcast_noise(noise: Any, size: Any) -> Any:
    # The same noise for all environments if several actions are drawn.
    shape = (size,) if isinstance(size, int | np.integer) else tuple(size)
    fits = shape[-1:] == np.shape(noise)[-1:]
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
    """Permutations that differ from call to call; the first is the identity."""

    def __init__(self, world: ScriptedWorld) -> None:
        self._world, self._calls = world, 0

    def draw_permutation(self, size: int, count: int | None = None) -> NDArray[np.int64]:
        """Return 0..size-1, rotated by 5 more in each call; the caller uses `count` of them."""
        self._calls += 1
        self._world.record_permutation(size, size if count is None else count)
        return np.roll(np.arange(size), -5 * (self._calls - 1))
