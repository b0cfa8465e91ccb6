"""What checks may know of a training: bounded series of numbers, and facts that do not change."""

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
    """Values over environment steps in bounded memory, however long the run is.

    The first and the last 64 values are kept as they came; all between are thinned out evenly
    whenever there are more than 256.

    Attributes:
        count: How many values came in all.
    """

    def __init__(self) -> None:
        self.count = 0
        self._first: list[tuple[int, float]] = []
        self._last: deque[tuple[int, float]] = deque(maxlen=_MAX_RECENT)
        self._thinned: list[tuple[int, float]] = []
        self._stride = 1

    def add(self, step: int, value: float) -> None:
        """Adds a value; steps must not decrease."""
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
        """The first values, at most 64, float64[<= count]."""
        return np.array([value for _, value in self._first[:count]])

    def last(self, count: int) -> Array:
        """The last values, at most 64, float64[<= count]."""
        return np.array([value for _, value in self._last][-count:])

    def all(self) -> tuple[Array, Array]:
        """Steps int64[n] and values float64[n] of what is kept of the whole run, n <= 256."""
        steps = np.array([step for step, _ in self._thinned], dtype=np.int64)
        return steps, np.array([value for _, value in self._thinned])

    def between(self, begin: float, end: float) -> Array:
        """Values with begin <= step <= end, among those kept of the whole run."""
        steps, values = self.all()
        return np.asarray(values[(steps >= begin) & (steps <= end)])

    def curve(self, most: int) -> list[tuple[int, float]]:
        """The whole run in at most so many of its values, the last one among them."""
        every = -(-len(self._thinned) // most)
        points = self._thinned[:: max(every, 1)]
        return [*points[: most - 1], self._last[-1]] if points[-1] != self._last[-1] else points

    @property
    def latest(self) -> float:
        """The last value."""
        return self._last[-1][1]


@dataclasses.dataclass(frozen=True)
class TrainingFacts:
    """What is known of a training before it begins; None is not known.

    Attributes:
        algorithm: Name of the algorithm; empty where it is not said.
        steps: Environment steps in all.
        gamma: Discount factor.
        has_targets: Whether there are target networks.
        tau: Weight of the main network in a target update.
        target_interval: Environment steps between target updates.
        learning_starts: Environment steps before the first update.
        exploration: First and last share of random actions, for those who have one.
        constant_exploration: Whether it does not change by design.
        choices: Number of discrete actions; 0 for continuous ones.
        action_low: Smallest action per dimension, in action units.
        action_high: Largest action per dimension.
        observation_low: Smallest observation that the task declares.
        observation_high: Largest observation that the task declares.
        reward_threshold: Return from which the task counts as solved.
        time_limit: Steps of the longest episode; 0 is none.
        normalized: Whether the learner sees other observations and rewards than the task's.
        n_envs: Copies of the environment.
        replays: Whether minibatches are drawn from what was stored.
        hyperparameters: All others, by our names.
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
    """One that has ended.

    Attributes:
        step: When it ended.
        episode_return: Sum of the task's own rewards.
        length: Its steps.
        truncated: Whether it was cut off rather than ended by the task.
        observations: The last ones, float64[<= 10, observations].
        actions: The last ones, float64[<= 10, actions].
    """

    step: int
    episode_return: float
    length: int
    truncated: bool
    observations: Array
    actions: Array


@dataclasses.dataclass
class TrainingSignals:
    """All that checks look at.

    Attributes:
        facts: What does not change.
        step: Environment steps so far.
        series: By name, see `parallax.harness.diagnosis.environment_signals` and `networks`.
        values: Single readings by name.
        episodes: The last ones, at most 20, in the order they ended.
        metrics: What the training reports, by its name in the trace.
        told: Told each value of a series: step, name and value.
    """

    facts: TrainingFacts
    step: int = 0
    series: dict[str, SignalSeries] = dataclasses.field(default_factory=dict)
    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    episodes: deque[EpisodeRecord] = dataclasses.field(default_factory=lambda: deque(maxlen=20))
    metrics: dict[str, SignalSeries] = dataclasses.field(default_factory=dict)
    told: Callable[[int, str, float], None] | None = None

    def add(self, name: str, value: float) -> None:
        """Adds a value to a series at the current step."""
        self.series.setdefault(name, SignalSeries()).add(self.step, value)
        if self.told:
            self.told(self.step, name, value)

    def has(self, name: str) -> bool:
        """Whether anything is known under a name."""
        if name == "episodes":
            return bool(self.episodes)
        if name.startswith("metric:"):
            return name.removeprefix("metric:") in self.metrics
        return name in self.series or name in self.values

    @property
    def progress(self) -> float | None:
        """Share of the run that is over; None where its length is not known."""
        return self.step / self.facts.steps if self.facts.steps else None


def fit_slope(values: Array) -> float:
    """Of the least-squares line through values at 0, 1, 2, ..."""
    return float(np.polyfit(np.arange(len(values)), values, 1)[0]) if len(values) > 1 else 0.0


def compute_fluctuation(values: Array) -> float:
    """Root mean square distance from the least-squares line through the same values."""
    if len(values) < 3:
        return 0.0
    index = np.arange(len(values))
    fitted = np.polyval(np.polyfit(index, values, 1), index)
    return float(np.sqrt(np.mean((values - fitted) ** 2)))
