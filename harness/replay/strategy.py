"""Interfaces of a replay strategy and of its sum tree."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

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
