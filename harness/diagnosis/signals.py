"""Inputs of checks: bounded series of numbers, and facts of a training that do not change."""

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_MAX_THINNED = 256
_MAX_RECENT = 64


class SignalSeries:
    """Values over environment steps, in bounded memory for runs of any length.

    The first and the last 64 values are stored in full; a sample of the whole series is thinned out
    evenly whenever it exceeds 256 values.
    """

    def __init__(self) -> None:
        self.count = 0
        self._first: list[tuple[int, float]] = []
        self._last: deque[tuple[int, float]] = deque(maxlen=_MAX_RECENT)
        self._thinned: list[tuple[int, float]] = []
        self._stride = 1

    def add(self, step: int, value: float) -> None:
        """Add a value; steps must not decrease."""
        entry = step, float(value)
        if len(self._first) < _MAX_RECENT:
            self._first.append(entry)
        self._last.append(entry)
        if self.count % self._stride == 0:
            self._thinned.append(entry)
            if len(self._thinned) > _MAX_THINNED:
                self._thinned = self._thinned[::2]
                self._stride *= 2
        self.count += 1

    def first(self, count: int) -> Array:
        """Return the first values, at most 64, float64[<= count]."""
        return np.array([value for _, value in self._first[:count]])

    def last(self, count: int) -> Array:
        """Return the last values, at most 64, float64[<= count]."""
        return np.array([value for _, value in self._last][-count:])

    def all(self) -> tuple[Array, Array]:
        """Return steps int64[n] and values float64[n] of the thinned series, n <= 256."""
        steps = np.array([step for step, _ in self._thinned], dtype=np.int64)
        return steps, np.array([value for _, value in self._thinned])

    def between(self, begin: float, end: float) -> Array:
        """Return values of the thinned series with begin <= step <= end, float64[n]."""
        steps, values = self.all()
        return np.asarray(values[(steps >= begin) & (steps <= end)])

    def curve(self, most: int) -> list[tuple[int, float]]:
        """Return the whole series as at most `most` points, including the last one."""
        every = -(-len(self._thinned) // most)
        points = self._thinned[:: max(every, 1)]
        return [*points[: most - 1], self._last[-1]] if points[-1] != self._last[-1] else points

    @property
    def latest(self) -> float:
        """Last value."""
        return self._last[-1][1]


@dataclasses.dataclass(frozen=True)
class TrainingFacts:
    """Facts of a training that are known before it begins; None is unknown.

    Attributes:
        algorithm: Name of the algorithm; empty if unknown.
        steps: Total number of environment steps.
        gamma: Discount factor.
        has_targets: Whether there are target networks.
        tau: Weight of the main network in a target update.
        target_interval: Environment steps between target updates.
        learning_starts: Environment steps before the first update.
        exploration: First and last share of random actions, for algorithms that have one.
        constant_exploration: Whether this share is constant by design.
        choices: Number of discrete actions; 0 for continuous ones.
        action_low: Smallest action per dimension, in action units.
        action_high: Largest action per dimension.
        observation_low: Smallest observation that the task declares.
        observation_high: Largest observation that the task declares.
        reward_threshold: Return from which the task counts as solved.
        time_limit: Maximum number of steps of an episode; 0 is none.
        normalized: Whether the learner receives other observations and rewards than the task's.
        n_envs: Number of parallel environments.
        replays: Whether minibatches are drawn from a replay buffer.
        hyperparameters: All hyperparameters by our names.
    """

    algorithm: str = ""
    steps: int | None = None
    gamma: float | None = None
    has_targets: bool | None = None
    tau: float | None = None
    target_interval: int | None = None
    learning_starts: int = 0
    exploration: tuple[float, float] | None = None
    constant_exploration: bool = False
    choices: int = 0
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    observation_low: Array | None = None
    observation_high: Array | None = None
    reward_threshold: float | None = None
    time_limit: int = 0
    normalized: bool = False
    n_envs: int = 1
    replays: bool | None = None
    hyperparameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def half_range(self) -> Array:
        """Half the action range per dimension, float64[actions]."""
        return np.asarray((np.array(self.action_high) - np.array(self.action_low)) / 2)


@dataclasses.dataclass(frozen=True)
class EpisodeRecord:
    """An episode that has ended.

    Attributes:
        step: Environment step at which it ended.
        episode_return: Sum of the task's own rewards.
        truncated: Whether it was truncated and not terminated.
        observations: The last observations, float64[<= 10, observations].
        actions: The last actions, float64[<= 10, actions].
    """

    step: int
    episode_return: float
    length: int
    truncated: bool
    observations: Array
    actions: Array


@dataclasses.dataclass
class TrainingSignals:
    """Everything that checks can read.

    Attributes:
        facts: Facts that do not change.
        step: Environment steps so far.
        series: Series by name, which the modules named `*_signals` add.
        values: Single readings by name.
        episodes: The last episodes, at most 20, in the order they ended.
        metrics: Metrics that the training reports, by name in the trace.
        on_value: Called with step, name and value when a value is added to a series.
    """

    facts: TrainingFacts
    step: int = 0
    series: dict[str, SignalSeries] = dataclasses.field(default_factory=dict)
    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    episodes: deque[EpisodeRecord] = dataclasses.field(default_factory=lambda: deque(maxlen=20))
    metrics: dict[str, SignalSeries] = dataclasses.field(default_factory=dict)
    on_value: Callable[[int, str, float], None] | None = None

    def add(self, name: str, value: float) -> None:
        """Add a value to a series at the current step."""
        self.series.setdefault(name, SignalSeries()).add(self.step, value)
        if self.on_value:
            self.on_value(self.step, name, value)

    def has(self, name: str) -> bool:
        """Return whether there is a series, value or metric of this name."""
        if name == "episodes":
            return bool(self.episodes)
        if name.startswith("metric:"):
            return name.removeprefix("metric:") in self.metrics
        return name in self.series or name in self.values

    @property
    def progress(self) -> float | None:
        """Share of the run that is over; None if its length is unknown."""
        return self.step / self.facts.steps if self.facts.steps else None


def fit_slope(values: Array) -> float:
    """Return the slope of the least-squares line through values at 0, 1, 2, ..."""
    return float(np.polyfit(np.arange(len(values)), values, 1)[0]) if len(values) > 1 else 0.0


def compute_fluctuation(values: Array) -> float:
    """Return the root mean square distance of values from their least-squares line."""
    if len(values) < 3:
        return 0.0
    index = np.arange(len(values))
    return float(np.sqrt(np.mean((values - np.polyval(np.polyfit(index, values, 1), index)) ** 2)))
