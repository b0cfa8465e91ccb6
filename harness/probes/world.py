"""The scripted environment that probes train on: observations, rewards and ends are dictated.

Nothing depends on the actions, so every implementation sees the same world whatever it does.
NumPy's global random functions are dictated for as long.
"""

import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.tasks import Task
from harness.contract.events import EpisodeBegin, Events
from harness.probes import coins
from harness.probes.results import Array

TERMINATED, TRUNCATED = 1, 2
"""How a step can end an episode; 0 is not at all."""

ENV_ID = "harness.probes:Dictated-v0"


@dataclasses.dataclass(frozen=True)
class Dictation:
    """What the world and its random numbers are, by environment step.

    Attributes:
        observations: float[steps + 1, observations]; row t + 1 follows step t.
        resets: float[steps + 1, observations]; row t + 1 starts an episode after step t.
        rewards: float[steps].
        ends: int[steps]: 0, `TERMINATED` or `TRUNCATED`.
        random_actions: float[steps, actions] in 0..1, shares of the action range.
        acting_noise: float[steps, actions], standard normal numbers for single actions.
        batch_noise: float[rows, actions], standard normal numbers for batches of actions.
        low: Smallest action per dimension.
        high: Largest action per dimension.
        turning: Whether each minibatch is drawn with other whole numbers, and each environment
            step has other noise for batches of actions.
        repeated: How often each whole number comes in a row when many are drawn.
        choices: Number of discrete actions; 0 where actions are continuous. Random actions are
            then float[steps, 1], shares of the choices.
        coin: The random number that decides whether an action is random.
        among: If not 0, minibatches are drawn from so many first steps, each time other ones.
    """

    observations: Array
    resets: Array
    rewards: Array
    ends: NDArray[np.int64]
    random_actions: Array
    acting_noise: Array
    batch_noise: Array
    low: tuple[float, ...]
    high: tuple[float, ...]
    turning: bool = False
    repeated: int = 1
    choices: int = 0
    coin: float = 0.5
    among: int = 0

    @property
    def task(self) -> Task:
        """Sizes and bounds."""
        return Task(ENV_ID, self.observations.shape[1], self.low, self.high, 0, self.choices)

    def pick(self, row: int) -> int:
        """The random choice of a step."""
        return int(self.random_actions[row, 0] * self.choices)

    def noise(self, steps: int) -> Array:
        """Noise for batches of actions after so many environment steps, float[rows, actions]."""
        return np.roll(self.batch_noise, -3 * steps, axis=0) if self.turning else self.batch_noise


@dataclasses.dataclass(frozen=True)
class Draw:
    """Whole numbers that were drawn at once.

    Attributes:
        steps: Environment steps taken before.
        low: Smallest that could be drawn.
        high: One more than the largest.
        count: How many were drawn.
        replaced: Whether one number could be drawn several times.
    """

    steps: int
    low: int
    high: int
    count: int
    replaced: bool = True


@dataclasses.dataclass(frozen=True)
class Transition:
    """One step as the environment saw it.

    Attributes:
        observation: Before the step.
        action: What arrived.
        reward: Of the step.
        next_observation: After the step, before any reset.
        end: 0, `TERMINATED` or `TRUNCATED`.
    """

    observation: Array
    action: Array
    reward: float
    next_observation: Array
    end: int


class World:
    """All copies of the environment in one training, and the clock they share.

    Attributes:
        dictation: What happens when.
        events: Who is told of resets and steps, and the clock.
        copies: Environments made.
        draws: Random whole numbers asked for.
        thresholds: What coins were compared with, with environment steps taken before.
        transitions: All steps, in order.
        started: Whether training has asked for the first observation after networks were made:
            whoever finds the networks says so.
    """

    def __init__(self, dictation: Dictation) -> None:
        self.dictation = dictation
        self.events = Events()
        self.copies = 0
        self.draws: list[Draw] = []
        self.thresholds: list[tuple[int, float]] = []
        self._turns = 0
        self.transitions: list[Transition] = []
        self.started = False

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """A new copy of the environment."""
        return DictatedEnv(self)

    @property
    def steps(self) -> int:
        """Environment steps taken, all copies together."""
        return self.events.steps

    @property
    def row(self) -> int:
        """The current row of the dictation; it stays on the last one after the end."""
        return min(self.steps, len(self.dictation.rewards) - 1)

    def whole_numbers(self, low: int, high: int, count: int) -> NDArray[np.int64]:
        """What stands for `count` random whole numbers from `low` to `high` - 1."""
        if self.dictation.choices == high - low and count <= self.copies:
            return np.full(count, low + self.dictation.pick(self.row))
        self.draws.append(Draw(self.steps, low, high, count))
        d, numbers = self.dictation, np.arange(count) // self.dictation.repeated
        if d.among and min(count, high - low) > 1:
            self._turns += 1
            return low + (numbers + 7 * (self._turns - 1)) % min(d.among, high - low)
        if count > 1 and (d.turning or d.repeated > 1):
            numbers, self._turns = numbers + 7 * self._turns, self._turns + 1
        return low + numbers % (high - low)

    def numbers(self, kind: str, count: int) -> Array:
        """What stands for `count` random numbers of a library's own generator.

        Args:
            kind: `normal` or `uniform`.
            count: As many as there are actions are for one action, others for batches.
        """
        d = self.dictation
        if kind == "uniform":
            return np.resize(d.random_actions[self.row], count)
        if count == len(d.low):
            return np.asarray(d.acting_noise[self.row])
        return np.resize(d.noise(self.steps), count)

    def compared(self, threshold: float) -> None:
        """Notes what a coin was compared with."""
        self.thresholds.append((self.steps, threshold))

    def without_replacement(self, high: int, count: int) -> None:
        """Notes that `count` of 0 to `high` - 1 are drawn, each once at most."""
        self.draws.append(Draw(self.steps, 0, high, count, replaced=False))


class DictatedEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One copy."""

    def __init__(self, world: World) -> None:
        d = world.dictation
        size = d.observations.shape[1]
        self.world = world
        self._number = world.copies
        world.copies += 1
        self._before_step = world.events.stepper()
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space: Any = DictatedChoices(world) if d.choices else DictatedBox(world)
        self._observation = d.observations[0]

    def reset(self, **kwargs: Any) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """The first observation of an episode."""
        self.world.events.tell(EpisodeBegin())
        d, steps = self.world.dictation, self.world.steps
        self._observation = (d.resets if steps else d.observations)[min(steps, len(d.rewards))]
        if not steps:
            # Copies are told apart; twice a float32 number is one.
            self._observation = self._observation * 2.0**self._number
        return self._observation.astype(np.float32), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """The next row."""
        world, d, row = self.world, self.world.dictation, self.world.row
        self._before_step()
        before, self._observation = self._observation, d.observations[row + 1]
        reward, end = float(d.rewards[row]), int(d.ends[row])
        taken = np.array(action, dtype=float)
        world.transitions.append(Transition(before, taken, reward, self._observation, end))
        observation = self._observation.astype(np.float32)
        return observation, reward, end == TERMINATED, end == TRUNCATED, {}


class DictatedBox(gymnasium.spaces.Box):
    """An action space whose samples are dictated."""

    def __init__(self, world: World) -> None:
        self.world = world
        low, high = (np.array(bound, np.float32) for bound in self._bounds(world))
        super().__init__(low, high, low.shape, np.float32)

    def sample(self, mask: Any = None, probability: Any = None) -> NDArray[np.float32]:
        """The random action of the current step."""
        share = self.world.dictation.random_actions[self.world.row]
        return np.asarray(self.low + share * (self.high - self.low), dtype=np.float32)

    def __deepcopy__(self, memo: Any) -> "DictatedBox":
        return DictatedBox(self.world)

    @staticmethod
    def _bounds(world: World) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return world.dictation.low, world.dictation.high


class DictatedChoices(gymnasium.spaces.Discrete):
    """Choices whose samples are dictated."""

    def __init__(self, world: World) -> None:
        self.world = world
        super().__init__(world.dictation.choices)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """The random choice of the current step."""
        return np.int64(self.world.dictation.pick(self.world.row))

    def __deepcopy__(self, memo: Any) -> "DictatedChoices":
        return DictatedChoices(self.world)


@contextlib.contextmanager
def dictated(world: World) -> Iterator[None]:
    """Replaces what frameworks draw from NumPy's global generator once training has begun.

    Everything is restored afterwards.
    Normal numbers come from the dictation. Indices into replay are 0, 1, 2, ..., so that a
    minibatch is the first transitions. Each permutation is another rotation.
    """
    d, turns, choices = world.dictation, Rotations(world), Choices(world)

    def normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        noise = loc + scale * d.acting_noise[world.row]
        return noise if size is None else _shaped(noise, size)

    def randn(*shape: int) -> Any:
        return normal(size=shape)

    def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        shares = d.random_actions[world.row]
        return low + (high - low) * (shares if size is None else np.resize(shares, size))

    def randint(low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        first, last = (0, low) if high is None else (low, high)
        count = 1 if size is None else int(np.prod(size))
        drawn = world.whole_numbers(int(first), int(last), count).astype(dtype)
        return int(drawn[0]) if size is None else drawn.reshape(size)

    def permutation(count: Any) -> Any:
        if isinstance(count, int | np.integer):
            return turns.next(int(count))
        return np.asarray(count)[turns.next(len(count))]

    def shuffle(array: Any) -> None:
        array[:] = np.sort(array)[turns.next(len(array))]

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
    if d.choices:
        replacements |= {"rand": _coins(world), "random": _coins(world)}
    originals = {name: getattr(np.random, name) for name in replacements}
    single = random.random
    try:
        if d.choices:
            setattr(random, "random", _once_started(world, _coins(world), single))  # noqa: B010
        for name, function in replacements.items():
            setattr(np.random, name, _once_started(world, function, originals[name]))
        yield
    finally:
        setattr(random, "random", single)  # noqa: B010
        for name, function in originals.items():
            setattr(np.random, name, function)


def _coins(world: World) -> Callable[..., Any]:
    # One number, one for each copy of the environment, or one for each choice of each copy.
    d = world.dictation

    def rand(*shape: int) -> Any:
        match shape:
            case ():
                return coins.coin(d.coin, world.compared)
            case (count,):
                return coins.coins(d.coin, count, world.compared)
        return coins.scores(d.pick(world.row), shape[0], shape[-1])

    return rand


def _shaped(noise: Any, size: Any) -> Any:
    # The same for all copies of the environment where more than one action is asked for.
    shape = (size,) if isinstance(size, int | np.integer) else tuple(size)
    fits = shape[-1:] == np.shape(noise)[-1:]
    return np.array(np.broadcast_to(noise, shape)) if fits else noise


class Choices:
    """Stands for a generator of NumPy's that only draws places."""

    def __init__(self, world: World) -> None:
        self._world, self._turns = world, Rotations(world)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        """Whole numbers below `a`, or entries of it; weights make no difference."""
        entries = np.arange(a) if isinstance(a, int | np.integer) else np.asarray(a)
        count = 1 if size is None else int(np.prod(size))
        if replace:
            drawn = entries[self._world.whole_numbers(0, len(entries), count)]
        else:
            drawn = entries[self._turns.next(len(entries), count)[:count]]
        return drawn[0] if size is None else drawn.reshape(size)


def _once_started(
    world: World, function: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    return lambda *args, **kwargs: (function if world.started else original)(*args, **kwargs)


class Rotations:
    """Permutations that differ from one call to the next, the first the identity."""

    def __init__(self, world: World) -> None:
        self._world, self._calls = world, 0

    def next(self, size: int, count: int | None = None) -> NDArray[np.int64]:
        """Numbers 0..size-1, rotated by a prime per call; `count` of them are wanted."""
        self._calls += 1
        self._world.without_replacement(size, size if count is None else count)
        return np.roll(np.arange(size), -5 * (self._calls - 1))
