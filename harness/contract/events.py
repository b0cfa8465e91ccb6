"""Events of a training, the subscriptions to them, and the watchers that publish them.

Observers subscribe to a kind of event before training begins. A publisher looks up its subscribers
once, and installs no hook where there is none: an event without a subscriber costs nothing. Neither
side knows the other, and adapters know of none of this.

A watcher hooks into a numerical library what somebody has subscribed to. It is found as adapters
are: by an entry point, whose name is the library's import name.

A new kind of event is a class here, and `TrainingEvents.tell` or `TrainingEvents.get_publisher`
where it happens; it comes with its first subscriber.
"""

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Policy, Weights
from parallax.harness.contract.installed import find_entry_points

E = TypeVar("E")


class TrainingError(RuntimeError):
    """A training that cannot go on, worded for the user; a subscriber may raise it."""


@dataclasses.dataclass(frozen=True)
class TrainedParameter:
    """One array that is trained.

    Attributes:
        place: Where its numbers lie: two names of the same numbers have the same place.
        size: How many numbers.
        gradient: Reads the gradient; None where there is none.
    """

    place: int
    size: int
    gradient: Callable[[], NDArray[Any]] | None


@dataclasses.dataclass(frozen=True)
class PolicyAttached:
    """The adapter has handed over what follows the training: greedy policy and parameters."""

    policy: Policy
    weights: Callable[[], Weights]


class EpisodeBegin:
    """An environment is about to be reset."""


class EnvStep:
    """An environment is about to take a step, which `TrainingEvents.steps` does not count yet."""


class EnvTransition(
    NamedTuple
):  # made at every step, where a frozen dataclass costs four times this
    """An environment has taken a step; arrays are the task's own: copy them to store them.

    Attributes:
        copy: Which of the environments it was, from 0.
        action: What the task received.
        observation: What followed.
        reward: The task's own.
        terminated: Whether the task ended.
        truncated: Whether the episode was cut off.
    """

    copy: int
    action: Any
    observation: Any
    reward: Any
    terminated: bool
    truncated: bool


@dataclasses.dataclass(frozen=True)
class EpisodeEnd:
    """An episode has ended, with the task's own rewards summed up and the steps it took."""

    episode_return: float
    length: int


@dataclasses.dataclass(frozen=True)
class ReportedMetrics:
    """Upstream reports values, by their names in the trace."""

    values: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """The greedy policy was evaluated.

    Attributes:
        returns: Undiscounted sum of the task's own rewards per episode, float64[N]; NaN where
            an episode met a number that is not finite.
        lengths: Steps taken per episode, int64[N].
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]

    @property
    def is_finite(self) -> bool:
        """Return whether every return is a number."""
        # They are recorded as float32: what it cannot hold is not a return.
        return bool((np.abs(self.returns) <= np.finfo(np.float32).max).all())


@dataclasses.dataclass(frozen=True)
class LayerForward:
    """A layer is about to compute.

    Attributes:
        layer: The library's object.
        inputs: The library's objects.
        places: Of the layer's own parameters; see `TrainedParameter`.
        directly: Returns whether the first input is what a linear layer or a convolution computed,
            as it is; None where that is unknown, as outside of what is differentiated.
        fitted: Fits a copy of the layer to a few rows of its input, and returns the loss before and
            after; None where it cannot be done.
    """

    layer: Any
    inputs: tuple[Any, ...]
    places: tuple[int, ...]
    is_preactivation: Callable[[], bool | None] = lambda: None
    fit_copy: Callable[[], tuple[float, float] | None] = lambda: None


@dataclasses.dataclass(frozen=True)
class LossInputs:
    """Predictions of a network for a minibatch, and the targets of its loss.

    Attributes:
        kind: `values`, or `advantages` (which have no prediction).
        targets: float64[rows].
        predictions: float64[rows].
        inputs: What the network was shown, float32[rows, features].
        choices: Index of the output that counts, int64[rows]; None where it has one.
    """

    kind: str
    targets: NDArray[np.float64]
    predictions: NDArray[np.float64] | None
    inputs: NDArray[np.float32]
    choices: NDArray[np.int64] | None


@dataclasses.dataclass(frozen=True)
class LossBackward:
    """A scalar is about to be differentiated.

    Attributes:
        loss: Its value.
        place: Where the number lies; see `TrainedParameter`.
        compared: Returns what it was computed from, as far as the library knows.
    """

    loss: float
    place: int = 0
    compared: Callable[[], tuple[LossInputs, ...]] = tuple


@dataclasses.dataclass(frozen=True)
class ParameterGroup:
    """Parameters that one optimiser steps with the same settings.

    Attributes:
        own: The library's object, by which a group is known again at its next step.
        settings: Numbers: `lr`, and what there is of `eps`, `weight_decay`, `beta1`, `beta2`.
        parameters: All of them, also those without a gradient.
    """

    own: Any
    settings: Mapping[str, float]
    parameters: tuple[TrainedParameter, ...]


@dataclasses.dataclass(frozen=True)
class BeforeOptimizerStep:
    """An optimiser is about to step: gradients are there, parameters are as they were before."""

    optimizer: str
    groups: tuple[ParameterGroup, ...]


class AfterOptimizerStep:
    """The optimizer of the last `BeforeOptimizerStep` has stepped; parameters are updated."""


@dataclasses.dataclass(frozen=True)
class TargetNetworkUpdate:
    """Target networks have moved since a `TargetUpdateDetector` looked at them last.

    Attributes:
        before: Weights at the last look.
        after: Weights now.
        moved: Names of those of targets that differ.
    """

    before: Weights
    after: Weights
    moved: tuple[str, ...]


class TrainingEnd:
    """Training is over; upstream takes no further step."""


class TrainingEvents:
    """Subscribers of one training by kind of event, and its clock.

    Attributes:
        steps: Environment steps taken, all copies together.
    """

    def __init__(self) -> None:
        self.steps, self._copies = 0, 0
        self._subscribers: dict[type[Any], list[Callable[[Any], None]]] = {}
        self._settled: set[type[Any]] = set()

    def subscribe(self, kind: type[E], subscriber: Callable[[E], None]) -> None:
        """Call `subscriber` at each event of a kind, after those who subscribed before it."""
        late = f"somebody subscribes to {kind.__name__} after the first event of it was sent"
        assert kind not in self._settled, late
        self._subscribers.setdefault(kind, []).append(subscriber)

    def has_subscriber(self, *kinds: type[Any]) -> bool:
        """Return whether anybody wants to know of any of them."""
        return not self._subscribers.keys().isdisjoint(kinds)

    def get_publisher(self, kind: type[E]) -> Callable[[E], None] | None:
        """Return the function that publishes a kind of event; None without a subscriber."""
        self._settled.add(kind)
        subscribers = tuple(self._subscribers.get(kind, ()))
        if len(subscribers) < 2:
            return subscribers[0] if subscribers else None

        def tell(event: E) -> None:
            for subscriber in subscribers:
                subscriber(event)

        return tell

    def tell(self, event: object) -> None:
        """Publish an event that happens seldom."""
        if tell := self.get_publisher(type(event)):
            tell(event)

    def make_step_counter(self) -> Callable[[], None]:
        """Return a function to call before each environment step: it publishes, then counts."""
        tell, step = self.get_publisher(EnvStep), EnvStep()

        def count() -> None:
            self.steps += 1

        if tell is None:
            return count

        def tell_and_count() -> None:
            tell(step)
            self.steps += 1

        return tell_and_count

    def make_env_hooks(self) -> dict[str, Any]:
        """Return arguments of `make_training_env` through which the environment reports."""
        begin, end = self.get_publisher(EpisodeBegin), self.get_publisher(EpisodeEnd)
        transition, copy = self.get_publisher(EnvTransition), self._copies
        self._copies += 1
        return {
            "before_step": self.make_step_counter(),
            "before_reset": (lambda: begin(EpisodeBegin())) if begin else None,
            "after_episode": (lambda *episode: end(EpisodeEnd(*episode))) if end else None,
            "after_step": (lambda *step: transition(EnvTransition(copy, *step)))
            if transition
            else None,
        }


WATCHER_ENTRY_POINT_GROUP = "parallax.watchers"

LibraryWatcher = Callable[[TrainingEvents], contextlib.AbstractContextManager[None]]
"""Publishes events of layers, losses and optimizer steps while its context is entered."""


class NoWatcherError(RuntimeError):
    """No library is installed that could be watched."""


def find_watcher_entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    """Entry points of all watchers on this machine, by library; nothing is imported."""
    return {entry.name: entry for entry in find_entry_points(WATCHER_ENTRY_POINT_GROUP)}


@contextlib.contextmanager
def watch_libraries(
    events: TrainingEvents, watchers: Sequence[LibraryWatcher] | None = None
) -> Iterator[None]:
    """Runs all watchers that have subscribers within the context; leaves nothing behind.

    Args:
        events: The subscribers.
        watchers: Those of `load_watchers`, for who watches again and again: looking for
            them reads the lists of all installed packages. None looks for them.

    Raises:
        NoWatcherError: None of the libraries that have a watcher is installed.
        LookupError: No watcher is registered: the installation is older than the code.
    """
    with contextlib.ExitStack() as stack:
        if events.has_subscriber(
            LayerForward, LossBackward, BeforeOptimizerStep, AfterOptimizerStep
        ):
            for watcher in load_watchers() if watchers is None else watchers:
                stack.enter_context(watcher(events))
        yield


def load_watchers(libraries: Collection[str] | None = None) -> list[LibraryWatcher]:
    """Load the watchers of installed libraries that are needed: a watcher imports its library.

    Args:
        libraries: What will be trained with. None is what this process has imported by now, or
            everything where that is nothing.

    Raises:
        NoWatcherError: None of the libraries that have a watcher is installed.
        LookupError: No watcher is registered: the installation is older than the code.
    """
    registered = find_watcher_entry_points()
    if not registered:
        raise LookupError(
            f"no entry point of the group {WATCHER_ENTRY_POINT_GROUP} is installed, so nobody can "
            f"count optimiser "
            "steps: install this project again (make install, or "
            "python -m pip install --no-deps --editable .)"
        )
    able = [name for name in registered if importlib.util.find_spec(name)]
    if libraries is None:
        able = [name for name in able if name in sys.modules] or able
    else:
        able = [name for name in able if name in libraries]
    if not able:
        known = ", ".join(sorted(registered))
        raise NoWatcherError(f"only what trains with {known} can be counted from outside")
    return [registered[name].load() for name in able]


class TargetUpdateDetector:
    """Detects target networks that have moved since the last check."""

    def __init__(self, events: TrainingEvents, read: Callable[[], Weights]) -> None:
        """Does not look yet.

        Args:
            events: The subscribers.
            read: Copies of weights as they are now; names of targets contain `target`.
        """
        self._events, self._read = events, read
        self._last: Weights = {}

    def look(self, event: object = None) -> None:
        """Compares with the last look; `event` is what made somebody look."""
        before, now = self._last, self._read()
        self._last = now
        targets = [name for name in now if "target" in name and name in before]
        moved = tuple(name for name in targets if not np.array_equal(before[name], now[name]))
        if moved:
            self._events.tell(TargetNetworkUpdate(before, now, moved))
