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
"""Absolute errors, [N], of stored transitions under the networks as they are now."""


class SumTree(Protocol):
    """Non-negative numbers by index, their sum, and where a point on their sum lies."""

    def get(self, indices: Indices) -> Floats:
        """The numbers at `indices`."""

    def set(self, indices: Indices, values: Floats) -> None:
        """Puts numbers at `indices`; of an index that stands there twice the last counts."""

    def total(self) -> float:
        """The sum of all numbers."""

    def find(self, points: Floats) -> Indices:
        """For each point from 0 up to the sum the first index up to which the sum reaches it."""


class ReplayStrategy(Protocol):
    """A replay strategy.

    The buffer calls `add` for what it stores, at places that go around in a ring from 0. For a
    minibatch it calls `sweep` where it is `due`, then `sample`; when the errors of the minibatch
    are known, `corrected` for the weights of the losses, then `update`.
    """

    def add(self, count: int = 1) -> Indices:
        """Notes new transitions; returns their places, int64[count]."""

    def sample(self, generator: np.random.Generator, n: int) -> tuple[Indices, Floats]:
        """Places, int64[n], and importance weights, float64[n], of a minibatch.

        Raises:
            ValueError: Nothing is stored, or `n` is not positive.
        """

    def correct_weights(self, indices: Indices, weights: Floats, errors: NDArray[Any]) -> Floats:
        """The weights of the losses, float64[n], now that the errors of the minibatch are known.

        Args:
            indices: Of the minibatch.
            weights: As `sample` gave them.
            errors: Of each transition, [n], in units of return; their signs do not matter.

        Raises:
            TrainingError: Errors are not finite.
        """

    def estimate_probabilities(self, indices: Indices, errors: Floats) -> Floats | None:
        """Return the estimated probabilities of transitions under the current networks, [n].

        Args:
            indices: Of stored transitions.
            errors: Their absolute errors under these networks, [n], which are known of a
                minibatch when its losses are weighed.

        Returns:
            None where nothing is believed.
        """

    def update(self, indices: Indices, errors: NDArray[Any]) -> None:
        """Notes the errors of a minibatch, [n].

        Raises:
            TrainingError: Errors are not finite.
        """

    def is_due(self) -> bool:
        """Return whether all of the memory is to be looked at before the next minibatch."""

    def sweep(self, fresh: ComputeCurrentErrors) -> None:
        """Looks at all of the memory.

        Raises:
            TrainingError: Errors are not finite.
        """


def compute_importance_weights(
    probabilities: Floats, size: int, beta: float, normalize: str
) -> Floats:
    """(1 / (N P(i)))^beta, divided by the largest of them unless `normalize` is `none`.

    Args:
        probabilities: P(i) of each transition drawn, [n], above 0.
        size: N, the number of transitions stored.
        beta: How much of the bias is taken back, from 0 to 1.
        normalize: `batch` or `none`.
    """
    weights = np.asarray((size * probabilities) ** -beta, np.float64)
    return weights / weights.max() if normalize == "batch" else weights


def anneal_linearly(start: float, end: float, share: float) -> float:
    """The value at a share of a linear schedule, which stays at its end."""
    return start + (end - start) * min(max(share, 0.0), 1.0)


class ProportionalStrategy:
    """P(i) = p_i^alpha / sum of p^alpha with p_i = |error_i| + epsilon.

    A new transition gets the largest priority that there has been, 1 before any. Where all
    priorities are zero, which epsilon=0 allows, every transition is as likely as any other.

    Attributes:
        replay: The hyperparameters.
        size: Transitions stored.
        added: Transitions stored so far, those included that were overwritten.
        errors: Last absolute error of each, float64[capacity]; of a new one the largest so far.
    """

    def __init__(self, replay: PrioritizedReplay, capacity: int, steps: int, tree: SumTree) -> None:
        """Stores nothing yet.

        Args:
            replay: The hyperparameters.
            capacity: Transitions that are stored at most.
            steps: Environment transitions of the whole run.
            tree: Of zeros, for `capacity` numbers.
        """
        self.replay = replay
        self.size = 0
        self.added = 0
        self.errors = np.zeros(capacity)
        self._capacity = capacity
        self._beta_steps = replay.beta_steps or steps
        self._tree = tree
        self._largest = 1.0  # |error| + epsilon

    @property
    def beta(self) -> float:
        """The exponent of the weights now."""
        return anneal_linearly(
            self.replay.beta, self.replay.beta_final, self.added / self._beta_steps
        )

    def compute_probabilities(self, indices: Indices) -> Floats:
        """P(i) of stored transitions as they are drawn now, [n]."""
        total = self._tree.total()
        if total <= 0:
            return np.full(len(indices), 1.0 / self.size)
        return self._tree.get(indices) / total

    def add(self, count: int = 1) -> Indices:
        """See `Strategy.add`."""
        indices = np.arange(self.added, self.added + count, dtype=np.int64) % self._capacity
        self.added += count
        self.size = min(self.size + count, self._capacity)
        self.errors[indices] = self._largest - self.replay.epsilon
        self._store_priorities(indices)
        return indices

    def sample(self, generator: np.random.Generator, n: int) -> tuple[Indices, Floats]:
        """See `Strategy.sample`."""
        if n < 1 or not self.size:
            raise ValueError(f"{n} of {self.size} stored transitions cannot be drawn.")
        total = self._tree.total()
        if total <= 0:
            return generator.integers(self.size, size=n), np.ones(n)
        numbers = generator.random(n)
        if self.replay.draws == "stratified":
            numbers = (np.arange(n) + numbers) / n
        # The product may be rounded up to the sum, and a point behind the last place.
        indices = self._tree.find(np.minimum(numbers * total, np.nextafter(total, 0)))
        indices = np.minimum(indices, self.size - 1)
        return indices, self._compute_weights(self.compute_probabilities(indices))

    def correct_weights(self, indices: Indices, weights: Floats, errors: NDArray[Any]) -> Floats:
        """The weights as they are."""
        return weights

    def estimate_probabilities(self, indices: Indices, errors: Floats) -> Floats | None:
        """See `Strategy.estimate_probabilities`: that the stored ones still hold."""
        return self.compute_probabilities(indices)

    def update(self, indices: Indices, errors: NDArray[Any]) -> None:
        """See `Strategy.update`."""
        absolute = self.check_errors(errors)
        self.errors[indices] = absolute
        self._largest = max(self._largest, float(absolute.max()) + self.replay.epsilon)
        self._store_priorities(indices)

    def is_due(self) -> bool:
        """Return False: this strategy never sweeps the whole memory."""
        return False

    def sweep(self, fresh: ComputeCurrentErrors) -> None:
        """Does nothing: priorities come from minibatches only."""

    def check_errors(self, errors: NDArray[Any]) -> Floats:
        """Absolute errors, float64[n].

        Raises:
            TrainingError: Some are not finite.
        """
        absolute = np.abs(np.asarray(errors, np.float64))
        broken = int((~np.isfinite(absolute)).sum())
        if broken:
            raise TrainingError(
                f"replay={self.replay.name}: {broken} of {absolute.size} temporal-difference "
                "errors are not finite, so that they give no priorities: the critic has diverged. "
                "Lower its learning rate, or look with diagnosis=on where it began."
            )
        return absolute

    def compute_powers(self, errors: Floats) -> Floats:
        """(|error| + epsilon)^alpha."""
        return np.asarray((errors + self.replay.epsilon) ** self.replay.alpha, np.float64)

    def _compute_weights(self, probabilities: Floats) -> Floats:
        # A place of no probability is met by rounding only.
        likely = np.maximum(probabilities, np.finfo(np.float64).tiny)
        return compute_importance_weights(likely, self.size, self.beta, self.replay.normalize)

    def _store_priorities(self, indices: Indices) -> None:
        """Puts what the errors at some places come to into the tree."""
        self._tree.set(indices, self.compute_powers(self.errors[indices]))


def compute_ranks(errors: Floats, ordered: Floats) -> Floats:
    """1 and how many of `ordered`, ascending, are larger: the rank that errors would have there."""
    larger = len(ordered) - np.searchsorted(ordered, errors, side="right")
    return np.asarray(larger + 1.0, np.float64)


class RankStrategy(ProportionalStrategy):
    """P(i) in proportion to (1 / rank(i))^alpha, the largest error having rank 1.

    All ranks are taken again every `sort_every` minibatches, equal errors one behind the other as
    they are stored. In between, new transitions have rank 1, and replayed ones the rank that
    their error would have had.
    """

    replay: RankReplay

    def __init__(self, replay: RankReplay, capacity: int, steps: int, tree: SumTree) -> None:
        super().__init__(replay, capacity, steps, tree)
        self._ordered = np.zeros(0)
        self._draws = 0

    def sample(self, generator: np.random.Generator, n: int) -> tuple[Indices, Floats]:
        """See `Strategy.sample`; sorts first where that is due."""
        if self.size and self._draws % self.replay.sort_every == 0:
            self._sort_by_rank()
        self._draws += 1
        return super().sample(generator, n)

    def estimate_probabilities(self, indices: Indices, errors: Floats) -> Floats | None:
        """Nothing: ranks are not proportional to errors."""
        return None

    def _sort_by_rank(self) -> None:
        stored = self.errors[: self.size]
        order = np.argsort(-stored, kind="stable")
        self._ordered = stored[order[::-1]]
        self._tree.set(order, np.arange(1.0, self.size + 1) ** -self.replay.alpha)

    def _store_priorities(self, indices: Indices) -> None:
        found = compute_ranks(self.errors[indices], self._ordered)
        self._tree.set(indices, found**-self.replay.alpha)
