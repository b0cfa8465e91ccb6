"""Events of a training, the subscriptions to them, and the watchers that publish them.

Observers subscribe to a kind of event before training begins. A publisher looks up its subscribers
once, and installs no hook if there are none, so that unused events cost nothing. Publishers,
observers and adapters do not import each other.

A watcher hooks into a numerical library and publishes the events that have subscribers. Like an
adapter it is found by an entry point, whose name is the library's import name.

To add a kind of event, add a class here, call `TrainingEvents.publish` or
`TrainingEvents.get_publisher` where it happens, and add its first subscriber.
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
from parallax.harness.contract.packages import find_entry_points

E = TypeVar("E")


class TrainingError(RuntimeError):
    """Reason that a training cannot continue, worded for the user; subscribers may raise it."""


@dataclasses.dataclass(frozen=True)
class TrainedParameter:
    """One array that is trained.

    Attributes:
        place: Address of its numbers: two names of the same numbers have the same place.
        size: Number of elements.
        gradient: Reads the gradient; None where there is none.
    """

    place: int
    size: int
    gradient: Callable[[], NDArray[Any]] | None


@dataclasses.dataclass(frozen=True)
class PolicyAttached:
    """The adapter has provided the functions that read the training: greedy policy and weights."""

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
        copy: Index of the environment, from 0.
        action: The action that the task received.
        observation: The observation after the step.
        reward: The task's own reward.
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
        # Returns are recorded as float32: a larger value is not a return.
        return bool((np.abs(self.returns) <= np.finfo(np.float32).max).all())


@dataclasses.dataclass(frozen=True)
class LayerForward:
    """A layer is about to compute.

    Attributes:
        layer: The library's object.
        inputs: The library's objects.
        places: Of the layer's own parameters; see `TrainedParameter`.
        is_preactivation: Returns whether the first input is the unchanged output of a linear layer
            or a convolution; None if that is unknown, such as where nothing is differentiated.
        fit_copy: Fits a copy of the layer to a few rows of its input, and returns the loss before
            and after; None if that is not possible.
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
        inputs: Inputs of the network, float32[rows, features].
        choices: Index of the output that is used, int64[rows]; None if there is only one.
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
        place: Address of the number; see `TrainedParameter`.
        compared: Returns the values that it was computed from, as far as the library knows them.
        entropy_slopes: Returns its derivatives by the entropies of policies, as far as known.
    """

    loss: float
    place: int = 0
    compared: Callable[[], tuple[LossInputs, ...]] = tuple
    entropy_slopes: Callable[[], tuple[float, ...]] = tuple


@dataclasses.dataclass(frozen=True)
class ParameterGroup:
    """Parameters that one optimizer steps with the same settings.

    Attributes:
        own: The library's object, which identifies the group at its next step.
        settings: Numbers: `lr`, and those available of `eps`, `weight_decay`, `beta1`, `beta2`.
        parameters: All of them, also those without a gradient.
    """

    own: Any
    settings: Mapping[str, float]
    parameters: tuple[TrainedParameter, ...]


@dataclasses.dataclass(frozen=True)
class BeforeOptimizerStep:
    """An optimizer is about to step: gradients are computed, parameters are not yet changed."""

    optimizer: str
    groups: tuple[ParameterGroup, ...]


class AfterOptimizerStep:
    """The optimizer of the last `BeforeOptimizerStep` has stepped; parameters are updated."""


@dataclasses.dataclass(frozen=True)
class TargetNetworkUpdate:
    """Target networks have changed since the last check of a `TargetUpdateDetector`.

    Attributes:
        before: Weights at the last check.
        after: Weights now.
        moved: Names of the target networks' parameters that differ.
    """

    before: Weights
    after: Weights
    moved: tuple[str, ...]


class TrainingEnd:
    """Training is over; upstream takes no further step."""


class TrainingEvents:
    """Subscribers of one training by kind of event, and its clock.

    Attributes:
        steps: Environment steps taken, all parallel environments together.
    """

    def __init__(self) -> None:
        self.steps, self._copies = 0, 0
        self._subscribers: dict[type[Any], list[Callable[[Any], None]]] = {}
        self._settled: set[type[Any]] = set()

    def subscribe(self, kind: type[E], subscriber: Callable[[E], None]) -> None:
        """Call `subscriber` at each event of a kind, after earlier subscribers."""
        late = f"an observer subscribes to {kind.__name__} after its first event was sent"
        assert kind not in self._settled, late
        self._subscribers.setdefault(kind, []).append(subscriber)

    def has_subscriber(self, *kinds: type[Any]) -> bool:
        """Return whether any of these kinds of events has a subscriber."""
        return not self._subscribers.keys().isdisjoint(kinds)

    def get_publisher(self, kind: type[E]) -> Callable[[E], None] | None:
        """Return the function that publishes a kind of event; None without a subscriber."""
        self._settled.add(kind)
        subscribers = tuple(self._subscribers.get(kind, ()))
        if len(subscribers) < 2:
            return subscribers[0] if subscribers else None

        def publish(event: E) -> None:
            for subscriber in subscribers:
                subscriber(event)

        return publish

    def publish(self, event: object) -> None:
        """Publish an event that happens rarely."""
        if publish := self.get_publisher(type(event)):
            publish(event)

    def make_step_counter(self) -> Callable[[], None]:
        """Return a function to call before each environment step: it publishes, then counts."""
        publish, step = self.get_publisher(EnvStep), EnvStep()

        def count() -> None:
            self.steps += 1

        if publish is None:
            return count

        def publish_and_count() -> None:
            publish(step)
            self.steps += 1

        return publish_and_count

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
    """Error that no installed library has a watcher."""


def find_watcher_entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    """Entry points of all watchers on this machine, by library; nothing is imported."""
    return {entry.name: entry for entry in find_entry_points(WATCHER_ENTRY_POINT_GROUP)}


@contextlib.contextmanager
def watch_libraries(
    events: TrainingEvents, watchers: Sequence[LibraryWatcher] | None = None
) -> Iterator[None]:
    """Run all watchers that have subscribers within the context; leave nothing behind.

    Args:
        events: The subscribers.
        watchers: Result of `load_watchers`, for callers that watch repeatedly: finding the
            watchers reads the metadata of all installed packages. None finds them here.

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
    """Load only the watchers that are needed, since each imports its library.

    Args:
        libraries: Libraries that will be used. None means those that this process has imported by
            now, or all if it has imported none.

    Raises:
        NoWatcherError: None of the libraries that have a watcher is installed.
        LookupError: No watcher is registered: the installation is older than the code.
    """
    registered = find_watcher_entry_points()
    if not registered:
        raise LookupError(
            f"no entry point of the group {WATCHER_ENTRY_POINT_GROUP} is installed, so no optimizer"
            " steps can be counted: install this project again (make install, or "
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
    generator = np.random.get_state()  # from which JAX draws when it is imported
    try:
        return [registered[name].load() for name in able]
    finally:
        np.random.set_state(generator)


class TargetUpdateDetector:
    """Detects target networks that have moved since the last check."""

    def __init__(self, events: TrainingEvents, read: Callable[[], Weights]) -> None:
        """Read no weights yet.

        Args:
            events: The subscribers.
            read: Returns copies of the current weights; names of targets contain `target`.
        """
        self._events, self._read = events, read
        self._last: Weights = {}

    def detect(self, event: object = None) -> None:
        """Compare the weights with those of the last check; the triggering `event` is ignored."""
        before, now = self._last, self._read()
        self._last = now
        targets = [name for name in now if "target" in name and name in before]
        moved = tuple(name for name in targets if not np.array_equal(before[name], now[name]))
        if moved:
            self._events.publish(TargetNetworkUpdate(before, now, moved))
