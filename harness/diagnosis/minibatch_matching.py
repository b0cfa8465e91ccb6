"""Match minibatches with the last transitions of the environment.

`TransitionHistory` stores the last transitions and finds a minibatch's rows among them.
`MinibatchMatcher` collects the predictions and targets that losses compare for these rows, so that
checks can recompute targets, returns and advantages from the environment's own rewards and ends.
"""

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from parallax.harness.contract.events import LayerForward, LossBackward, LossInputs
from parallax.harness.diagnosis.signals import Array, TrainingFacts, TrainingSignals

MAX_TRANSITIONS = 2048
"""Maximum number of stored environment steps."""

_MAX_OBSERVATION_SIZE = 512
"""Larger observations, such as images, would need too much memory."""


class TransitionChunk(NamedTuple):
    """Successive steps of all parallel environments.

    Attributes:
        observations: Observation after each step, float[n, observations].
        rewards: float[n].
        copies: Index of the parallel environment, int[n].
        terminated: Whether the task ended, bool[n].
        ended: Whether the episode ended in any way, bool[n].
    """

    observations: Array
    rewards: Array
    copies: Array
    terminated: Array
    ended: Array


@dataclasses.dataclass(frozen=True)
class MatchedRows:
    """Rows of a minibatch that were found in the history, with their transitions.

    Attributes:
        rows: Rows of the minibatch, int[n].
        steps: Indices in the history, int[n].
        following: Index of the next step of the same environment, -1 if there is none, int[n].
        rewards: float[n].
        terminated: bool[n].
        truncated: Whether the episode was truncated and not terminated, bool[n].
    """

    rows: Array
    steps: Array
    following: Array
    rewards: Array
    terminated: Array
    truncated: Array


class TransitionHistory:
    """Last transitions in bounded memory; the index is built only when `find` is called."""

    def __init__(self, facts: TrainingFacts, chunks: tuple[TransitionChunk, ...] = ()) -> None:
        """Create a history; if wrappers rescale observations, nothing is stored."""
        self._facts, self._chunks = facts, chunks
        self._known: dict[bytes, int] | None = None

    def add(self, chunk: TransitionChunk) -> None:
        """Store a copy of steps and drop the oldest ones."""
        if self._facts.normalized or chunk.observations.shape[1] > _MAX_OBSERVATION_SIZE:
            return
        copied = TransitionChunk(
            chunk.observations.astype(np.float32), *(one.copy() for one in chunk[1:])
        )
        most = max(MAX_TRANSITIONS // max(len(chunk.rewards), 1), 1)
        self._chunks, self._known = (*self._chunks, copied)[-most:], None

    def with_tail(self, chunk: TransitionChunk) -> "TransitionHistory":
        """Return a history with later steps appended; this one is not changed."""
        longer = TransitionHistory(self._facts, self._chunks)
        if len(chunk.rewards):
            longer.add(chunk)
            longer._chunks = (*self._chunks, *longer._chunks[-1:])
        return longer

    def find(self, inputs: Array) -> MatchedRows | None:
        """Find the states of a minibatch; None if fewer than two are found.

        Args:
            inputs: Inputs of a network, float32[rows, features]: observations, with or without
                actions before or after them.
        """
        if not self._chunks or inputs.ndim != 2:
            return None
        self._index_states()
        width = self._chunks[0].observations.shape[1]
        if inputs.shape[1] < width:
            return None
        assert self._known is not None
        # Critics concatenate observation and action, in either order.
        for states in (inputs[:, :width], inputs[:, inputs.shape[1] - width :]):
            places = np.array([self._known.get(key, -1) for key in rows_to_bytes(states)])
            if (places >= 0).sum() > 1:
                return self._describe_rows(np.flatnonzero(places >= 0), places[places >= 0])
        return None

    def _describe_rows(self, rows: Array, steps: Array) -> MatchedRows:
        history = self._all
        return MatchedRows(
            *(rows, steps, self._next[steps], history.rewards[steps], history.terminated[steps]),
            history.ended[steps] & ~history.terminated[steps],
        )

    def _index_states(self) -> None:
        """Index steps by their state: the observation after the previous step."""
        if self._known is not None:
            return
        self._all = TransitionChunk(
            *(np.concatenate(column) for column in zip(*self._chunks, strict=True))
        )
        count = len(self._all.rewards)
        before, self._next = np.full(count, -1), np.full(count, -1)
        for copy in np.unique(self._all.copies):
            steps = np.flatnonzero(self._all.copies == copy)
            goes_on = ~self._all.ended[steps[:-1]]
            before[steps[1:][goes_on]] = steps[:-1][goes_on]
            self._next[steps[:-1][goes_on]] = steps[1:][goes_on]
        keys, self._known = rows_to_bytes(self._all.observations), {}
        for step in np.flatnonzero(before >= 0):
            key = keys[before[step]]
            # A state that occurs twice does not identify a step.
            self._known[key] = -1 if key in self._known else int(step)


def rows_to_bytes(matrix: Array) -> list[bytes]:
    """Return the bytes of each row as float32."""
    # Networks receive observations as float32, so equal states have equal bytes.
    whole = np.ascontiguousarray(matrix, np.float32)
    width = whole.shape[1] * whole.itemsize
    content = whole.tobytes()
    return [content[begin : begin + width] for begin in range(0, len(content), width)]


MAX_MINIBATCHES = 48
"""Maximum number of stored minibatches, over several windows."""

_MAX_MATCHED_ROWS = 256
_MAX_HEADS = 6


@dataclasses.dataclass(frozen=True)
class HeadOutput:
    """Output of a last layer for a minibatch, computed without gradient.

    Attributes:
        outputs: float64[rows, outputs].
        places: Memory addresses of the layer's parameters.
        trained: Whether an optimizer updates them.
    """

    outputs: Array
    places: tuple[int, ...]
    trained: bool = False


@dataclasses.dataclass(frozen=True)
class MatchedMinibatch:
    """Rows of a minibatch that were found in the history.

    Attributes:
        kind: As `LossInputs.kind`.
        window: Number of the window; `found.steps` are comparable within one window.
        first: Whether no optimizer stepped since the last environment step.
        targets: float64[rows].
        predictions: float64[rows], or None.
        found: Their transitions.
        heads: Outputs of networks for the same rows, evaluated just before.
    """

    kind: str
    window: int
    first: bool
    targets: Array
    predictions: Array | None
    found: MatchedRows
    heads: tuple[HeadOutput, ...]


class MinibatchMatcher:
    """Collector of matched minibatches in a window; the checks do all arithmetic."""

    def __init__(
        self, signals: TrainingSignals, get_history: Callable[[], TransitionHistory]
    ) -> None:
        """Create a matcher; `begin_window` starts it."""
        self._signals, self._get_history = signals, get_history
        self._minibatches: deque[MatchedMinibatch] = deque(maxlen=MAX_MINIBATCHES)
        self._history: TransitionHistory | None = None
        self._heads: list[HeadOutput] = []
        self._window, self._is_open, self._steps = 0, False, 0

    def begin_window(self) -> None:
        """Start collecting, for a window that is about to open."""
        self._window, self._is_open, self._steps = self._window + 1, True, 0
        self._heads, self._history = [], None

    def end_window(self, trained: set[int]) -> None:
        """Stop collecting; `trained` are the addresses of all parameters that optimizers update."""
        self._is_open, self._heads, self._history = False, [], None
        if not self._minibatches:
            return
        matched = [
            dataclasses.replace(
                one,
                heads=tuple(
                    dataclasses.replace(head, trained=not trained.isdisjoint(head.places))
                    for head in one.heads
                ),
            )
            if one.window == self._window
            else one
            for one in self._minibatches
        ]
        self._minibatches = deque(matched, maxlen=MAX_MINIBATCHES)
        self._signals.values["regressions"] = tuple(matched)

    def note_optimizer_step(self) -> None:
        """Forget network outputs after an optimizer step, since the networks have changed."""
        self._steps += 1
        self._heads = []

    def note_head(self, forward: LayerForward, inputs: Array) -> None:
        """Store the output of a last layer that is computed without gradient."""
        is_differentiated = getattr(forward.inputs[0], "grad_fn", None) is not None
        if not self._is_open or is_differentiated or len(self._heads) >= _MAX_HEADS:
            return
        weight, bias = forward.layer.weight, getattr(forward.layer, "bias", None)
        # JAX has no graph that shows whether outputs are differentiated.
        if isinstance(weight, np.ndarray):
            return
        outputs = inputs @ weight.detach().cpu().numpy().T
        if bias is not None:
            outputs = outputs + bias.detach().cpu().numpy()
        self._heads.append(HeadOutput(np.asarray(outputs, float), forward.places))

    def note_loss(self, backward: LossBackward) -> None:
        """Store the predictions and targets that a loss compares."""
        if not self._is_open:
            return
        if self._history is None:
            self._history = self._get_history()
        known: dict[int, MatchedRows | None] = {}
        bootstraps = self._signals.facts.has_targets
        for one in backward.compared():
            if bootstraps and one.kind == "advantages":  # noise of a reparametrised action (SAC)
                continue
            key = id(one.inputs)
            if key not in known:
                known[key] = self._history.find(one.inputs[:_MAX_MATCHED_ROWS])
            found = known[key]
            if found is not None:
                self._minibatches.append(self._match_minibatch(one, found))

    def _match_minibatch(self, one: LossInputs, found: MatchedRows) -> MatchedMinibatch:
        rows = found.rows
        heads = tuple(
            HeadOutput(head.outputs[rows], head.places)
            for head in self._heads
            if len(head.outputs) == len(one.targets)
        )
        return MatchedMinibatch(
            *(one.kind, self._window, self._steps == 0, one.targets[rows]),
            *(None if one.predictions is None else one.predictions[rows], found, heads),
        )
