"""Imp-PER: weights corrected by a predicted sum of the real priorities.

Zhang, Qu, Zhang, Li: Self-Adaptive Priority Correction for Prioritized Experience Replay, Applied
Sciences 10 (2020) 6925; its equations 7 to 12 and Algorithm 1.
"""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.contract.replay import Imp, interval
from harness.replay.proportional import Proportional
from harness.replay.regression import fit, predict
from harness.replay.strategy import Floats, Fresh, Indices, SumTree


def smoothed(before: float | None, predicted: float, share: float) -> float:
    """Equation 10: a share of what was, and the rest of what is predicted; at first all of it."""
    return predicted if before is None else share * before + (1.0 - share) * predicted


def corrected_weights(
    real: Floats, stored: Floats, minimum: float, beta: float, bounds: tuple[float, float]
) -> Floats:
    """The weights w v of equation 12 and of Algorithm 1, lines 21 to 24, for each transition, [n].

    Args:
        real: q, predicted probabilities under the current networks, [n], above 0.
        stored: p, probabilities with which the transitions were drawn, [n], above 0.
        minimum: Predicted smallest q of the memory. A smaller one of the minibatch counts as
            it, so that v is at most 1, as the paper's normalisation means it.
        beta: Exponent of v.
        bounds: Smallest and largest w.
    """
    v = np.minimum(minimum / real, 1.0) ** beta
    return np.asarray(np.clip(real / stored, *bounds) * v, np.float64)


class ImpPer(Proportional):
    """Draws as `Proportional` does, and weighs by what priorities would be under new networks.

    Until the first sweep of the memory the weights are those of `Proportional`. A predicted sum
    that is not positive counts as the stored one, and a predicted minimum is at least that of an
    error of 0.

    Attributes:
        pairs: What the model is fitted to, a row for each: both features, sum and minimum of the
            real priorities to the power alpha.
        sum: Smoothed prediction of the sum; None before the first sweep.
        minimum: Smoothed prediction of the smallest probability.
    """

    replay: Imp

    def __init__(self, replay: Imp, capacity: int, steps: int, tree: SumTree) -> None:
        super().__init__(replay, capacity, steps, tree)
        self._sweep_every = replay.sweep_every or interval(steps)
        self._predict_every = replay.predict_every or interval(steps)
        self.pairs: list[list[float]] = []
        self.sum: float | None = None
        self.minimum: float | None = None
        self._stamps = np.zeros(capacity)
        self._sweeps = 0
        self._swept = self._predicted = 0

    def add(self, count: int = 1) -> Indices:
        """See `Strategy.add`."""
        indices = super().add(count)
        self._stamps[indices] = self.added - count + 1.0 + np.arange(count)
        return indices

    def update(self, indices: Indices, errors: NDArray[Any]) -> None:
        """See `Strategy.update`."""
        super().update(indices, errors)
        if self.replay.stamp == "replayed":
            self._stamps[indices] = self.added

    def due(self) -> bool:
        """Whether K or D transitions were stored since."""
        return self._sweep_due() or self._prediction_due()

    def sweep(self, fresh: Fresh) -> None:
        """Algorithm 1, lines 5 to 16: fits where that is due, then predicts where that is."""
        if self._sweep_due():
            self._swept = self.added // self._sweep_every
            self._look(fresh)
        if self._prediction_due():
            self._predicted = self.added // self._predict_every
            self.predict_now()
        elif self.sum is None and self.pairs:
            self.predict_now()

    def corrected(self, indices: Indices, weights: Floats, errors: NDArray[Any]) -> Floats:
        """See `Strategy.corrected`."""
        if self.sum is None or self.minimum is None:
            return weights
        tiny = np.finfo(np.float64).tiny
        real = np.maximum(self.powers(self.checked(errors)) / self.sum, tiny)
        stored = np.maximum(self.probabilities(indices), tiny)
        high = self.replay.weight_high
        bounds = (self.replay.weight_low, np.sqrt(len(indices)) if high is None else high)
        return corrected_weights(real, stored, self.minimum, self.beta, bounds)

    def believed(self, indices: Indices, errors: Floats) -> Floats | None:
        """See `Strategy.believed`: by the predicted sum; until the first sweep as `per`."""
        if self.sum is None:
            return super().believed(indices, errors)
        return self.powers(errors) / self.sum

    def features(self, places: slice) -> list[float]:
        """x1 and x2 of some of the memory: sums of stored priorities and of time-stamps."""
        return [float(self.powers(self.errors[places]).sum()), float(self._stamps[places].sum())]

    def predict_now(self) -> None:
        """Predicts sum and minimum by equation 7, and smooths them by equation 10."""
        if not self.pairs:
            return
        rows = np.array(self.pairs)
        now = np.array([self.features(slice(0, self.size))])
        told = [float(predict(fit(rows[:, :2], rows[:, i]), now)[0]) for i in (2, 3)]
        total = told[0] if told[0] > 0 else now[0, 0]
        least = max(told[1], float(self.powers(np.zeros(1))[0]))
        if total <= 0:  # all priorities are zero
            return
        self.sum = smoothed(self.sum, total, self.replay.rho_sum)
        self.minimum = smoothed(self.minimum, least / self.sum, self.replay.rho_minimum)

    def _sweep_due(self) -> bool:
        return self.added // self._sweep_every > self._swept

    def _prediction_due(self) -> bool:
        return bool(self.pairs) and self.added // self._predict_every > self._predicted

    def _look(self, fresh: Fresh) -> None:
        real = self.powers(self.checked(fresh(np.arange(self.size))))
        pieces = self.replay.fragments if self._sweeps < self.replay.fragment_sweeps else 1
        self._sweeps += 1
        ends = np.linspace(0, self.size, min(pieces, self.size) + 1).astype(int).tolist()
        for start, end in itertools.pairwise(ends):
            piece = real[start:end]
            row = [*self.features(slice(start, end)), float(piece.sum()), float(piece.min())]
            self.pairs.append(row)
