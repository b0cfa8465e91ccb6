"""The last transitions as an environment told them, found again among what a minibatch holds."""

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from parallax.harness.contract.events import LayerForward, LossBackward, LossInputs
from parallax.harness.diagnosis.signals import Array, TrainingFacts, TrainingSignals

MAX_TRANSITIONS = 2048
"""Environment steps that are remembered."""

_MAX_OBSERVATION_SIZE = 512
"""Observations of more numbers are images, of which too many bytes would be kept."""


class TransitionChunk(NamedTuple):
    """Successive steps of all copies of an environment.

    Attributes:
        observations: What followed each step, float[n, observations].
        rewards: float[n].
        copies: Which environment it was, int[n].
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
    """Rows of a minibatch that were found, with what the environment told of them.

    Attributes:
        rows: Of the minibatch, int[n].
        steps: Of what is remembered, by which successive ones are known, int[n].
        following: The step of the same environment that came next, -1 where none did, int[n].
        rewards: float[n].
        terminated: bool[n].
        truncated: Whether the episode was cut off without the task's end, bool[n].
    """

    rows: Array
    steps: Array
    following: Array
    rewards: Array
    terminated: Array
    truncated: Array


class TransitionHistory:
    """Remembers transitions in bounded memory; nothing is sorted before somebody asks."""

    def __init__(self, facts: TrainingFacts, chunks: tuple[TransitionChunk, ...] = ()) -> None:
        """Remembers `chunks`, of which there may be none.

        Args:
            facts: Where the learner sees other numbers than the task's, nothing is remembered.
            chunks: In the order of time.
        """
        self._facts, self._chunks = facts, chunks
        self._known: dict[bytes, int] | None = None

    def add(self, chunk: TransitionChunk) -> None:
        """Remembers steps, and forgets the oldest ones; copies what it keeps."""
        if self._facts.normalized or chunk.observations.shape[1] > _MAX_OBSERVATION_SIZE:
            return
        kept = TransitionChunk(
            chunk.observations.astype(np.float32), *(one.copy() for one in chunk[1:])
        )
        most = max(MAX_TRANSITIONS // max(len(chunk.rewards), 1), 1)
        self._chunks, self._known = (*self._chunks, kept)[-most:], None

    def with_tail(self, chunk: TransitionChunk) -> "TransitionHistory":
        """The same with steps that came after, which are not remembered for long."""
        longer = TransitionHistory(self._facts, self._chunks)
        if len(chunk.rewards):
            longer.add(chunk)
            longer._chunks = (*self._chunks, *longer._chunks[-1:])
        return longer

    def find(self, inputs: Array) -> MatchedRows | None:
        """Looks for the states of a minibatch; None where fewer than two are known.

        Args:
            inputs: What a network was shown, float32[rows, features]: observations, and actions
                before or behind them.
        """
        if not self._chunks or inputs.ndim != 2:
            return None
        self._index_states()
        width = self._chunks[0].observations.shape[1]
        if inputs.shape[1] < width:
            return None
        assert self._known is not None
        for states in (inputs[:, :width], inputs[:, inputs.shape[1] - width :]):
            places = np.array([self._known.get(key, -1) for key in rows_to_bytes(states)])
            if (places >= 0).sum() > 1:
                return self._describe_rows(np.flatnonzero(places >= 0), places[places >= 0])
        return None

    def _describe_rows(self, rows: Array, steps: Array) -> MatchedRows:
        told = self._all
        return MatchedRows(
            *(rows, steps, self._next[steps], told.rewards[steps], told.terminated[steps]),
            told.ended[steps] & ~told.terminated[steps],
        )

    def _index_states(self) -> None:
        """Which state each step was taken from: what followed the one before, if it is known."""
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
            # A state that was met twice tells nothing of which step it was.
            self._known[key] = -1 if key in self._known else int(step)


def rows_to_bytes(matrix: Array) -> list[bytes]:
    """Each row's bytes, as float32."""
    whole = np.ascontiguousarray(matrix, np.float32)
    width = whole.shape[1] * whole.itemsize
    content = whole.tobytes()
    return [content[begin : begin + width] for begin in range(0, len(content), width)]


MAX_MINIBATCHES = 48
"""That are kept, the last ones of several windows."""

_MAX_MATCHED_ROWS = 256
_MAX_HEADS = 6


@dataclasses.dataclass(frozen=True)
class HeadOutput:
    """What a last layer said of a minibatch, where nothing was differentiated.

    Attributes:
        outputs: float64[rows, outputs].
        places: Of the layer's parameters.
        trained: Whether an optimiser steps them.
    """

    outputs: Array
    places: tuple[int, ...]
    trained: bool = False


@dataclasses.dataclass(frozen=True)
class MatchedMinibatch:
    """The rows of a minibatch that were found in what is stored.

    Attributes:
        kind: As `LossInputs.kind`.
        window: Number of the window; steps are those of one window.
        first: Whether no optimiser had stepped since the environment did.
        targets: float64[rows].
        predictions: float64[rows], or None.
        found: What the environment told of them.
        heads: Of networks that were asked just before, as of the same rows.
    """

    kind: str
    window: int
    first: bool
    targets: Array
    predictions: Array | None
    found: MatchedRows
    heads: tuple[HeadOutput, ...]


class MinibatchMatcher:
    """Collects them in a window; the checks do all arithmetic."""

    def __init__(self, signals: TrainingSignals, stored: Callable[[], TransitionHistory]) -> None:
        """Collects nothing yet.

        Args:
            signals: Regressions go into its value `regressions`.
            stored: The last transitions.
        """
        self._signals, self._stored = signals, stored
        self._kept: deque[MatchedMinibatch] = deque(maxlen=MAX_MINIBATCHES)
        self._memory: TransitionHistory | None = None
        self._heads: list[HeadOutput] = []
        self._window, self._open, self._steps = 0, False, 0

    def begin(self) -> None:
        """A window is waited for."""
        self._window, self._open, self._steps = self._window + 1, True, 0
        self._heads, self._memory = [], None

    def end(self, trained: set[int]) -> None:
        """The window is over.

        Args:
            trained: Places of all parameters that optimisers step.
        """
        self._open, self._heads, self._memory = False, [], None
        if not self._kept:
            return
        told = [
            dataclasses.replace(
                one,
                heads=tuple(
                    dataclasses.replace(head, trained=not trained.isdisjoint(head.places))
                    for head in one.heads
                ),
            )
            if one.window == self._window
            else one
            for one in self._kept
        ]
        self._kept = deque(told, maxlen=MAX_MINIBATCHES)
        self._signals.values["regressions"] = tuple(told)

    def stepped(self) -> None:
        """An optimiser has stepped: what networks said before does not count for what follows."""
        self._steps += 1
        self._heads = []

    def note_head(self, forward: LayerForward, given: Array) -> None:
        """Notes what a last layer says; of those that are differentiated the loss tells."""
        made_by = getattr(forward.inputs[0], "grad_fn", None)
        if not self._open or made_by is not None or len(self._heads) >= _MAX_HEADS:
            return
        weight, bias = forward.layer.weight, getattr(forward.layer, "bias", None)
        if isinstance(weight, np.ndarray):  # another library's: what is differentiated is not told
            return
        outputs = given @ weight.detach().cpu().numpy().T
        if bias is not None:
            outputs = outputs + bias.detach().cpu().numpy()
        self._heads.append(HeadOutput(np.asarray(outputs, float), forward.places))

    def note(self, told: LossBackward) -> None:
        """Notes what a loss compares."""
        if not self._open:
            return
        if self._memory is None:
            self._memory = self._stored()
        known: dict[int, MatchedRows | None] = {}
        bootstraps = self._signals.facts.has_targets
        for one in told.compared():
            if bootstraps and one.kind == "advantages":  # noise of a reparametrised action
                continue
            key = id(one.inputs)
            if key not in known:
                known[key] = self._memory.find(one.inputs[:_MAX_MATCHED_ROWS])
            found = known[key]
            if found is not None:
                self._kept.append(self._match_minibatch(one, found))

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
