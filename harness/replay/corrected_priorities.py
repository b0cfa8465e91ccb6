"""ATDC-PER and Imp-PER: priorities or weights corrected by linear models of the real errors.

ATDC-PER: Bai, Liu, Zhao, Tang: Active Sampling for Deep Q-Learning Based on TD-error Adaptive
Correction, Journal of Computer Research and Development 56 (2019) 262, as described in its abstract
and by Imp-PER: a linear model predicts the real error from the last error and the time since the
last replay; it is trained at intervals and sets all priorities at every iteration.
"""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.replay import AtdcReplay, ImpReplay, compute_default_interval
from parallax.harness.replay.prioritized import (
    ComputeCurrentErrors,
    Floats,
    Indices,
    ProportionalStrategy,
    SumTree,
)


def fit_least_squares(features: Floats, targets: Floats) -> Floats:
    """Return the coefficients of least squares with a constant: equations 7 and 8 of Imp-PER.

    If the pairs do not determine them, they are those of smallest norm, with each column in units
    of its largest entry.

    Args:
        features: [pairs, k].
        targets: [pairs].

    Returns:
        W1 ... Wk and the constant, float64[k + 1].
    """
    columns = np.column_stack([features, np.ones(len(features))])
    # lstsq ignores singular values that are small beside the largest: sums of time stamps would
    # hide the constant without this scale.
    scale = np.abs(columns).max(axis=0)
    # All stored errors can be 0, which gives a column of zeros.
    scale[scale == 0] = 1.0
    found, *_ = np.linalg.lstsq(columns / scale, targets, rcond=None)
    return np.asarray(found / scale, np.float64)


def predict_linear(coefficients: Floats, features: Floats) -> Floats:
    """Return the model's predictions [pairs] for features [pairs, k]."""
    return np.asarray(features @ coefficients[:-1] + coefficients[-1], np.float64)


class AtdcStrategy(ProportionalStrategy):
    """Draws by predicted errors, at least 0; like `ProportionalStrategy` until the first sweep.

    Predictions always start from the last measured error, not from an earlier prediction, so
    that corrections do not add up.

    Attributes:
        model: Coefficients of last error and age, and the constant; None before the first sweep.
    """

    replay: AtdcReplay

    def __init__(self, replay: AtdcReplay, capacity: int, steps: int, tree: SumTree) -> None:
        super().__init__(replay, capacity, steps, tree)
        self.model: Floats | None = None
        self._sweep_every = replay.sweep_every or compute_default_interval(steps)
        self._replayed = np.zeros(capacity)
        self._swept = 0
        self._draws = 0

    def add(self, count: int = 1) -> Indices:
        """See `ReplayStrategy.add`."""
        indices = super().add(count)
        self._replayed[indices] = self.added
        return indices

    def sample(self, generator: np.random.Generator, n: int) -> tuple[Indices, Floats]:
        """See `ReplayStrategy.sample`; corrects all priorities first if that is due."""
        # Only the tree changes: self.errors stay measured, because predictions start from them.
        if self.model is not None and self._draws % self.replay.correct_every == 0:
            self._tree.set(np.arange(self.size), self.compute_powers(self.predict_errors()))
        self._draws += 1
        return super().sample(generator, n)

    def update(self, indices: Indices, errors: NDArray[Any]) -> None:
        """See `ReplayStrategy.update`."""
        super().update(indices, errors)
        self._replayed[indices] = self.added

    def estimate_probabilities(self, indices: Indices, errors: Floats) -> Floats | None:
        """Return the predicted probabilities; those of `per` until the first sweep."""
        if self.model is None:
            return super().estimate_probabilities(indices, errors)
        powers = self.compute_powers(self.predict_errors())
        total = powers.sum()
        return powers[indices] / total if total > 0 else self.compute_probabilities(indices)

    def is_due(self) -> bool:
        """Return whether K transitions were stored since the last sweep."""
        # Not a remainder of 0: several transitions are stored between two draws, and may skip it.
        return self.added // self._sweep_every > self._swept

    def sweep(self, compute_errors: ComputeCurrentErrors) -> None:
        """Fit the model to the errors of the whole memory under the current networks."""
        self._swept = self.added // self._sweep_every
        real = self.check_errors(compute_errors(np.arange(self.size)))
        self.model = fit_least_squares(self._compute_features(), real)

    def predict_errors(self) -> Floats:
        """Return the model's prediction of all stored errors: float64[size], at least 0."""
        assert self.model is not None
        return np.maximum(predict_linear(self.model, self._compute_features()), 0.0)

    def _compute_features(self) -> Floats:
        stored = slice(0, self.size)
        return np.column_stack([self.errors[stored], self.added - self._replayed[stored]])


def smooth_prediction(before: float | None, predicted: float, share: float) -> float:
    """Equation 10: return `share` of `before` plus the rest of `predicted`; all of it at first."""
    return predicted if before is None else share * before + (1.0 - share) * predicted


def compute_corrected_weights(
    real: Floats, stored: Floats, minimum: float, beta: float, bounds: tuple[float, float]
) -> Floats:
    """Return the weights w v of equation 12 and Algorithm 1, lines 21 to 24, by transition, [n].

    Args:
        real: q, predicted probabilities under the current networks, [n], above 0.
        stored: p, probabilities with which the transitions were drawn, [n], above 0.
        minimum: Smallest q. A smaller q in the minibatch is raised to it, so that v is at most 1,
            as the paper's normalisation intends.
        beta: Exponent of v.
        bounds: Smallest and largest w.
    """
    v = np.minimum(minimum / real, 1.0) ** beta
    return np.asarray(np.clip(real / stored, *bounds) * v, np.float64)


class ImpStrategy(ProportionalStrategy):
    """Draws like `ProportionalStrategy`, and weights by priorities under the newest networks.

    Until the first sweep of the memory the weights are those of `ProportionalStrategy`. A predicted
    sum that is not positive is replaced by the stored one, and a predicted minimum is at least that
    of an error of 0.

    Attributes:
        pairs: Rows that the model is fitted to: both features, and sum and minimum of the real
            priorities to the power alpha.
        sum: Smoothed prediction of the sum; None before the first sweep.
        minimum: Smoothed prediction of the smallest probability.
    """

    replay: ImpReplay

    def __init__(self, replay: ImpReplay, capacity: int, steps: int, tree: SumTree) -> None:
        super().__init__(replay, capacity, steps, tree)
        self._sweep_every = replay.sweep_every or compute_default_interval(steps)
        self._predict_every = replay.predict_every or compute_default_interval(steps)
        self.pairs: list[list[float]] = []
        self.sum: float | None = None
        self.minimum: float | None = None
        self._stamps = np.zeros(capacity)
        self._sweeps = 0
        self._swept = self._predicted = 0

    def add(self, count: int = 1) -> Indices:
        """See `ReplayStrategy.add`."""
        indices = super().add(count)
        # The number of the transition in the order of storing, from 1.
        self._stamps[indices] = self.added - count + 1.0 + np.arange(count)
        return indices

    def update(self, indices: Indices, errors: NDArray[Any]) -> None:
        """See `ReplayStrategy.update`."""
        super().update(indices, errors)
        if self.replay.stamp == "replayed":
            self._stamps[indices] = self.added

    def is_due(self) -> bool:
        """Return whether a sweep, every K transitions, or a prediction, every D, is due."""
        return self._is_sweep_due() or self._is_prediction_due()

    def sweep(self, compute_errors: ComputeCurrentErrors) -> None:
        """Algorithm 1, lines 5 to 16: add rows to fit and update predictions, each if it is due."""
        if self._is_sweep_due():
            self._swept = self.added // self._sweep_every
            self._add_regression_rows(compute_errors)
        if self._is_prediction_due():
            self._predicted = self.added // self._predict_every
            self.update_predictions()
        elif self.sum is None and self.pairs:
            self.update_predictions()

    def correct_weights(self, indices: Indices, weights: Floats, errors: NDArray[Any]) -> Floats:
        """See `ReplayStrategy.correct_weights`."""
        if self.sum is None or self.minimum is None:
            return weights
        tiny = np.finfo(np.float64).tiny
        # epsilon=0 allows errors and priorities of 0, which would divide by 0.
        real = np.maximum(self.compute_powers(self.check_errors(errors)) / self.sum, tiny)
        stored = np.maximum(self.compute_probabilities(indices), tiny)
        high = self.replay.weight_high
        bounds = (self.replay.weight_low, np.sqrt(len(indices)) if high is None else high)
        # A predicted minimum can be a millionth of q in a minibatch, which makes all weights tiny.
        smallest = self.minimum if self.replay.smallest == "memory" else float(real.min())
        return compute_corrected_weights(real, stored, smallest, self.beta, bounds)

    def estimate_probabilities(self, indices: Indices, errors: Floats) -> Floats | None:
        """Return probabilities by the predicted sum; until the first sweep those of `per`."""
        if self.sum is None:
            return super().estimate_probabilities(indices, errors)
        return self.compute_powers(errors) / self.sum

    def compute_features(self, places: slice) -> list[float]:
        """Return x1 and x2 of a part of the memory: sums of stored priorities and time-stamps."""
        return [
            float(self.compute_powers(self.errors[places]).sum()),
            float(self._stamps[places].sum()),
        ]

    def update_predictions(self) -> None:
        """Predict sum and minimum by equation 7, and smooth them by equation 10."""
        if not self.pairs:
            return
        rows = np.array(self.pairs)
        now = np.array([self.compute_features(slice(0, self.size))])
        sums = [
            float(predict_linear(fit_least_squares(rows[:, :2], rows[:, i]), now)[0])
            for i in (2, 3)
        ]
        total = sums[0] if sums[0] > 0 else now[0, 0]
        least = max(sums[1], float(self.compute_powers(np.zeros(1))[0]))
        if total <= 0:  # all priorities are zero
            return
        self.sum = smooth_prediction(self.sum, total, self.replay.rho_sum)
        self.minimum = smooth_prediction(self.minimum, least / self.sum, self.replay.rho_minimum)

    def _is_sweep_due(self) -> bool:
        return self.added // self._sweep_every > self._swept

    def _is_prediction_due(self) -> bool:
        return bool(self.pairs) and self.added // self._predict_every > self._predicted

    def _add_regression_rows(self, compute_errors: ComputeCurrentErrors) -> None:
        real = self.compute_powers(self.check_errors(compute_errors(np.arange(self.size))))
        # Equation 9: a row of each fragment, because one row cannot determine three coefficients.
        pieces = self.replay.fragments if self._sweeps < self.replay.fragment_sweeps else 1
        self._sweeps += 1
        ends = np.linspace(0, self.size, min(pieces, self.size) + 1).astype(int).tolist()
        for start, end in itertools.pairwise(ends):
            piece = real[start:end]
            row = [
                *self.compute_features(slice(start, end)),
                float(piece.sum()),
                float(piece.min()),
            ]
            self.pairs.append(row)
