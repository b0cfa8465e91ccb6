"""Rank-based prioritised replay: Schaul et al., Prioritized Experience Replay, 2016."""

import numpy as np

from harness.contract.replay import Rank
from harness.replay.proportional import Proportional
from harness.replay.strategy import Floats, Indices, SumTree


def ranks(errors: Floats, ordered: Floats) -> Floats:
    """1 and how many of `ordered`, ascending, are larger: the rank that errors would have there."""
    larger = len(ordered) - np.searchsorted(ordered, errors, side="right")
    return np.asarray(larger + 1.0, np.float64)


class RankBased(Proportional):
    """P(i) in proportion to (1 / rank(i))^alpha, the largest error having rank 1.

    All ranks are taken again every `sort_every` minibatches, equal errors one behind the other as
    they are stored. In between, new transitions have rank 1, and replayed ones the rank that
    their error would have had.
    """

    replay: Rank

    def __init__(self, replay: Rank, capacity: int, steps: int, tree: SumTree) -> None:
        super().__init__(replay, capacity, steps, tree)
        self._ordered = np.zeros(0)
        self._draws = 0

    def sample(self, generator: np.random.Generator, n: int) -> tuple[Indices, Floats]:
        """See `Strategy.sample`; sorts first where that is due."""
        if self.size and self._draws % self.replay.sort_every == 0:
            self._sort()
        self._draws += 1
        return super().sample(generator, n)

    def believed(self, indices: Indices, errors: Floats) -> Floats | None:
        """Nothing: ranks are not proportional to errors."""
        return None

    def _sort(self) -> None:
        stored = self.errors[: self.size]
        order = np.argsort(-stored, kind="stable")
        self._ordered = stored[order[::-1]]
        self._tree.set(order, np.arange(1.0, self.size + 1) ** -self.replay.alpha)

    def _enter(self, indices: Indices) -> None:
        found = ranks(self.errors[indices], self._ordered)
        self._tree.set(indices, found**-self.replay.alpha)
