"""Interfaces of a replay strategy and its sum tree, and proportional prioritised replay.

Schaul et al., Prioritized Experience Replay, 2016.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.events import TrainingError
from parallax.harness.contract.replay import PrioritizedReplay, RankReplay

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]

ComputeCurrentErrors = Callable[[Indices], NDArray[Any]]
"""Absolute errors, [N], of stored transitions under the current networks."""


class SumTree(Protocol):
    """Non-negative numbers by index, with their sum and a search in their cumulative sum."""

    def get(self, indices: Indices) -> Floats:
        """Return the numbers at `indices`."""

    def set(self, indices: Indices, values: Floats) -> None:
        """Set the numbers at `indices`; of a repeated index the last one counts."""

    def total(self) -> float:
        """Return the sum of all numbers."""

    def find(self, points: Floats) -> Indices:
        """Return, for points from 0 to the sum, the first index up to which the sum reaches it."""


class ReplayStrategy(Protocol):
    """A replay strategy.

    The buffer calls `add` for the transitions that it stores, in a ring from index 0. For a
    minibatch it calls `sweep` if `is_due`, then `sample`; when the errors of the minibatch are
    known, `correct_weights` for the weights of the losses, then `update`.
    """

    def add(self, count: int = 1) -> Indices:
        """Add new transitions; return their indices, int64[count]."""

    def sample(self, generator: np.random.Generator, n: int) -> tuple[Indices, Floats]:
        """Return indices, int64[n], and importance weights, float64[n], of a minibatch.

        Raises:
            ValueError: Nothing is stored, or `n` is not positive.
        """

    def correct_weights(self, indices: Indices, weights: Floats, errors: NDArray[Any]) -> Floats:
        """Return the weights of the losses, float64[n], given the errors of the minibatch.

        Args:
            indices: Indices of the minibatch.
            weights: Weights returned by `sample`.
            errors: Error of each transition, [n], in units of return; the sign does not matter.

        Raises:
            TrainingError: Errors are not finite.
        """

    def estimate_probabilities(self, indices: Indices, errors: Floats) -> Floats | None:
        """Return the estimated probabilities of transitions under the current networks, [n].

        Args:
            indices: Indices of stored transitions.
            errors: Their absolute errors under these networks, [n], which are known for a
                minibatch when its losses are weighted.

        Returns:
            The probabilities, or None if the strategy has no estimate.
        """

    def update(self, indices: Indices, errors: NDArray[Any]) -> None:
        """Store the errors of a minibatch, [n].

        Raises:
            TrainingError: Errors are not finite.
        """

    def is_due(self) -> bool:
        """Return whether the whole memory must be swept before the next minibatch."""

    def sweep(self, compute_errors: ComputeCurrentErrors) -> None:
        """Process the errors of the whole memory.

        Raises:
            TrainingError: Errors are not finite.
        """


def compute_importance_weights(
    probabilities: Floats, size: int, beta: float, normalize: str
) -> Floats:
    """Return (1 / (N P(i)))^beta, divided by the largest one unless `normalize` is `none`.

    Args:
        probabilities: P(i) of each transition drawn, [n], above 0.
        size: N, the number of transitions stored.
        beta: Degree of bias correction, from 0 to 1.
        normalize: `batch` or `none`.
    """
    weights = np.asarray((size * probabilities) ** -beta, np.float64)
    return weights / weights.max() if normalize == "batch" else weights


def anneal_linearly(start: float, end: float, share: float) -> float:
    """Return the value at a share of a linear schedule, which stays at its end value."""
    return start + (end - start) * min(max(share, 0.0), 1.0)


class ProportionalStrategy:
    """P(i) = p_i^alpha / sum of p^alpha with p_i = |error_i| + epsilon.

    A new transition gets the largest priority so far, at first 1. If all priorities are zero,
    which epsilon=0 allows, all transitions are equally likely.

    Attributes:
        size: Transitions stored.
        added: Transitions stored so far, overwritten ones included.
        errors: Last absolute error of each, float64[capacity]; for a new one the largest so far.
    """

    def __init__(self, replay: PrioritizedReplay, capacity: int, steps: int, tree: SumTree) -> None:
        """Create an empty strategy for a run of `steps`; the sum tree has `capacity` zeros."""
        self.replay = replay
        self.size = 0
        self.added = 0
        self.errors = np.zeros(capacity)
        self._capacity = capacity
        self._beta_steps = replay.beta_steps or steps
        self._tree = tree
        # p_1 of Schaul et al., algorithm 1, line 2.
        self._largest = 1.0  # |error| + epsilon

    @property
    def beta(self) -> float:
        """Current exponent of the weights."""
        return anneal_linearly(
            self.replay.beta, self.replay.beta_final, self.added / self._beta_steps
        )

    def compute_probabilities(self, indices: Indices) -> Floats:
        """Return the current sampling probabilities P(i) of stored transitions, [n]."""
        total = self._tree.total()
        if total <= 0:
            return np.full(len(indices), 1.0 / self.size)
        return self._tree.get(indices) / total

    def add(self, count: int = 1) -> Indices:
        """See `ReplayStrategy.add`."""
        indices = np.arange(self.added, self.added + count, dtype=np.int64) % self._capacity
        self.added += count
        self.size = min(self.size + count, self._capacity)
        # Line 6: a new transition gets the maximal priority. compute_powers adds epsilon again.
        self.errors[indices] = self._largest - self.replay.epsilon
        self._store_priorities(indices)
        return indices

    def sample(self, generator: np.random.Generator, n: int) -> tuple[Indices, Floats]:
        """See `ReplayStrategy.sample`."""
        if n < 1 or not self.size:
            raise ValueError(f"{n} of {self.size} stored transitions cannot be drawn.")
        total = self._tree.total()
        if total <= 0:
            return generator.integers(self.size, size=n), np.ones(n)
        numbers = generator.random(n)
        if self.replay.draws == "stratified":
            # Schaul et al., appendix B.2.1: one draw from each of n equal ranges of the sum.
            numbers = (np.arange(n) + numbers) / n
        # The product may be rounded up to the sum, which would be past the last index.
        indices = self._tree.find(np.minimum(numbers * total, np.nextafter(total, 0)))
        # Partial sums of the tree are rounded too, which may lead to an empty place after the last.
        indices = np.minimum(indices, self.size - 1)
        return indices, self._compute_weights(self.compute_probabilities(indices))

    def correct_weights(self, indices: Indices, weights: Floats, errors: NDArray[Any]) -> Floats:
        """Return the weights unchanged."""
        return weights

    def estimate_probabilities(self, indices: Indices, errors: Floats) -> Floats | None:
        """See `ReplayStrategy.estimate_probabilities`; assumes that stored errors are current."""
        return self.compute_probabilities(indices)

    def update(self, indices: Indices, errors: NDArray[Any]) -> None:
        """See `ReplayStrategy.update`."""
        absolute = self.check_errors(errors)
        self.errors[indices] = absolute
        # The maximum ever seen, as in openai/baselines, not the maximum of the current memory.
        self._largest = max(self._largest, float(absolute.max()) + self.replay.epsilon)
        self._store_priorities(indices)

    def is_due(self) -> bool:
        """Return False: this strategy never sweeps the whole memory."""
        return False

    def sweep(self, compute_errors: ComputeCurrentErrors) -> None:
        """Do nothing: priorities come from minibatches only."""

    def check_errors(self, errors: NDArray[Any]) -> Floats:
        """Return absolute errors, float64[n].

        Raises:
            TrainingError: Some are not finite.
        """
        absolute = np.abs(np.asarray(errors, np.float64))
        broken = int((~np.isfinite(absolute)).sum())
        if broken:
            raise TrainingError(
                f"replay={self.replay.name}: {broken} of {absolute.size} temporal-difference "
                "errors are not finite, so that they give no priorities: the critic has diverged. "
                "Lower its learning rate, or find the cause with diagnosis=on."
            )
        return absolute

    def compute_powers(self, errors: Floats) -> Floats:
        """Return (|error| + epsilon)^alpha."""
        return np.asarray((errors + self.replay.epsilon) ** self.replay.alpha, np.float64)

    def _compute_weights(self, probabilities: Floats) -> Floats:
        # Only rounding can draw an index of probability zero.
        likely = np.maximum(probabilities, np.finfo(np.float64).tiny)
        return compute_importance_weights(likely, self.size, self.beta, self.replay.normalize)

    def _store_priorities(self, indices: Indices) -> None:
        """Write the priorities of the errors at some indices to the tree."""
        self._tree.set(indices, self.compute_powers(self.errors[indices]))


def compute_ranks(errors: Floats, ordered: Floats) -> Floats:
    """Return the ranks of errors in `ordered` (ascending): 1 plus the number of larger ones."""
    larger = len(ordered) - np.searchsorted(ordered, errors, side="right")
    return np.asarray(larger + 1.0, np.float64)


class RankStrategy(ProportionalStrategy):
    """P(i) in proportion to (1 / rank(i))^alpha, the largest error having rank 1.

    All ranks are recomputed every `sort_every` minibatches; equal errors are ranked in the order in
    which they are stored. In between, new transitions have rank 1, and replayed ones the rank that
    their error would have had.
    """

    replay: RankReplay

    def __init__(self, replay: RankReplay, capacity: int, steps: int, tree: SumTree) -> None:
        super().__init__(replay, capacity, steps, tree)
        self._ordered = np.zeros(0)
        self._draws = 0

    def sample(self, generator: np.random.Generator, n: int) -> tuple[Indices, Floats]:
        """See `ReplayStrategy.sample`; sorts first if that is due."""
        if self.size and self._draws % self.replay.sort_every == 0:
            self._sort_by_rank()
        self._draws += 1
        return super().sample(generator, n)

    def estimate_probabilities(self, indices: Indices, errors: Floats) -> Floats | None:
        """Return None: ranks are not proportional to errors."""
        return None

    def _sort_by_rank(self) -> None:
        stored = self.errors[: self.size]
        order = np.argsort(-stored, kind="stable")
        self._ordered = stored[order[::-1]]
        self._tree.set(order, np.arange(1.0, self.size + 1) ** -self.replay.alpha)

    def _store_priorities(self, indices: Indices) -> None:
        found = compute_ranks(self.errors[indices], self._ordered)
        self._tree.set(indices, found**-self.replay.alpha)
