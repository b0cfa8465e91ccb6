"""What actors see, cut into overlapping sequences that never cross the end of an episode."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from adapters.torch_common.sum_tree import CompiledTree
from harness.contract.replay import Per
from harness.replay.making import generator, make_strategy
from harness.replay.strategy import Floats, Indices, Strategy

Rows = Mapping[str, NDArray[Any]]

SHOWN = ("observation", "last_action", "last_reward")
"""What the network sees at a step."""
STATE = ("recurrent_state_h", "recurrent_state_c")
"""What it remembers before that."""


@dataclasses.dataclass(frozen=True)
class Cut:
    """How sequences are cut.

    Attributes:
        length: Steps that are learned from, m.
        period: Steps from the begin of one to that of the next.
        burn_in: Steps before it, l; fewer at the beginning of an episode.
    """

    length: int
    period: int
    burn_in: int


class Tape:
    """The end of one actor's episode, as far as sequences may still need it."""

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._steps: list[dict[str, NDArray[Any]]] = []
        self._first = 0  # of those steps in their episode
        self._begin = 0  # of the next sequence

    def add(self, step: dict[str, NDArray[Any]], after: Rows, done: bool, terminated: bool) -> Any:
        """Notes a step; returns the sequence that it completes, if it does.

        Args:
            step: What was seen, done and paid, and the state before.
            after: What is seen afterwards, named as `SHOWN`.
            done: Whether the episode is over.
            terminated: Whether its end is worth nothing.

        Returns:
            Arrays by name, of the same shape for every sequence; None without one.
        """
        self._steps.append(step)
        cut, end = self._cut, self._first + len(self._steps)
        whole = end == self._begin + cut.length
        # At the end of an episode there may be nothing that the sequence before did not have.
        new = end > self._begin + (cut.length - cut.period if self._begin else 0)
        found = self._sequence(after, end, terminated) if whole or (done and new) else None
        if done:
            self._steps, self._first, self._begin = [], 0, 0
        elif whole:
            self._begin += cut.period
            keep = max(self._begin - cut.burn_in, 0)
            del self._steps[: keep - self._first]
            self._first = keep
        return found

    def _sequence(self, after: Rows, end: int, ended: bool) -> dict[str, NDArray[Any]]:
        cut = self._cut
        before = min(cut.burn_in, self._begin)
        steps = self._steps[self._begin - before - self._first :]
        length = end - self._begin
        left, right = cut.burn_in - before, cut.length - length
        shown = {n: _padded([*(s[n] for s in steps), after[n]], left, right) for n in SHOWN}
        done = {n: _padded([s[n] for s in steps[before:]], 0, right) for n in ("action", "reward")}
        states = {
            f"{place}_{name}": steps[index][name]
            for place, index in (("start", 0), ("first", before), ("last", before + length - 1))
            for name in STATE
        }
        numbers = {"length": length, "burned": before, "begin": self._begin, "ended": ended}
        return {**shown, **done, **states, **{n: np.array(v) for n, v in numbers.items()}}


def _padded(rows: list[NDArray[Any]], left: int, right: int) -> NDArray[Any]:
    stacked = np.stack(rows)
    return np.pad(stacked, ((left, right), *[(0, 0)] * (stacked.ndim - 1)))


class SequenceMemory:
    """Sequences by priority: TorchRL's storage, and this project's sum of priorities."""

    def __init__(self, settings: Mapping[str, Any], actors: int) -> None:
        """Stores nothing yet.

        Args:
            settings: Native ones.
            actors: Environments that are stepped together.
        """
        length = settings["loop.sequence_length"]
        cut = Cut(length, length - settings["loop.overlap"], settings["BurnInTransform.burn_in"])
        capacity = settings["LazyTensorStorage.max_size"] // cut.period
        exponent = settings["loop.importance_exponent"]
        priorities = Per(
            alpha=settings["loop.priority_exponent"], beta=exponent, beta_final=exponent
        )
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(capacity),
            batch_size=settings["TensorDictReplayBuffer.batch_size"],
        )
        self.tapes = [Tape(cut) for _ in range(actors)]
        self.strategy: Strategy = make_strategy(priorities, capacity, 1, CompiledTree)
        self.numbers = generator(settings["seed"])

    def extend(self, data: TensorDictBase) -> None:
        """Notes what the collector brings, [steps] of one actor or [actors, steps]."""
        found = []
        batch = data if data.ndim == 2 else data.unsqueeze(0)
        steps, after = _arrays(batch), _arrays(batch["next"])
        for actor, tape in enumerate(self.tapes):
            for t in range(batch.shape[1]):
                here = {n: steps[n][actor, t].copy() for n in (*SHOWN, *STATE, "action")}
                here["reward"] = after["reward"][actor, t].copy()
                ends = after["done"][actor, t].item(), after["terminated"][actor, t].item()
                shown = {n: after[n][actor, t].copy() for n in SHOWN}
                if (sequence := tape.add(here, shown, *ends)) is not None:
                    found.append(sequence)
        if found:
            rows = {n: torch.from_numpy(np.stack([s[n] for s in found])) for n in found[0]}
            self.buffer.extend(TensorDict(rows, [len(found)]))
            self.strategy.add(len(found))

    def sample(self) -> tuple[Indices, Floats, TensorDictBase]:
        """Places, importance weights and content of a minibatch of sequences."""
        places, weights = self.strategy.sample(self.numbers, self.buffer.batch_size)
        return places, weights, self.buffer[torch.from_numpy(places)]


def _arrays(data: TensorDictBase) -> dict[str, NDArray[Any]]:
    names = {*SHOWN, *STATE, "action", "reward", "done", "terminated"}
    return {name: data[name].numpy() for name in names if name in data.keys()}  # noqa: SIM118
