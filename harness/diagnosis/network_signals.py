"""Signals of networks, read in short windows by watchers of numerical libraries."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Policy, Weights
from parallax.harness.contract.events import (
    AfterOptimizerStep,
    BeforeOptimizerStep,
    LayerForward,
    LibraryWatcher,
    LossBackward,
    TrainedParameter,
    TrainingEvents,
    load_watchers,
    watch_libraries,
)
from parallax.harness.diagnosis.layer_signals import MAX_LAYER_ROWS, LayerRecorder
from parallax.harness.diagnosis.minibatch_matching import (
    MinibatchMatcher,
    TransitionHistory,
    rows_to_bytes,
)
from parallax.harness.diagnosis.signals import Array, TrainingSignals

WINDOW_UPDATES = 8
"""Optimizer steps in a window: two to three updates of an algorithm with three optimizers."""

# An update window goes through these phases; it stays `ended` until its hooks are removed.
_NONE, _WAITING, _OPEN, _ENDED = "none", "waiting", "open", "ended"


class NetworkSignalCollector:
    """Collector that opens and closes windows, and computes signals from the events in them.

    There are two kinds of windows, of which one is open at a time: an acting window shows which
    networks choose actions, and an update window watches the next optimizer steps. There are hooks
    only within a window, and events of windows are separate from the training's.
    """

    def __init__(
        self,
        signals: TrainingSignals,
        get_recent: Callable[[], Array],
        get_history: Callable[[], TransitionHistory] | None = None,
        guard: Callable[[Callable[[], None]], None] = lambda watch: watch(),
    ) -> None:
        """Create a collector without an open window.

        Args:
            signals: Receives the signals.
            get_recent: Returns observations of the last steps, float[n, observations].
            get_history: Returns the last transitions; None matches no minibatches with them.
            guard: Calls a watching function so that its failure does not end the training.
        """
        self._signals, self._get_recent, self._guard = signals, get_recent, guard
        self._minibatches = MinibatchMatcher(signals, get_history) if get_history else None
        self._watchers: list[LibraryWatcher] | None = None
        self._is_paused = False
        # Hooks of the window that is open, those of layers, and those of the whole update window.
        self._hooks: contextlib.ExitStack | None = None
        self._layer_hooks = contextlib.ExitStack()
        self._update_hooks: contextlib.ExitStack | None = None
        self._acting = _ActingNetworks(signals.facts.n_envs)
        self._phase = _NONE
        self._gradients = _GradientTracker(signals)
        self._layers = LayerRecorder(signals)
        self._windows, self._steps = 0, 0
        self._first_weights: Weights = {}

    @property
    def is_open(self) -> bool:
        """Whether a window is open."""
        return self._hooks is not None

    @property
    def is_acting_network_known(self) -> bool:
        """Whether the policy's own network has chosen an action since `open_acting_window`."""
        return self._acting.is_policy_acting

    def get_watchers(self) -> list[LibraryWatcher]:
        """Return the watchers of the libraries that this process has imported at the first call."""
        if self._watchers is None:
            self._watchers = load_watchers()
        return self._watchers

    @contextlib.contextmanager
    def pause_watching(self) -> Iterator[None]:
        """Ignore computations in this context: the diagnosis itself evaluates the policy."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def open_acting_window(self, policy: Policy | None) -> None:
        """Watch which networks choose actions; evaluating the policy reveals its parameters."""
        states = self._signals.values.get("probe")
        if policy is None or states is None:
            return
        events = TrainingEvents()
        events.subscribe(LayerForward, self._make_guarded(self._note_acting_network))
        self._acting = _ActingNetworks(self._signals.facts.n_envs)
        self._hooks = self._watch(events)
        with self._acting.learn_policy():
            policy(states[:1])

    def close_acting_window(self) -> None:
        """Add the signal whether the policy's own network chose any of the actions."""
        self._close_window()
        acting = self._acting
        if acting.places and acting.policy_places:
            self._signals.add("acts_by_itself", float(acting.is_policy_acting))
            self._signals.values["policy_places"] = frozenset(acting.policy_places)

    def await_update_window(self, read: Callable[[], Weights], done: Callable[[], None]) -> None:
        """Open an update window at the next optimizer step, unless there is one already.

        The window opens with a step, because updates may be far away and hooks cost time.

        Args:
            read: Returns copies of the current weights.
            done: Called at the end of the window, in a hook: hooks cannot be removed there.
        """
        if self._update_hooks is not None:
            return
        events = TrainingEvents()
        if self._minibatches:
            self._minibatches.begin_window()
            events.subscribe(LossBackward, self._make_guarded(self._minibatches.note_loss))
        # A training can die of its first step: its rate is read before the window opens.
        events.subscribe(BeforeOptimizerStep, self._make_guarded(self._note_learning_rates))
        events.subscribe(
            AfterOptimizerStep, lambda _: self._guard(lambda: self._follow_updates(read, done))
        )
        self._phase, self._update_hooks = _WAITING, self._watch(events)

    def remove_ended_hooks(self) -> None:
        """Remove the hooks of an update window that has ended; not possible within a hook."""
        if self._phase == _ENDED and self._update_hooks is not None:
            self._phase, hooks, self._update_hooks = _NONE, self._update_hooks, None
            hooks.close()

    def stop_watching(self) -> None:
        """Stop watching; `remove_ended_hooks` removes the hooks that cannot be removed here."""
        self._phase = _ENDED
        self._close_window()

    def close(self) -> None:
        """Remove all hooks."""
        self._close_window()
        hooks, self._update_hooks = self._update_hooks, None
        if hooks is not None:
            hooks.close()

    def _watch(self, events: TrainingEvents) -> contextlib.ExitStack:
        hooks = contextlib.ExitStack()
        hooks.enter_context(watch_libraries(events, self.get_watchers()))
        return hooks

    def _close_window(self) -> None:
        self._layer_hooks.close()
        if self._hooks is not None:
            hooks, self._hooks = self._hooks, None
            hooks.close()

    def _make_guarded(self, handle: Callable[[Any], None]) -> Callable[[Any], None]:
        return lambda event: self._guard(lambda: handle(event))

    def _note_acting_network(self, forward: LayerForward) -> None:
        self._acting.note(forward, self._is_paused)

    def _follow_updates(self, read: Callable[[], Weights], done: Callable[[], None]) -> None:
        """Open, continue or end the update window after an optimizer step."""
        if self._phase == _WAITING and not self.is_open:
            self._phase = _OPEN
            self._open_update_window(read)
        elif self._phase == _OPEN and self._count_step() == WINDOW_UPDATES:
            self._phase = _ENDED
            self._end_update_window(read)
            done()
        if self._minibatches:
            self._minibatches.note_optimizer_step()

    def _open_update_window(self, read: Callable[[], Weights]) -> None:
        events, layers = TrainingEvents(), TrainingEvents()
        layers.subscribe(LayerForward, self._make_guarded(self._note_layer))
        events.subscribe(LossBackward, self._make_guarded(self._note_loss))
        events.subscribe(BeforeOptimizerStep, self._make_guarded(self._gradients.note_step))
        self._layers = LayerRecorder(self._signals)
        self._steps, self._first_weights = 0, read()
        self._hooks = self._watch(events)
        self._layer_hooks.enter_context(watch_libraries(layers, self.get_watchers()))

    def _count_step(self) -> int:
        self._steps += 1
        return self._steps

    def _end_update_window(self, read: Callable[[], Weights]) -> None:
        self._close_window()
        self._windows += 1
        self._compare_minibatch_with_recent(self._layers.minibatch)
        self._measure_update_ratio(self._first_weights, read())
        policy_places = self._signals.values.get("policy_places", frozenset())
        trained = self._gradients.trained_places
        self._layers.add_signals(trained, policy_places, ranks=self._windows % 5 == 1)
        self._first_weights = {}
        self._gradients.end_window()
        if self._minibatches:
            self._minibatches.end_window(trained)

    def _note_layer(self, forward: LayerForward) -> None:
        if self._is_paused:
            return
        inputs = self._layers.record(forward)
        if self._layers.is_full:
            self._layer_hooks.close()  # every call of a layer passes through them
        if self._minibatches and inputs is not None:
            n_outputs = forward.layer.weight.shape[0]
            if n_outputs in (1, self._signals.facts.choices):
                self._minibatches.note_head(forward, inputs)

    def _note_loss(self, backward: LossBackward) -> None:
        self._signals.add("loss", backward.loss)
        for slope in backward.entropy_slopes():
            self._signals.add("entropy_slope", slope)
        self._gradients.note_loss()

    def _note_learning_rates(self, step: BeforeOptimizerStep) -> None:
        rates = [group.settings["lr"] for group in step.groups if "lr" in group.settings]
        if rates:  # the highest: several optimizers may be of one class
            known = self._signals.values.setdefault("learning_rates", {})
            known[step.optimizer] = max(*rates, known.get(step.optimizer, 0.0))

    def _compare_minibatch_with_recent(self, minibatch: Array) -> None:
        """Compare the states of a minibatch with the observations of the last steps."""
        recent, minibatch = self._get_recent(), minibatch[:MAX_LAYER_ROWS]
        is_acting = len(minibatch) <= self._signals.facts.n_envs
        if is_acting or not len(recent) or minibatch.shape[1] < recent.shape[1]:
            return
        recent = recent.astype(np.float32)
        states = minibatch[:, : recent.shape[1]].astype(np.float32)
        known = set(rows_to_bytes(recent))
        is_recent = [row in known for row in rows_to_bytes(states)]
        self._signals.add("replay_recent", sum(is_recent) / len(states))
        # Dimensions that hardly vary in the last steps would give any shift.
        spread = np.maximum(recent.std(axis=0), 1e-6 + 1e-3 * np.abs(recent).max(axis=0))
        shift = np.abs(states.mean(axis=0) - recent.mean(axis=0)) / spread
        self._signals.add("replay_shift", float(shift.mean()))

    def _measure_update_ratio(self, before: Weights, after: Weights) -> None:
        """Add the largest relative change of a matrix per optimizer step."""
        ratios = [
            float(np.linalg.norm(after[name] - old) / norm)
            for name, old in before.items()
            if "target" not in name and old.ndim >= 2 and (norm := np.linalg.norm(old)) > 0
        ]
        if ratios:
            # An average: norms of single steps would need a copy of the weights at each step.
            self._signals.add("update_ratio", max(ratios) / WINDOW_UPDATES)


class _ActingNetworks:
    """Addresses of the parameters with which actions are computed.

    Attributes:
        places: Of all layers that computed with as few rows as there are environments.
        policy_places: Of the layers of the policy.
    """

    def __init__(self, n_envs: int) -> None:
        self.places: set[int] = set()
        self.policy_places: set[int] = set()
        self._n_envs, self._learns_policy = n_envs, False

    @property
    def is_policy_acting(self) -> bool:
        """Whether a layer of the policy has computed an action."""
        return not self.places.isdisjoint(self.policy_places)

    @contextlib.contextmanager
    def learn_policy(self) -> Iterator[None]:
        """Take all layers that compute in this context as those of the policy."""
        self._learns_policy = True
        try:
            yield
        finally:
            self._learns_policy = False

    def note(self, forward: LayerForward, is_paused: bool) -> None:
        """Note the parameters of a layer that is about to compute."""
        if self._learns_policy:
            self.policy_places.update(forward.places)
            return
        shape = getattr(next(iter(forward.inputs), None), "shape", ())
        rows = int(np.prod(shape[:-1])) if len(shape) > 1 else 1
        if not is_paused and rows <= self._n_envs:
            self.places.update(forward.places)


class _GradientTracker:
    """Tracker of the parameters that optimizers step, by their addresses."""

    def __init__(self, signals: TrainingSignals) -> None:
        self._signals = signals
        # Number of steps so far; a parameter that has once received a gradient is in neither.
        self._steps_without_gradient: dict[int, int] = {}
        self._steps_with_zero_gradient: dict[int, int] = {}
        self._reached: set[int] = set()
        # One gradient per optimizer, and whether the last loss was added to what was there.
        self._previous: dict[int, tuple[Array, bool]] = {}

    @property
    def trained_places(self) -> set[int]:
        """Addresses of all parameters that optimizers have stepped."""
        known = self._steps_without_gradient, self._steps_with_zero_gradient
        return self._reached.union(*known)

    def end_window(self) -> None:
        """Forget the gradients of the window."""
        self._previous = {}

    def note_loss(self) -> None:
        """Note whether gradients of the last step are still there when a loss is differentiated."""
        self._previous = {
            place: (gradient, bool(gradient.any()))
            for place, (gradient, _) in self._previous.items()
        }

    def note_step(self, step: BeforeOptimizerStep) -> None:
        """Add the gradient norm of all parameters, and note those without a gradient."""
        squares, is_any_reached = 0.0, False
        parameters = [parameter for group in step.groups for parameter in group.parameters]
        self._check_uncleared_gradients(parameters)
        for parameter in parameters:
            gradient = _read_gradient(parameter)
            flat = None if gradient is None else gradient.ravel()
            square = 0.0 if flat is None else float(np.dot(flat, flat))
            if flat is None or (square == 0 and not flat.any()):
                self._note_missing(parameter.place, is_zero=flat is not None)
                continue
            self._reached.add(parameter.place)
            self._steps_without_gradient.pop(parameter.place, None)
            self._steps_with_zero_gradient.pop(parameter.place, None)
            is_any_reached = True
            squares += square
        if is_any_reached:
            self._signals.add("gradient_norm", float(np.sqrt(squares)))
        values = self._signals.values
        values["unreached"] = self._steps_without_gradient
        values["zero_gradients"] = self._steps_with_zero_gradient
        values["parameters"] = len(self.trained_places)

    def _note_missing(self, place: int, is_zero: bool) -> None:
        if place not in self._reached:
            steps = self._steps_with_zero_gradient if is_zero else self._steps_without_gradient
            steps[place] = steps.get(place, 0) + 1

    def _check_uncleared_gradients(self, parameters: Sequence[TrainedParameter]) -> None:
        """Add the signal whether the gradient of the previous step was still there at this one."""
        for parameter in parameters:
            gradient = _read_gradient(parameter)
            if gradient is None or gradient.size < 2:
                continue
            if parameter.place in self._previous:
                before, was_there = self._previous[parameter.place]
                same = before.__array_interface__["data"] == gradient.__array_interface__["data"]
                self._signals.add("gradients_left", float(same and was_there))
            # A reference to the array, so that its memory is not reused by chance.
            self._previous[parameter.place] = gradient, False
            return  # one parameter per optimizer is enough


def _read_gradient(parameter: TrainedParameter) -> Array | None:
    return parameter.gradient() if parameter.gradient else None
