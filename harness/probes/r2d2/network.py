"""A network with a memory in NumPy float64, and what it makes of a training's steps.

Weights are in the canonical layout: `<network>.0` before the memory, `lstm_input` and `lstm_state`,
then `1` and `out`, or `value0`, `value`, `advantage0` and `advantage`. The memory sees the last
action and the last reward behind the features of the observation.
"""

import numpy as np

from harness.probes import formulas
from harness.probes.contract import Parameters
from harness.probes.networks import RELU
from harness.probes.results import Array

State = Array
"""float[2, units]: what is shown, and what is kept."""


def part(weights: Parameters, network: str) -> dict[str, Array]:
    """The layers of one network, by their own names."""
    start = f"{network}."
    return {name.removeprefix(start): a for name, a in weights.items() if name.startswith(start)}


def nothing(layers: Parameters) -> State:
    """The state at the beginning of an episode."""
    return np.zeros((2, layers["lstm_state.weight"].shape[1]))


def remembered(layers: Parameters, seen: Array, state: State) -> tuple[Array, list[State]]:
    """Takes steps one after another.

    Args:
        layers: Of one network.
        seen: Observation, last action one-hot and last reward, float[steps, all of them].
        state: Before the first step.

    Returns:
        What the memory shows at each step, float[steps, units]; the states behind each.
    """
    size = layers["0.weight"].shape[1]
    states = []
    for row in seen:
        features = RELU(layers["0.weight"] @ row[:size] + layers["0.bias"])
        shown, kept = state
        state = formulas.lstm(np.concatenate([features, row[size:]]), shown, kept, layers)
        states.append(state)
    return np.array([shown for shown, _ in states]), states


def head(layers: Parameters, shown: Array, name: str = "out", before: str = "1") -> Array:
    """Output of a head, float[rows, outputs].

    Args:
        layers: Of one network.
        shown: By the memory, float[rows, units].
        name: The head's last layer.
        before: Its hidden layer.
    """
    hidden = features(layers, shown, before)
    return np.asarray(hidden @ layers[f"{name}.weight"].T + layers[f"{name}.bias"])


def features(layers: Parameters, shown: Array, name: str = "1") -> Array:
    """Output of a head's hidden layer, float[rows, units]."""
    return RELU(shown @ layers[f"{name}.weight"].T + layers[f"{name}.bias"])


def values(layers: Parameters, shown: Array) -> Array:
    """Values of all choices, float[rows, choices], with one head or with two."""
    if "out.weight" in layers:
        return head(layers, shown)
    value, advantages = (head(layers, shown, n, f"{n}0") for n in ("value", "advantage"))
    return formulas.duelling_values(value, advantages)
