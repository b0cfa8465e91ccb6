"""Signals of networks, read in short windows by watchers of numerical libraries."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Policy, Weights
from parallax.harness.contract.events import (
    AfterOptimizerStep,
    BeforeOptimizerStep,
    LayerForward,
    LibraryWatcher,
    LossBackward,
    TrainingEvents,
    load_watchers,
    watch_libraries,
)
from parallax.harness.diagnosis.minibatch_matching import (
    MinibatchMatcher,
    TransitionHistory,
    rows_to_bytes,
)
from parallax.harness.diagnosis.signals import Array, TrainingSignals

WINDOW_UPDATES = 8
"""Optimizer steps in a window: two to three updates of an algorithm with three optimizers."""

_MAX_LAYER_ROWS = 64
DROPOUT_PASSES = 16
_MAX_LAYERS = 24
DORMANT_THRESHOLD = 0.025
"""Units below this share of their layer's mean activation are dormant.

Sokar et al. 2023 (arXiv:2302.12902), definition 3.1 with tau = 0.025.
"""

_RANK_REMAINDER = (
    0.01  # delta of the effective rank srank_delta, Kumar et al. 2021 (arXiv:2010.14498)
)
_MAX_FORWARDS = 400  # calls of any layers, after which the layer hooks are removed
_DEAD_SIZE = 1e-5
_RARE_SHARE = 0.05  # largest share of inputs that may activate a dead unit
_SATURATED_SIZE = 0.98


class NetworkSignalCollector:
    """Collector that opens and closes windows, and computes signals from the events in them.

    There are hooks only within a window, and events of windows are separate from the training's.
    """

    def __init__(
        self,
        signals: TrainingSignals,
        recent: Callable[[], Array],
        stored: Callable[[], TransitionHistory] | None = None,
        guard: Callable[[Callable[[], None]], None] = lambda watch: watch(),
    ) -> None:
        """Create a collector without an open window.

        Args:
            signals: Receives the signals.
            recent: Returns observations of the last steps, float[n, observations].
            stored: Returns the last transitions.
            guard: Calls a watching function so that its failure does not end the training.
        """
        self._guard, self._phase = guard, ""
        self._waiting: contextlib.ExitStack | None = None
        self._regressions = MinibatchMatcher(signals, stored) if stored else None
        self._signals, self._recent = signals, recent
        self._looks_at_batch, self._pausing = False, False
        self._batch: Array = np.zeros((0, 0))
        self._hooks: contextlib.ExitStack | None = None
        self._layer_hooks = contextlib.ExitStack()
        self._watchers: list[LibraryWatcher] | None = None
        self._policy_places: set[int] = set()
        self._gathering = False
        self._acting: set[int] = set()
        self._layers: list[tuple[Any, Array, tuple[int, ...]]] = []
        self._directly: list[bool] = []
        self._forwards, self._largest = 0, 0
        self._heads = {1, signals.facts.choices or 1}
        self._without: dict[int, int] = {}
        self._zero: dict[int, int] = {}
        self._reached: set[int] = set()
        self._previous_gradients: dict[int, tuple[Array, bool]] = {}
        self._windows = 0
        self._before: Weights = {}
        self._steps = 0

    @property
    def is_open(self) -> bool:
        """Whether a window is open."""
        return self._hooks is not None

    @contextlib.contextmanager
    def pause_watching(self) -> Iterator[None]:
        """Ignore computations in this context: the diagnosis itself evaluates the policy."""
        self._pausing = True
        try:
            yield
        finally:
            self._pausing = False

    @property
    def is_acting_network_known(self) -> bool:
        """Whether the policy's own network has chosen an action since `open_acting_window`."""
        return not self._acting.isdisjoint(self._policy_places)

    def open_acting_window(self, policy: Policy | None) -> None:
        """Watch which networks choose actions; evaluating the policy reveals its parameters."""
        probe = self._signals.values.get("probe")
        if policy is None or probe is None:
            return
        events = TrainingEvents()
        events.subscribe(LayerForward, self._make_guarded(self._note_acting_network))
        self._acting = set()
        self._enter(events)
        self._gathering, self._policy_places = True, set()
        try:
            policy(probe[:1])
        finally:
            self._gathering = False

    def examine(self, policy: Policy, rng: np.random.Generator, first: bool) -> None:
        """Evaluate the policy with dropout, and the first time fit a copy of it to a few states.

        Args:
            policy: Greedy policy.
            rng: Draws the units that are dropped.
            first: Whether to fit a copy.
        """
        probe = self._signals.values.get("probe")
        if probe is None or not len(probe):
            return
        events, called = TrainingEvents(), list[LayerForward]()
        drop = _InputDropout(rng)
        events.subscribe(LayerForward, drop.layer)
        events.subscribe(
            LayerForward, lambda forward: called.append(forward) if drop.passes == 1 else None
        )
        plain, answers = np.asarray(policy(probe.copy())), []
        with watch_libraries(events, self._known_watchers()):
            for _ in range(DROPOUT_PASSES):
                drop.begin()
                answers.append(np.asarray(policy(probe.copy())))
        if drop.layers:
            self._measure_uncertainty(plain, np.stack(answers))
        if first:
            losses = next((fit for forward in called if (fit := forward.fit_copy())), None)
            if losses is not None:
                self._signals.values["fitting"] = losses

    def _measure_uncertainty(self, plain: Array, answers: Array) -> None:
        facts = self._signals.facts
        if facts.choices > 1:
            differs = float((answers != plain).mean())
            spread = min(differs * facts.choices / (facts.choices - 1), 1.0)
        else:
            spread = float((answers.std(axis=0) / facts.half_range).mean(axis=0).max())
        self._signals.add("uncertainty", spread)

    def close_acting_window(self) -> None:
        """Add the signal whether the policy's own network chose any of the actions."""
        self._leave()
        if self._acting and self._policy_places:
            self._signals.add("acts_by_itself", float(bool(self._acting & self._policy_places)))
            self._signals.values["policy_places"] = frozenset(self._policy_places)

    def await_update_window(self, read: Callable[[], Weights], done: Callable[[], None]) -> None:
        """Open a window at the next optimizer step, if none is due; `done` is called at its end."""
        if self._waiting is not None:
            return
        events = TrainingEvents()
        if self._regressions:
            regressions = self._regressions
            regressions.begin()
            events.subscribe(LossBackward, self._make_guarded(regressions.note))
        # A training can die of its first step: its rate is read before the window opens.
        events.subscribe(BeforeOptimizerStep, self._make_guarded(self._note_learning_rates))
        events.subscribe(
            AfterOptimizerStep, lambda _: self._guard(lambda: self._follow_window(read, done))
        )
        self._phase, self._waiting = "waiting", self._enter_hooks(events)

    def _follow_window(self, read: Callable[[], Weights], done: Callable[[], None]) -> None:
        if self._phase == "waiting" and not self.is_open:
            self._phase = "open"
            self.open_update_window(read)
        elif self._phase == "open" and self.stepped(read):
            self._phase = "done"
            if self._regressions:
                self._regressions.end({*self._reached, *self._zero, *self._without})
            done()
        if self._regressions:
            self._regressions.stepped()

    def tidy(self) -> None:
        """Remove the hooks of a window that is over; not possible within a hook."""
        if self._phase == "done" and self._waiting is not None:
            self._phase, waiting, self._waiting = "", self._waiting, None
            waiting.close()

    def open_update_window(self, read: Callable[[], Weights]) -> None:
        """Watch the next optimizer steps."""
        events, layers = TrainingEvents(), TrainingEvents()
        layers.subscribe(LayerForward, self._make_guarded(self._note_layer))
        events.subscribe(LossBackward, self._make_guarded(self._note_loss))
        events.subscribe(BeforeOptimizerStep, self._make_guarded(self._note_gradients))
        self._layers, self._directly, self._forwards, self._largest = [], [], 0, 0
        self._steps, self._before = 0, read()
        self._previous_gradients = {}
        self._looks_at_batch = not self._signals.facts.normalized
        self._enter(events)
        self._layer_hooks.enter_context(watch_libraries(layers, self._watchers))

    def stepped(self, read: Callable[[], Weights]) -> bool:
        """Count an optimizer step; close the window and return True if it was the last one."""
        self._steps += 1
        if self._steps < WINDOW_UPDATES:
            return False
        self._leave()
        self._windows += 1
        self._compare_minibatch_with_recent()
        self._measure_update_ratio(self._before, read())
        self._read_layers()
        self._layers, self._before, self._batch = [], {}, np.zeros((0, 0))
        self._previous_gradients = {}
        return True

    def stop_watching(self) -> None:
        """Stop watching; `tidy` removes the hooks that cannot be removed here."""
        self._phase = "done"
        self._leave()

    def close(self) -> None:
        """Remove all hooks."""
        self._leave()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.close()

    def _enter(self, events: TrainingEvents) -> None:
        self._hooks = self._enter_hooks(events)

    def _enter_hooks(self, events: TrainingEvents) -> contextlib.ExitStack:
        hooks = contextlib.ExitStack()
        hooks.enter_context(watch_libraries(events, self._known_watchers()))
        return hooks

    def _known_watchers(self) -> list[LibraryWatcher]:
        if self._watchers is None:
            self._watchers = load_watchers()
        return self._watchers

    def _leave(self) -> None:
        self._layer_hooks.close()
        if self._hooks is not None:
            hooks, self._hooks = self._hooks, None
            hooks.close()

    def _make_guarded(self, handle: Callable[[Any], None]) -> Callable[[Any], None]:
        return lambda event: self._guard(lambda: handle(event))

    def _note_acting_network(self, forward: LayerForward) -> None:
        if self._gathering:
            self._policy_places.update(forward.places)
        if self._gathering or self._pausing:
            return
        shape = getattr(next(iter(forward.inputs), None), "shape", ())
        rows = int(np.prod(shape[:-1])) if len(shape) > 1 else 1
        if forward.places and rows <= self._signals.facts.n_envs:
            self._acting.update(forward.places)

    def _note_layer(self, forward: LayerForward) -> None:
        if self._pausing:
            return
        self._forwards += 1
        if len(self._layers) >= _MAX_LAYERS or self._forwards >= _MAX_FORWARDS:
            self._layer_hooks.close()  # every call of a layer passes through them
        if not forward.places or not forward.inputs:
            return
        dimensions = getattr(getattr(forward.layer, "weight", None), "ndim", 0)
        if dimensions >= 2 and (directly := forward.is_preactivation()) is not None:
            self._directly.append(directly)
            self._largest = max(self._largest, len(forward.inputs[0]))
        if dimensions != 2:
            self._looks_at_batch &= dimensions < 2  # features of convolutions are not states
            return
        given = _to_numpy(forward.inputs[0])
        if given is not None and given.ndim == 2 and given.shape[0] > 1:
            # Minibatches have more rows than the inputs of acting or of evaluations.
            if self._looks_at_batch and given.shape[0] > len(self._batch):
                self._batch = given.copy()
            self._layers.append((forward.layer, given[:_MAX_LAYER_ROWS].copy(), forward.places))
            if self._regressions and forward.layer.weight.shape[0] in self._heads:
                self._regressions.note_head(forward, given)

    def _compare_minibatch_with_recent(self) -> None:
        """Compare the window's first minibatch with the observations of the last steps."""
        recent, batch = self._recent(), self._batch[:_MAX_LAYER_ROWS]
        few = len(batch) <= self._signals.facts.n_envs
        if few or not len(recent) or batch.shape[1] < recent.shape[1]:
            return
        recent = recent.astype(np.float32)
        states = batch[:, : recent.shape[1]].astype(np.float32)
        known = set(rows_to_bytes(recent))
        self._signals.add(
            "replay_recent", sum(row in known for row in rows_to_bytes(states)) / len(states)
        )
        spread = np.maximum(recent.std(axis=0), 1e-6 + 1e-3 * np.abs(recent).max(axis=0))
        shift = np.abs(states.mean(axis=0) - recent.mean(axis=0)) / spread
        self._signals.add("replay_shift", float(shift.mean()))

    def _note_loss(self, backward: LossBackward) -> None:
        self._signals.add("loss", backward.loss)
        for slope in backward.entropy_slopes():
            self._signals.add("entropy_slope", slope)
        self._previous_gradients = {
            place: (gradient, bool(gradient.any()))
            for place, (gradient, _) in self._previous_gradients.items()
        }

    def _note_learning_rates(self, step: BeforeOptimizerStep) -> None:
        rates = [group.settings["lr"] for group in step.groups if "lr" in group.settings]
        if rates:  # the highest: several optimizers may be of one class
            known = self._signals.values.setdefault("learning_rates", {})
            known[step.optimizer] = max(*rates, known.get(step.optimizer, 0.0))

    def _note_gradients(self, step: BeforeOptimizerStep) -> None:
        squares, trained = 0.0, 0
        self._check_uncleared_gradients(step)
        for parameter in (p for group in step.groups for p in group.parameters):
            place = parameter.place
            gradient = parameter.gradient() if parameter.gradient else None
            flat = None if gradient is None else gradient.ravel()
            square = 0.0 if flat is None else float(np.dot(flat, flat))
            if flat is None or (square == 0 and not flat.any()):
                if place not in self._reached:
                    missed = self._without if flat is None else self._zero
                    missed[place] = missed.get(place, 0) + 1
                continue
            self._reached.add(place)
            self._without.pop(place, None)
            self._zero.pop(place, None)
            trained += 1
            squares += square
        if trained:
            self._signals.add("gradient_norm", float(np.sqrt(squares)))
        values = self._signals.values
        values["unreached"], values["zero_gradients"] = self._without, self._zero
        values["parameters"] = len({*self._without, *self._zero, *self._reached})

    def _check_uncleared_gradients(self, step: BeforeOptimizerStep) -> None:
        """Add the signal whether the gradient of the previous step was still there at this one."""
        for parameter in (p for group in step.groups for p in group.parameters):
            gradient = parameter.gradient() if parameter.gradient else None
            if gradient is None or gradient.size < 2:
                continue
            before, was_there = self._previous_gradients.get(parameter.place, (gradient, False))
            if parameter.place in self._previous_gradients:
                same = before.__array_interface__["data"] == gradient.__array_interface__["data"]
                self._signals.add("gradients_left", float(same and was_there))
            # A reference to the array, so that its memory is not reused by chance.
            self._previous_gradients[parameter.place] = gradient, False
            return  # one parameter per optimizer is enough

    def _measure_update_ratio(self, before: Weights, after: Weights) -> None:
        ratios = [
            float(np.linalg.norm(after[name] - old) / norm)
            for name, old in before.items()
            if "target" not in name and old.ndim >= 2 and (norm := np.linalg.norm(old)) > 0
        ]
        if ratios:
            self._signals.add("update_ratio", max(ratios) / WINDOW_UPDATES)

    def _read_layers(self) -> None:
        dead, dormant, flat, ranks, values = [], [], [], [], []
        policy = self._signals.values.get("policy_places", frozenset())
        broken, read = False, set[tuple[int, ...]]()
        trained = {*self._reached, *self._zero, *self._without}
        for (layer, given, own), (following, hidden, places) in zip(
            self._layers, self._layers[1:], strict=False
        ):
            if places in read or not trained.intersection(places):
                continue
            fits = own and layer.weight.shape[0] == hidden.shape[1]
            if not fits or len(given) != len(hidden):
                continue
            read.add(places)
            broken |= not np.isfinite(hidden).all()
            if broken:
                continue
            size = np.abs(hidden)
            dead.append(float(((size >= _DEAD_SIZE).mean(axis=0) <= _RARE_SHARE).mean()))
            mean = size.mean(axis=0)
            dormant.append(float((mean <= DORMANT_THRESHOLD * max(mean.mean(), 1e-30)).mean()))
            if size.max() <= 1.0 and hidden.min() < -0.5:
                flat.append(float(((size > _SATURATED_SIZE).mean(axis=0) > 0.95).mean()))
            if self._windows % 5 == 1:
                ranks.append(compute_effective_rank(hidden) / min(hidden.shape))
            values += self._values(following, hidden, places, policy)
        signals = self._signals
        signals.values["activations_finite"] = not broken
        if self._directly:
            signals.add("linear_after_linear", float(any(self._directly)))
            signals.add("batch_rows", self._largest)
        for name, readings in (("dead", dead), ("dormant", dormant), ("saturated", flat)):
            if readings:
                signals.add(name, max(readings))
        if ranks:
            signals.add("rank", min(ranks))
        if values:
            signals.add("value_size", max(values))

    def _values(
        self, layer: Any, hidden: Array, places: tuple[int, ...], policy: frozenset[int]
    ) -> list[float]:
        weight, bias = _to_numpy(layer.weight), _to_numpy(getattr(layer, "bias", None))
        choices = self._signals.facts.choices
        if weight is None or weight.shape[0] not in {1, choices or 1}:
            return []
        if not choices and (not policy or policy.intersection(places)):
            return []  # an actor with one action dimension looks like a critic
        return [float(np.abs(hidden @ weight.T + (0.0 if bias is None else bias)).mean())]


class _InputDropout:
    """In-place dropout of 0.5 on the inputs of every linear layer except the first."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.passes, self.layers = 0, 0
        self._rng, self._seen = rng, dict[int, Any]()

    def begin(self) -> None:
        """Start another forward pass."""
        self.passes += 1
        self._seen.clear()

    def layer(self, forward: LayerForward) -> None:
        """Drop inputs of a layer that is about to compute."""
        dimensions = getattr(getattr(forward.layer, "weight", None), "ndim", 0)
        given = _to_numpy(forward.inputs[0]) if dimensions == 2 and forward.inputs else None
        if given is None or not given.flags.writeable or not self.passes:
            return
        place = given.__array_interface__["data"][0]
        is_first, known = not self._seen, place in self._seen
        self._seen[place] = forward.inputs[0]  # a reference, so that its memory is not reused
        if not is_first and not known:
            given *= 2 * (self._rng.random(given.shape) < 0.5)
            self.layers += 1


def compute_effective_rank(features: Array) -> int:
    """Return the number of singular values that make up 99% of their sum.

    srank of Kumar et al. 2021 (arXiv:2010.14498), section 3, with delta = 0.01.

    Args:
        features: float[rows, units].
    """
    singular = np.linalg.svd(features, compute_uv=False)
    total = singular.sum()
    return int((np.cumsum(singular) < (1 - _RANK_REMAINDER) * total).sum()) + 1 if total > 0 else 0


def _to_numpy(tensor: Any) -> Array | None:
    """Return a tensor as a NumPy array; None inside a vectorised call (`torch.vmap`)."""
    if isinstance(tensor, np.ndarray):
        return tensor
    try:
        return np.asarray(tensor.detach().cpu().numpy())
    except (AttributeError, RuntimeError, TypeError):
        return None
