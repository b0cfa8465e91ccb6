"""Signals of the layers of networks, from the inputs that they receive during some updates."""

from typing import Any

import numpy as np

from parallax.harness.contract.events import LayerForward
from parallax.harness.diagnosis.signals import Array, TrainingSignals

DORMANT_THRESHOLD = 0.025
"""Units below this share of their layer's mean activation are dormant.

Sokar et al. 2023 (arXiv:2302.12902), definition 3.1 with tau = 0.025.
"""

MAX_LAYER_ROWS = 64
"""Rows of a layer's input that are examined."""

_MAX_LAYERS = 24
_MAX_FORWARDS = 400  # calls of any layers
_RANK_REMAINDER = 0.01  # delta of srank_delta, Kumar et al. 2021 (arXiv:2010.14498)
_DEAD_SIZE = 1e-5
_RARE_SHARE = 0.05  # largest share of inputs that may activate a dead unit
_SATURATED_SIZE = 0.98
_SATURATED_SHARE = 0.95  # smallest share of inputs at which a saturated unit is at its bounds


class LayerRecorder:
    """Recorder of the inputs of layers during one window of updates.

    Attributes:
        is_full: Whether enough inputs are recorded, so that layers need not be watched further.
        minibatch: Largest input of a layer, float32[rows, features]; empty if it is no state.
    """

    def __init__(self, signals: TrainingSignals) -> None:
        self._signals = signals
        self.is_full = False
        self.minibatch: Array = np.zeros((0, 0))
        # Normalized states cannot be compared with those of the environment.
        self._finds_states = not signals.facts.normalized
        self._inputs: list[tuple[Any, Array, tuple[int, ...]]] = []
        self._are_preactivations: list[bool] = []
        self._forwards, self._most_rows = 0, 0

    def record(self, forward: LayerForward) -> Array | None:
        """Record the input of a layer with parameters.

        Returns:
            The input of a linear layer, float32[rows, features]; None for other layers and for a
            single row, which is one of acting.
        """
        self._forwards += 1
        self.is_full = len(self._inputs) >= _MAX_LAYERS or self._forwards >= _MAX_FORWARDS
        if not forward.places or not forward.inputs:
            return None
        dimensions = getattr(getattr(forward.layer, "weight", None), "ndim", 0)
        if dimensions >= 2 and (is_preactivation := forward.is_preactivation()) is not None:
            self._are_preactivations.append(is_preactivation)
            self._most_rows = max(self._most_rows, len(forward.inputs[0]))
        if dimensions != 2:
            self._finds_states &= dimensions < 2  # features of convolutions are not states
            return None
        inputs = to_numpy(forward.inputs[0])
        if inputs is None or inputs.ndim != 2 or inputs.shape[0] < 2:
            return None
        # Minibatches have more rows than the inputs of acting or of evaluations.
        if self._finds_states and inputs.shape[0] > len(self.minibatch):
            self.minibatch = inputs.copy()
        self._inputs.append((forward.layer, inputs[:MAX_LAYER_ROWS].copy(), forward.places))
        return inputs

    def add_signals(self, trained: set[int], policy_places: frozenset[int], ranks: bool) -> None:
        """Add the signals of all layers whose outputs are the input of the layer after them.

        Args:
            trained: Addresses of the parameters that an optimizer updates.
            policy_places: Addresses of the policy's parameters; empty if they are unknown.
            ranks: Whether to compute effective ranks, which takes the longest.
        """
        readings: dict[str, list[float]] = {"dead": [], "dormant": [], "saturated": []}
        effective_ranks, value_sizes = list[float](), list[float]()
        is_finite = True
        for layer, places, outputs in self._list_hidden_outputs(trained):
            is_finite &= bool(np.isfinite(outputs).all())
            if not is_finite:
                continue
            for name, share in _measure_units(outputs).items():
                readings[name].append(share)
            if ranks:
                effective_ranks.append(compute_effective_rank(outputs) / min(outputs.shape))
            value_sizes += self._measure_values(layer, outputs, places, policy_places)
        signals = self._signals
        signals.values["activations_finite"] = is_finite
        if self._are_preactivations:
            signals.add("linear_after_linear", float(any(self._are_preactivations)))
            signals.add("batch_rows", self._most_rows)
        for name, shares in readings.items():
            if shares:
                signals.add(name, max(shares))
        if effective_ranks:
            signals.add("rank", min(effective_ranks))
        if value_sizes:
            signals.add("value_size", max(value_sizes))

    def _list_hidden_outputs(self, trained: set[int]) -> list[tuple[Any, tuple[int, ...], Array]]:
        """Return each trained layer once, with its input: the outputs of the layer before it."""
        found: dict[tuple[int, ...], tuple[Any, tuple[int, ...], Array]] = {}
        for (before, given, _), (layer, inputs, places) in zip(
            self._inputs, self._inputs[1:], strict=False
        ):
            # Successive calls may be of two networks: the sizes show what fits together.
            follows = before.weight.shape[0] == inputs.shape[1] and len(given) == len(inputs)
            if follows and places not in found and trained.intersection(places):
                found[places] = layer, places, inputs
        return list(found.values())

    def _measure_values(
        self, layer: Any, inputs: Array, places: tuple[int, ...], policy_places: frozenset[int]
    ) -> list[float]:
        """Return the mean absolute output of a last layer that predicts values, if it is one."""
        weight, bias = to_numpy(layer.weight), to_numpy(getattr(layer, "bias", None))
        choices = self._signals.facts.choices
        if weight is None or weight.shape[0] not in {1, choices or 1}:
            return []
        if not choices and (not policy_places or policy_places.intersection(places)):
            return []  # an actor with one action dimension looks like a critic
        return [float(np.abs(inputs @ weight.T + (0.0 if bias is None else bias)).mean())]


def _measure_units(outputs: Array) -> dict[str, float]:
    """Return the shares of dead, dormant and saturated units of a layer."""
    size = np.abs(outputs)
    mean = size.mean(axis=0)
    shares = {
        "dead": float(((size >= _DEAD_SIZE).mean(axis=0) <= _RARE_SHARE).mean()),
        # The paper's score, mean |h| of a unit over the layer's mean, without its division by 0.
        "dormant": float((mean <= DORMANT_THRESHOLD * max(mean.mean(), 1e-30)).mean()),
    }
    # ReLU has no negative outputs; ELU, GELU and SiLU have no upper bound.
    if size.max() <= 1.0 and outputs.min() < -0.5:  # tanh
        is_at_bounds = (size > _SATURATED_SIZE).mean(axis=0) > _SATURATED_SHARE
        shares["saturated"] = float(is_at_bounds.mean())
    return shares


def compute_effective_rank(features: Array) -> int:
    """Return the number of singular values that make up 99% of their sum.

    srank of Kumar et al. 2021 (arXiv:2010.14498), section 3, with delta = 0.01.

    Args:
        features: float[rows, units].
    """
    singular = np.linalg.svd(features, compute_uv=False)
    total = singular.sum()
    return int((np.cumsum(singular) < (1 - _RANK_REMAINDER) * total).sum()) + 1 if total > 0 else 0


def to_numpy(tensor: Any) -> Array | None:
    """Return a tensor as a NumPy array; None inside a vectorised call (`torch.vmap`)."""
    if isinstance(tensor, np.ndarray):
        return tensor
    try:
        return np.asarray(tensor.detach().cpu().numpy())
    except (AttributeError, RuntimeError, TypeError):
        return None
