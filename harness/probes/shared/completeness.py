"""Probes of what else than the minibatch's predictions pulls on the weights."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.probes import words
from harness.probes.lab import Lab, Run
from harness.probes.networks import ACTIVATIONS, HIDDEN, Activation, features
from harness.probes.probe import Measurement, Probe
from harness.probes.readings import steps_of
from harness.probes.results import Array, Axis, Comparison

GRID = np.linspace(-3.0, 3.0, 25)
Inputs = Callable[[Run], Array]


def probes(
    algorithm: str, run: Callable[[Lab], Run], inputs: Mapping[str, Inputs], source: str
) -> Sequence[Probe]:
    """The probes of one algorithm.

    Args:
        algorithm: Name.
        run: A few updates with known minibatches.
        inputs: What each network saw in its first update, float[rows, inputs].
        source: Where the activation function stands.
    """
    _, paper = HIDDEN[algorithm]
    names = tuple(inputs)

    def activations(lab: Lab) -> Measurement:
        found = [_activation(run(lab), n, see(run(lab))) for n, see in inputs.items()]
        value = np.concatenate([_values(name) for name in found])
        expected = np.tile(paper(GRID), len(names))
        axis = Axis("input; " + ", then ".join(names), np.tile(GRID, len(names)))
        return Measurement(value, expected, axis)

    def rests(lab: Lab) -> Measurement:
        value = np.array([1 - rest(run(lab), n, see(run(lab)), paper) for n, see in inputs.items()])
        return Measurement(value, np.ones_like(value))

    return (
        Probe(
            f"{algorithm}.activation",
            "Which function do hidden units apply?",
            source,
            "output of a unit; " + ", then ".join(names),
            activations,
            _activation_words(names),
        ),
        Probe(
            f"{algorithm}.gradient_source",
            "Does the gradient come from the network's predictions on the minibatch alone?",
            "the papers' losses: yes; a penalty on weights or a second path would leave a rest",
            "share of the last layer's gradient: " + ", ".join(names),
            rests,
            words.listed(names),
            tolerance=2e-3,
        ),
    )


def rest(run: Run, network: str, seen: Array, activation: Activation) -> float:
    """Part of the last layer's gradient that no gradients by its outputs explain, as a share."""
    step = steps_of(run, network)[0]
    layer = "mean" if f"{network}.mean.weight" in step.gradients else "out"
    hidden = features(step.before, network, seen, activation)
    system = np.vstack([hidden.T, np.ones(len(seen))])
    known = np.vstack(
        [step.gradients[f"{network}.{layer}.weight"].T, step.gradients[f"{network}.{layer}.bias"]]
    )
    solution = np.linalg.lstsq(system, known, rcond=None)[0]
    return float(np.abs(system @ solution - known).max() / np.abs(known).max())


def _activation(run: Run, network: str, seen: Array) -> str:
    rests = {name: rest(run, network, seen, f) for name, f in ACTIVATIONS.items()}
    best = min(rests, key=lambda name: rests[name])
    return best if rests[best] < 0.01 else "unknown"


def _values(name: str) -> Array:
    return ACTIVATIONS[name](GRID) if name in ACTIVATIONS else np.full_like(GRID, np.nan)


def _activation_words(networks: Sequence[str]) -> words.Words:
    def text(comparison: Comparison, measurement: Measurement) -> str:
        curves = measurement.value.reshape(len(networks), -1)
        found = [_name(curve) for curve in curves]
        return ", ".join(f"{n}: {name}" for n, name in zip(networks, found, strict=True))

    return text


def _name(curve: Array) -> str:
    names = [name for name, f in ACTIVATIONS.items() if np.allclose(f(GRID), curve)]
    return names[0] if names else "none of " + ", ".join(ACTIVATIONS)
