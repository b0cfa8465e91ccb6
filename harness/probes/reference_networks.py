"""Two-layer networks in NumPy float64, to compute expected numbers and to read gradients.

All functions take weights in the canonical layout of `parallax.harness.contract.probing.protocol`.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import Parameters

Activation = Callable[[Array], Array]
RELU: Activation = lambda x: np.maximum(x, 0.0)  # noqa: E731
TANH: Activation = np.tanh
ACTIVATIONS: Mapping[str, Activation] = {
    "ReLU": RELU,
    "tanh": TANH,
    "identity": lambda x: x,
    "sigmoid": special.expit,
    "leaky ReLU": lambda x: np.where(x > 0, x, 0.01 * x),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "SiLU": lambda x: x * special.expit(x),
    "GELU": lambda x: x * special.ndtr(x),
    "softplus": lambda x: np.logaddexp(0.0, x),
}
"""Functions that hidden units are compared with."""

HIDDEN_LAYERS: Mapping[str, tuple[tuple[int, int], Activation]] = {
    "ppo": ((64, 64), TANH),
    "td3": ((256, 256), RELU),
    "sac": ((256, 256), RELU),
    "ddpg": ((256, 256), RELU),
    "dqn": ((120, 84), RELU),
}
"""Units of the two hidden layers and activation that probes use, by algorithm."""

NETWORK_NAMES: Mapping[str, tuple[str, ...]] = {
    "ppo": ("policy", "value"),
    "td3": ("policy", "critic1", "critic2", "critic1_target", "critic2_target", "policy_target"),
    "sac": ("policy", "critic1", "critic2", "critic1_target", "critic2_target"),
    "ddpg": ("policy", "critic1", "critic1_target", "policy_target"),
    "dqn": ("critic1", "critic1_target"),
}
"""Networks by algorithm."""
POLICY_HEADS: Mapping[str, tuple[str, ...]] = {"sac": ("mean", "std")}
"""Output layers of policies that have others than the single layer `out`."""


def compute_features(
    weights: Parameters, network: str, inputs: Array, activation: Activation
) -> Array:
    """Return the output of the last hidden layer, float[rows, units]."""
    hidden = inputs
    for layer in ("0", "1"):
        name = f"{network}.{layer}"
        hidden = activation(hidden @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])
    return hidden


def compute_output(
    weights: Parameters, network: str, inputs: Array, activation: Activation, layer: str = "out"
) -> Array:
    """Return the output of a network, float[rows, outputs]."""
    name = f"{network}.{layer}"
    hidden = compute_features(weights, network, inputs, activation)
    return hidden @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def compute_input_gradient(weights: Parameters, network: str, inputs: Array) -> Array:
    """Return the gradient of a ReLU network's single output by its inputs, float[rows, inputs]."""
    w0, b0 = weights[f"{network}.0.weight"], weights[f"{network}.0.bias"]
    w1, b1 = weights[f"{network}.1.weight"], weights[f"{network}.1.bias"]
    first = inputs @ w0.T + b0
    second = RELU(first) @ w1.T + b1
    upper = (second > 0) * weights[f"{network}.out.weight"]
    return np.asarray(((upper @ w1) * (first > 0)) @ w0)


def solve_output_gradient(
    gradients: Parameters,
    weights: Parameters,
    network: str,
    inputs: Array,
    activation: Activation,
    layer: str = "out",
) -> Array:
    """Return the gradient of a loss by a network's output per row, solved from the last layer's.

    The gradient of the last layer is the sum over rows of (gradient by the output) x (its
    inputs). With more hidden units than rows, this can be solved for the rows. So the effect of
    a loss on each transition is read from upstream's own gradients.

    Args:
        gradients: Gradients that upstream's optimizer received.
        weights: Weights of the network at that time.
        network: Canonical name.
        inputs: The minibatch, float[rows, inputs].
        activation: Activation of the hidden layers.
        layer: The output layer.

    Returns:
        float[rows, outputs].
    """
    hidden = compute_features(weights, network, inputs, activation)
    system = np.vstack([hidden.T, np.ones(len(inputs))])
    name = f"{network}.{layer}"
    known = np.vstack([gradients[f"{name}.weight"].T, gradients[f"{name}.bias"]])
    solution: Array = np.linalg.lstsq(system, known, rcond=None)[0]
    return solution


MAX_CONDITION = 1e4
"""Gradients of rows that are worse conditioned are mostly the amplified rounding of float32."""


def find_solvable_rows(
    weights: Parameters, network: str, inputs: Array, activation: Activation
) -> NDArray[np.bool_]:
    """Return for each row whether the last layer's gradient determines its own, bool[rows].

    It does not if rows have proportional features, or nearly so, as with a single active ReLU
    unit. Equal rows share one gradient.
    """
    rows, places = np.unique(inputs, axis=0, return_inverse=True)
    system = np.vstack([compute_features(weights, network, rows, activation).T, np.ones(len(rows))])
    inverse = np.linalg.pinv(system, rcond=1e-6)
    condition = np.linalg.norm(inverse, axis=1) * np.linalg.norm(system, 2)
    is_known = (np.diag(inverse @ system) > 0.999) & (condition < MAX_CONDITION)
    return np.asarray(is_known[places.ravel()])


def backpropagate_gradients(
    weights: Parameters,
    network: str,
    inputs: Array,
    activation: Activation,
    pulls: Mapping[str, Array],
    above: float = 0.0,
) -> dict[str, Array]:
    """Return gradients of all weights and biases for given gradients by the outputs of each head.

    Args:
        weights: Weights of the network.
        network: Canonical name.
        inputs: The minibatch, float[rows, inputs].
        activation: ReLU or tanh.
        pulls: Gradients by outputs for each head, float[rows, outputs].
        above: Gradients pass a ReLU unit whose input exceeds this.
    """
    layers, hidden, slopes = [inputs], inputs, []
    for layer in ("0", "1"):
        name = f"{network}.{layer}"
        before = hidden @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        hidden = activation(before)
        layers.append(hidden)
        slopes.append(1 - hidden**2 if activation is TANH else before > above)
    found = _compute_layer_gradients(
        network, {head: (pull, hidden) for head, pull in pulls.items()}
    )
    flow: Array = np.zeros_like(hidden)
    for head, pull in pulls.items():
        flow = flow + pull @ weights[f"{network}.{head}.weight"]
    for layer in ("1", "0"):
        flow = flow * slopes[int(layer)]
        found |= _compute_layer_gradients(network, {layer: (flow, layers[int(layer)])})
        flow = flow @ weights[f"{network}.{layer}.weight"]
    return found


def _compute_layer_gradients(
    network: str, layers: Mapping[str, tuple[Array, Array]]
) -> dict[str, Array]:
    weights = {f"{network}.{n}.weight": pull.T @ seen for n, (pull, seen) in layers.items()}
    return weights | {f"{network}.{n}.bias": pull.sum(axis=0) for n, (pull, _) in layers.items()}


def draw_weights(
    generator: np.random.Generator,
    algorithm: str,
    observation_size: int,
    action_size: int,
    sizes: tuple[int, int] | None = None,
) -> dict[str, Array]:
    """Return well-conditioned random weights of an algorithm's networks; targets differ.

    Args:
        generator: Generator of the numbers.
        algorithm: Name of the algorithm.
        observation_size: Number of observation dimensions.
        action_size: Number of action dimensions, or of discrete actions.
        sizes: Units of both hidden layers; None for those of `HIDDEN_LAYERS`.
    """
    heads: Mapping[str, Sequence[str]] = {"policy": POLICY_HEADS.get(algorithm, ("out",))}
    networks, (first, second) = NETWORK_NAMES[algorithm], sizes or HIDDEN_LAYERS[algorithm][0]
    # Without a policy, critics output values of all discrete actions.
    choosing = "policy" not in networks
    weights: dict[str, Array] = {}
    for network in networks:
        takes_actions = network.startswith("critic") and not choosing
        inputs = observation_size + (action_size if takes_actions else 0)
        outputs = action_size if network.startswith("policy") or choosing else 1
        layers = {"0": (first, inputs, 1.0), "1": (second, first, 1.4)}
        layers |= dict.fromkeys(heads.get(network, ("out",)), (outputs, second, 0.5))
        for name, (rows, columns, gain) in layers.items():
            scale = gain / np.sqrt(columns)
            weights[f"{network}.{name}.weight"] = scale * generator.normal(size=(rows, columns))
            weights[f"{network}.{name}.bias"] = 0.1 * generator.normal(size=rows)
    if algorithm == "ppo":
        weights["policy.log_std"] = np.full(action_size, -0.5)
    if algorithm == "sac":
        weights["temperature.log"] = np.array([np.log(0.5)])
    return {name: round_to_float32(array) for name, array in weights.items()}


def round_to_float32(array: Array) -> Array:
    """Round to float32, so that frameworks and reference formulas start from the same numbers."""
    return array.astype(np.float32).astype(float)
