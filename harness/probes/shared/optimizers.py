"""Probes of the optimisers, and of what else than the predictions pulls on the weights."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.contract import Step
from harness.probes.lab import Lab, Run
from harness.probes.networks import ACTIVATIONS, HIDDEN, Activation, features
from harness.probes.probe import Measurement, Probe, Words, listed
from harness.probes.readings import steps_of
from harness.probes.results import Array, Axis, Comparison

ADAM = "Kingma & Ba 2015 (arXiv:1412.6980), algorithm 1"
SETTINGS = ("eps", "beta1", "beta2", "weight_decay")


def probes(
    algorithm: str,
    run: Callable[[Lab], Run],
    own: Callable[[Lab], Run],
    rates: Mapping[str, float],
    eps: float,
    source: str,
) -> Sequence[Probe]:
    """The probes of one algorithm.

    Args:
        algorithm: Name.
        run: A few updates with known gradients.
        own: A few updates with the framework's own settings.
        rates: The paper's learning rates, by canonical network.
        eps: The authors' epsilon of Adam.
        source: Where these stand.
    """
    networks = tuple(rates)

    def learning_rates(lab: Lab) -> Measurement:
        value = np.array([_first(own(lab), n).settings[n].get("lr", np.nan) for n in networks])
        return Measurement(value, np.array(list(rates.values())))

    def settings(lab: Lab) -> Measurement:
        found = [_first(own(lab), n).settings[n] for n in networks]
        value = np.array([[s.get(k, 0.0) for k in SETTINGS] for s in found])
        expected = np.tile([eps, 0.9, 0.999, 0.0], (len(networks), 1))
        return Measurement(value.ravel(), expected.ravel())

    def steps(lab: Lab) -> Measurement:
        shares = [adam_share(_first(run(lab), network), network) for network in networks]
        return Measurement(np.array(shares), np.ones(len(shares)))

    def kept(lab: Lab) -> Measurement:
        rates_then = _rates_over(own(lab), networks[0])
        return Measurement(rates_then / rates_then[0], np.ones_like(rates_then))

    name = f"{algorithm}.{{}}".format
    listing = ", ".join(networks)
    return (
        Probe(
            name("learning_rates"),
            "Which learning rates are there by default, at the start?",
            source,
            f"learning rates: {listing}",
            learning_rates,
            listed([f"that of the {n}" for n in networks]),
            each=True,
        ),
        Probe(
            name("adam_settings"),
            "Which constants has the optimiser by default?",
            source,
            f"epsilon, beta 1, beta 2 and weight decay: {listing}",
            settings,
            listed([f"{s} of the {n}" for n in networks for s in SETTINGS]),
            each=True,
        ),
        Probe(
            name("optimizer_step"),
            "How far does the first step go, for its gradient and learning rate?",
            ADAM,
            f"share of Adam's step: {listing}",
            steps,
            listed(networks),
            tolerance=5e-3,
        ),
        Probe(
            name("learning_rate_by_default"),
            "Does the learning rate change during a run, by default?",
            f"{source}: it is constant",
            "learning rate of the policy over that of the first step, at each step of a short run",
            kept,
            lambda comparison, measurement: _schedule(measurement.value),
        ),
    )


def adam_share(step: Step, network: str) -> float:
    """Length of a first step along Adam's, as a share; not a number where directions differ."""
    moved, expected = [], []
    settings = step.settings[network]
    for name, gradient in step.gradients.items():
        if name.split(".")[0] == network:
            moved.append((step.after[name] - step.before[name]).ravel())
            expected.append(formulas.adam_step(gradient, settings["lr"], settings["eps"]).ravel())
    taken, line = np.concatenate(moved), np.concatenate(expected)
    # Tiny gradients drown in the rounding of the weights.
    clear = np.abs(line) > 0.1 * np.abs(line).max()
    taken, line = taken[clear], line[clear]
    share = float(taken @ line / (line @ line))
    rest = np.abs(taken - share * line).max() / np.abs(line).max()
    return share if rest < 0.05 * max(1.0, abs(share)) else np.nan


def _first(run: Run, network: str) -> Step:
    return steps_of(run, network)[0]


def _rates_over(run: Run, network: str) -> Array:
    found = [
        s.settings[network].get("lr", np.nan) for s in run.record.steps if network in s.networks
    ]
    return np.array(found)


def _schedule(shares: Array) -> str:
    return f"it goes from {shares[0]:.3g} to {shares[-1]:.3g} of its start"


GRID = np.linspace(-3.0, 3.0, 25)
Inputs = Callable[[Run], Array]


def completeness_probes(
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
            listed(names),
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


def _activation_words(networks: Sequence[str]) -> Words:
    def text(comparison: Comparison, measurement: Measurement) -> str:
        curves = measurement.value.reshape(len(networks), -1)
        found = [_name(curve) for curve in curves]
        return ", ".join(f"{n}: {name}" for n, name in zip(networks, found, strict=True))

    return text


def _name(curve: Array) -> str:
    names = [name for name, f in ACTIVATIONS.items() if np.allclose(f(GRID), curve)]
    return names[0] if names else "none of " + ", ".join(ACTIVATIONS)
