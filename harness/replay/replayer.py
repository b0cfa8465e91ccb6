"""What an adapter's buffer holds to replay by a strategy: what is asked of it, and when."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.replay.account import Account
from harness.replay.accuracy import Looks
from harness.replay.making import NewTree, generator, joined, make_strategy
from harness.replay.proportional import Proportional
from harness.replay.strategy import Floats, Fresh, Indices

_CHUNK = 16_384
"""Transitions whose errors are asked for at once in a sweep of the whole memory."""

Gaps = Callable[[Indices], NDArray[Any]]
"""Errors of every critic, [critics, n], of stored transitions under the current networks.

What random numbers it needs, it takes from others than the training's.
"""
Record = Callable[[Mapping[str, float]], None]


class Replayer:
    """A strategy in a training.

    The buffer tells it of what it stores, asks it for the places of a minibatch, and for the
    weights of the losses when it knows the errors.

    Attributes:
        strategy: Which chooses and weighs.
        account: What that costs.
        drawn: Places of the last minibatch.
    """

    def __init__(self, strategy: Proportional, seed: int, steps: int, critics: str) -> None:
        """Begins a training.

        Args:
            strategy: Which stores nothing yet.
            seed: Of the run.
            steps: Environment transitions of the whole run.
            critics: As for `joined`.
        """
        self.strategy, self.account = strategy, Account()
        self.drawn: Indices = np.zeros(0, np.int64)
        self._weights: Floats = np.zeros(0)
        self._generator, self._critics = generator(seed), critics
        self._looks = Looks(seed, steps)
        self._record: Record | None = None

    def report_to(self, record: Record) -> None:
        """Has the run record how well priorities are predicted."""
        self._record = record

    def draw(self, n: int, gaps: Gaps) -> Indices:
        """Places of a minibatch; `weigh` must be told of its errors before the next one."""
        fresh, added = self._fresh(gaps), self.strategy.added
        self.account.over()
        if self._record and self._looks.due(added):
            started = self.account.clock()
            if (found := self._looks.look(self.strategy, fresh)) is not None:
                self._record({"replay/mape": found.mean, "replay/median_ape": found.median})
            self.account.spent("measuring", started)
        if self.strategy.due():
            started = self.account.clock()
            self.strategy.sweep(fresh)
            self.account.spent("sweeping", started)
        self.drawn, self._weights = self.strategy.sample(self._generator, n)
        return self.drawn

    def weigh(self, gaps: NDArray[Any]) -> Floats:
        """Weights of the losses of the last minibatch, float64[n], and notes its errors.

        Args:
            gaps: Errors of every critic, [critics, n].
        """
        started = self.account.clock()
        errors = joined(gaps, self._critics)
        told = self.strategy.corrected(self.drawn, self._weights, errors)
        self.strategy.update(self.drawn, errors)
        self.account.spent("priorities", started)
        return told

    def _fresh(self, gaps: Gaps) -> Fresh:
        def fresh(places: Indices) -> NDArray[Any]:
            starts = range(0, len(places), _CHUNK)
            parts = [gaps(places[start : start + _CHUNK]) for start in starts]
            return joined(np.concatenate(parts, axis=1), self._critics)

        return fresh


def make_replayer(told: Mapping[str, Any], capacity: int, tree: NewTree) -> Replayer:
    """What a buffer of so many transitions holds.

    Args:
        told: What `Replay.told` says, and `steps` and `seed` of the run.
        capacity: Transitions that are stored at most.
        tree: Makes a sum tree of zeros for so many numbers.
    """
    fields = dict(told)
    steps, seed = fields.pop("steps"), fields.pop("seed")
    strategy = make_strategy(fields, capacity, steps, tree)
    return Replayer(strategy, seed, steps, fields["critics"])
