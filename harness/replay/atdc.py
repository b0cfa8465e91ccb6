"""ATDC-PER: priorities of all of the memory corrected by a model of how errors age.

Bai, Liu, Zhao, Tang: Active Sampling for Deep Q-Learning Based on TD-error Adaptive Correction,
Journal of Computer Research and Development 56 (2019) 262, as far as its abstract and Imp-PER's
account of it go: a linear model from the last error and the time since the last replay to the real
error, trained now and then, by which the priorities of all transitions are set at every iteration.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.contract.replay import Atdc, interval
from harness.replay.proportional import Proportional
from harness.replay.regression import fit, predict
from harness.replay.strategy import Floats, Fresh, Indices, SumTree


class AtdcPer(Proportional):
    """Draws by predicted errors, never below 0; until the first sweep as `Proportional` does.

    A prediction is always made from the error that was measured last, not from an earlier
    prediction, so that corrections do not add up.

    Attributes:
        model: Coefficients of last error and age, and the constant; None before the first sweep.
    """

    replay: Atdc

    def __init__(self, replay: Atdc, capacity: int, steps: int, tree: SumTree) -> None:
        super().__init__(replay, capacity, steps, tree)
        self.model: Floats | None = None
        self._sweep_every = replay.sweep_every or interval(steps)
        self._replayed = np.zeros(capacity)
        self._swept = 0
        self._draws = 0

    def add(self, count: int = 1) -> Indices:
        """See `Strategy.add`."""
        indices = super().add(count)
        self._replayed[indices] = self.added
        return indices

    def sample(self, generator: np.random.Generator, n: int) -> tuple[Indices, Floats]:
        """See `Strategy.sample`; corrects all priorities first where that is due."""
        if self.model is not None and self._draws % self.replay.correct_every == 0:
            everything = np.arange(self.size)
            self._tree.set(everything, self.powers(self.predicted()))
        self._draws += 1
        return super().sample(generator, n)

    def update(self, indices: Indices, errors: NDArray[Any]) -> None:
        """See `Strategy.update`."""
        super().update(indices, errors)
        self._replayed[indices] = self.added

    def believed(self, indices: Indices, errors: Floats) -> Floats | None:
        """See `Strategy.believed`: what the model says of each; until the first sweep as `per`."""
        if self.model is None:
            return super().believed(indices, errors)
        powers = self.powers(self.predicted())
        total = powers.sum()
        return powers[indices] / total if total > 0 else self.probabilities(indices)

    def due(self) -> bool:
        """Whether K transitions were stored since the last sweep."""
        return self.added // self._sweep_every > self._swept

    def sweep(self, fresh: Fresh) -> None:
        """Fits the model to the errors of all of the memory under the current networks."""
        self._swept = self.added // self._sweep_every
        real = self.checked(fresh(np.arange(self.size)))
        self.model = fit(self._features(), real)

    def predicted(self) -> Floats:
        """Errors of all that is stored, as the model has them: float64[size], at least 0."""
        assert self.model is not None
        return np.maximum(predict(self.model, self._features()), 0.0)

    def _features(self) -> Floats:
        stored = slice(0, self.size)
        return np.column_stack([self.errors[stored], self.added - self._replayed[stored]])
