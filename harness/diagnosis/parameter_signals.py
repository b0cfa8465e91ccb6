"""Signals of parameters: their sizes, their changes, and how far targets follow their networks."""

import re
from collections.abc import Mapping

import numpy as np

from parallax.harness.contract.adapter import Weights
from parallax.harness.diagnosis.signals import Array, TrainingSignals

_PUNCTUATION = re.compile(r"[^a-z0-9]")


class ParameterSignalCollector:
    """Collector that compares all parameters with those of the reading before."""

    def __init__(self, signals: TrainingSignals) -> None:
        self._signals = signals
        self._previous: Weights = {}
        self._unchanged: set[str] = set()
        self._target_pairs: list[tuple[str, str]] = []
        # By target parameter, the last step at which it moved or its main parameter did not.
        self._follow_steps: dict[str, int] = {}

    def read(self, weights: Weights) -> None:
        """Add the signals of all parameters; the first reading stores the initial ones."""
        previous, self._previous = self._previous, weights
        matrices = {
            name: value
            for name, value in weights.items()
            if value.ndim >= 2 and "target" not in name and not name.endswith("bias")
        }
        self._add_sizes(weights, matrices)
        if not previous:
            self._store_first(weights, matrices)
            return
        values = self._signals.values
        self._unchanged -= {
            name for name in self._unchanged if not np.array_equal(previous[name], weights[name])
        }
        values["still"] = frozenset(self._unchanged)
        values["matrices"] = len(matrices)
        if self._target_pairs:
            self._add_target_signals(previous, weights)

    def _add_sizes(self, weights: Weights, matrices: Mapping[str, Array]) -> None:
        signals = self._signals
        signals.values["weights_finite"] = all(np.isfinite(v).all() for v in weights.values())
        biases = _compute_bias_sizes(weights)
        if biases:
            signals.add("bias_size", max(biases.values()))
        sizes = (float(np.abs(value).mean()) for value in matrices.values())
        signals.add("weight_size", max(sizes, default=0))

    def _store_first(self, weights: Weights, matrices: Mapping[str, Array]) -> None:
        signals = self._signals
        # After a resumption the first weights that are read are not the initial ones.
        is_initial = "beginning" in signals.values
        signals.values["first_weights"] = _describe_matrices(matrices) if is_initial else {}
        signals.values["first_biases"] = _compute_bias_sizes(weights) if is_initial else {}
        self._target_pairs = pair_target_parameters(weights)
        self._follow_steps = {target: signals.step for target, _ in self._target_pairs}
        # Frameworks store the scale of the actions like a matrix, and it never changes.
        action_dims = len(signals.facts.action_low)
        self._unchanged = {name for name, value in matrices.items() if value.size > action_dims}

    def _add_target_signals(self, previous: Weights, weights: Weights) -> None:
        step, ages = self._signals.step, []
        for target, main in self._target_pairs:
            main_moved = not np.array_equal(previous[main], weights[main])
            if not main_moved or not np.array_equal(previous[target], weights[target]):
                self._follow_steps[target] = step
            # A target is not expected to move while its main parameter stays as it is.
            if main_moved:
                ages.append(step - self._follow_steps[target])
        if ages:
            self._signals.add("target_age", max(ages))
            is_equal = all(
                # A copy by Polyak's formula with tau=1 may round differently in float32.
                np.allclose(weights[target], weights[main], rtol=1e-5, atol=1e-7)
                for target, main in self._target_pairs
            )
            self._signals.add("target_equal", float(is_equal))


def _compute_bias_sizes(weights: Weights) -> dict[str, float]:
    return {
        name: float(np.abs(value).mean())
        for name, value in weights.items()
        if name.endswith("bias") and value.size
    }


def pair_target_parameters(weights: Weights) -> list[tuple[str, str]]:
    """Return pairs of names: a target network's parameter and the one that it follows."""
    mains = {_PUNCTUATION.sub("", n.lower()): n for n in weights if "target" not in n.lower()}
    pairs = []
    for name in weights:
        if "target" in name.lower():
            plain = _PUNCTUATION.sub("", name.lower().replace("target", ""))
            main = mains.get(plain) or _match_by_suffix(plain, mains)
            main = main or _match_by_parameter_path(name, list(mains.values()))
            if main and weights[main].shape == weights[name].shape:
                pairs.append((name, main))
    return pairs


def _match_by_suffix(plain: str, mains: Mapping[str, str]) -> str | None:
    """Return the only parameter with this suffix, such as `policy.actor` for `actor_target`."""
    ends = [main for name, main in mains.items() if plain and name.endswith(plain)]
    return ends[0] if len(ends) == 1 else None


def _match_by_parameter_path(name: str, mains: list[str]) -> str | None:
    """Return the only parameter with the same path inside its network, if there is one."""
    _, _, rest = name.partition(".")
    alike = [main for main in mains if rest and main.partition(".")[2] == rest]
    return alike[0] if len(alike) == 1 else None


def _describe_matrices(matrices: Mapping[str, Array]) -> dict[str, tuple[float, float, bool]]:
    """Return per matrix: std times sqrt(inputs), mean absolute value, and whether units are equal.

    An array with three dimensions is a stack of matrices, such as those of vectorised critics.
    """
    described = {}
    for name, matrix in matrices.items():
        value = _arrange_by_unit(name, matrix)
        inputs = value.shape[-1] if value.ndim == 3 else value[0].size
        units = value if value.ndim == 3 else value.reshape(1, len(value), -1)
        # With a single input it is not a layer: the log_std of Gaussian policies has this shape.
        alike = units.shape[1] > 1 and units.shape[2] > 1 and np.ptp(units, axis=1).max() == 0
        described[name] = (
            float(value.std() * np.sqrt(inputs)),
            float(np.abs(value).mean()),
            bool(alike and np.abs(value).max() > 0),
        )
    return described


def _arrange_by_unit(name: str, value: Array) -> Array:
    """Return a matrix with one row per unit; kernels of JAX libraries have one column per unit."""
    if not name.endswith("kernel"):
        return value
    return value.swapaxes(-1, -2) if value.ndim == 3 else np.moveaxis(value, -1, 0)
