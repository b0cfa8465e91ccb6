"""The last transitions as an environment told them, found again among what a minibatch holds."""

import dataclasses
from typing import NamedTuple

import numpy as np

from harness.diagnosis.signals import Array, Facts

KEPT = 2048
"""Environment steps that are remembered."""

_WIDEST = 512
"""Observations of more numbers are images, of which too many bytes would be kept."""


class Chunk(NamedTuple):
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
class Found:
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


class Stored:
    """Remembers transitions in bounded memory; nothing is sorted before somebody asks."""

    def __init__(self, facts: Facts, chunks: tuple[Chunk, ...] = ()) -> None:
        """Remembers `chunks`, of which there may be none.

        Args:
            facts: Where the learner sees other numbers than the task's, nothing is remembered.
            chunks: In the order of time.
        """
        self._facts, self._chunks = facts, chunks
        self._known: dict[bytes, int] | None = None

    def add(self, chunk: Chunk) -> None:
        """Remembers steps, and forgets the oldest ones; copies what it keeps."""
        if self._facts.normalized or chunk.observations.shape[1] > _WIDEST:
            return
        kept = Chunk(chunk.observations.astype(np.float32), *(one.copy() for one in chunk[1:]))
        most = max(KEPT // max(len(chunk.rewards), 1), 1)
        self._chunks, self._known = (*self._chunks, kept)[-most:], None

    def with_tail(self, chunk: Chunk) -> "Stored":
        """The same with steps that came after, which are not remembered for long."""
        longer = Stored(self._facts, self._chunks)
        if len(chunk.rewards):
            longer.add(chunk)
            longer._chunks = (*self._chunks, *longer._chunks[-1:])
        return longer

    def find(self, inputs: Array) -> Found | None:
        """Looks for the states of a minibatch; None where fewer than two are known.

        Args:
            inputs: What a network was shown, float32[rows, features]: observations, and actions
                before or behind them.
        """
        if not self._chunks or inputs.ndim != 2:
            return None
        self._arrange()
        width = self._chunks[0].observations.shape[1]
        if inputs.shape[1] < width:
            return None
        assert self._known is not None
        for states in (inputs[:, :width], inputs[:, inputs.shape[1] - width :]):
            places = np.array([self._known.get(key, -1) for key in rows_of(states)])
            if (places >= 0).sum() > 1:
                return self._told(np.flatnonzero(places >= 0), places[places >= 0])
        return None

    def _told(self, rows: Array, steps: Array) -> Found:
        told = self._all
        return Found(
            *(rows, steps, self._next[steps], told.rewards[steps], told.terminated[steps]),
            told.ended[steps] & ~told.terminated[steps],
        )

    def _arrange(self) -> None:
        """Which state each step was taken from: what followed the one before, if it is known."""
        if self._known is not None:
            return
        self._all = Chunk(*(np.concatenate(column) for column in zip(*self._chunks, strict=True)))
        count = len(self._all.rewards)
        before, self._next = np.full(count, -1), np.full(count, -1)
        for copy in np.unique(self._all.copies):
            steps = np.flatnonzero(self._all.copies == copy)
            goes_on = ~self._all.ended[steps[:-1]]
            before[steps[1:][goes_on]] = steps[:-1][goes_on]
            self._next[steps[:-1][goes_on]] = steps[1:][goes_on]
        keys, self._known = rows_of(self._all.observations), {}
        for step in np.flatnonzero(before >= 0):
            key = keys[before[step]]
            # A state that was met twice tells nothing of which step it was.
            self._known[key] = -1 if key in self._known else int(step)


def rows_of(matrix: Array) -> list[bytes]:
    """Each row's bytes, as float32."""
    whole = np.ascontiguousarray(matrix, np.float32)
    width = whole.shape[1] * whole.itemsize
    content = whole.tobytes()
    return [content[begin : begin + width] for begin in range(0, len(content), width)]
