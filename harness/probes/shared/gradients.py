"""Probes of what pulls on the weights, and of what moves them besides their optimisers."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from harness.probes.contract import Parameters, Step
from harness.probes.lab import Lab, Run
from harness.probes.networks import ACTIVATIONS, HIDDEN, Activation, back_propagated, features
from harness.probes.probe import Measurement, Probe, Unmeasured, Words, listed
from harness.probes.readings import UPDATES, batch, check_own, critic_updates, steps_of
from harness.probes.results import Array, Axis, Comparison

GRID = np.linspace(-3.0, 3.0, 25)
_ROUNDING = 1e-6  # of what goes into a unit


def probes(
    algorithm: str, run: Callable[[Lab], Run], networks: Sequence[str], source: str
) -> Sequence[Probe]:
    """The probes of one algorithm.

    Args:
        algorithm: Name.
        run: Some updates with known minibatches.
        networks: Canonical names.
        source: Where the activation function stands.
    """
    _, paper = HIDDEN[algorithm]
    two = networks[:2]

    def activations(lab: Lab) -> Measurement:
        check_own(run(lab), *two)
        found = [_activation(run(lab), n) for n in two]
        value = np.concatenate([_values(name) for name in found])
        axis = Axis("input; " + ", then ".join(two), np.tile(GRID, len(two)))
        return Measurement(value, np.tile(paper(GRID), len(two)), axis)

    def rests(lab: Lab) -> Measurement:
        value = np.array([1 - _largest_rest(run(lab), n, paper) for n in networks])
        return Measurement(value, np.ones_like(value))

    def moved(lab: Lab) -> Measurement:
        value = moved_otherwise(run(lab), networks)
        return Measurement(value, np.zeros_like(value))

    return (
        Probe(
            f"{algorithm}.activation",
            "Which function do hidden units apply?",
            source,
            "output of a unit; " + ", then ".join(two),
            activations,
            _activation_words(two),
        ),
        Probe(
            f"{algorithm}.gradient_source",
            "Do gradients come from the network's predictions on the minibatch alone?",
            "the papers' losses: yes; a penalty on weights or a second path would leave a rest",
            f"share of all layers' gradients, at worst in the first {UPDATES} updates: "
            + ", ".join(networks),
            rests,
            listed(networks),
            tolerance=5e-3,
        ),
        Probe(
            f"{algorithm}.moved_otherwise",
            "Which networks change otherwise than by a step of their optimiser?",
            "the papers' algorithms: none but targets",
            f"times, between and in the first {UPDATES} updates: {', '.join(networks)}",
            moved,
            listed([f"changes of the {name} without a step" for name in networks]),
            counts=True,
        ),
    )


def inputs_of(run: Run, network: str, step: Step) -> Array:
    """What a network saw in an update, float[rows, inputs]."""
    if not network.startswith("critic"):
        return step.observations
    data = batch(run, step)
    if run.experiment.dictation.choices:
        return data.observations
    return np.hstack([data.observations, data.actions])


def updates_of(run: Run, network: str) -> list[Step]:
    """The first steps of a network, with those of the other critic where it is one."""
    if network.startswith("critic"):
        return critic_updates(run)
    return steps_of(run, network)[:UPDATES]


def rest(run: Run, network: str, step: Step, activation: Activation) -> float:
    """Part of the last layers' gradients that no gradients by outputs explain, as a share."""
    pulls = _pulls(run, network, step, activation)
    hidden = features(step.before, network, inputs_of(run, network, step), activation)
    return max(
        _apart(pull.T @ hidden, step.gradients[f"{network}.{head}.weight"])
        for head, pull in pulls.items()
    )


def _pulls(run: Run, network: str, step: Step, activation: Activation) -> dict[str, Array]:
    # Gradients of the loss by the outputs of each head, solved from its layer's.
    hidden = features(step.before, network, inputs_of(run, network, step), activation)
    system = np.vstack([hidden.T, np.ones(len(hidden))])
    found = {}
    for head in ("out", "mean", "std"):
        name = f"{network}.{head}"
        if f"{name}.weight" in step.gradients:
            both = (step.gradients[f"{name}.weight"].T, step.gradients[f"{name}.bias"])
            found[head] = np.linalg.lstsq(system, np.vstack(both), rcond=None)[0]
    if not found:
        raise Unmeasured(f"its optimiser got no gradient of {network}")
    return found


def _largest_rest(run: Run, network: str, activation: Activation) -> float:
    rests = []
    for step in updates_of(run, network):
        seen = inputs_of(run, network, step)
        pulls = _pulls(run, network, step, activation)
        # Rounding decides whether a gradient passes a unit that is hardly on or off.
        either = [
            back_propagated(step.before, network, seen, activation, pulls, above)
            for above in (-_ROUNDING, _ROUNDING)
        ]
        rests.append(min(_furthest(expected, step.gradients) for expected in either))
    return max(rests)


def _furthest(expected: Parameters, found: Parameters) -> float:
    return max(_apart(array, found[name]) for name, array in expected.items())


def _apart(one: Array, other: Array) -> float:
    scale = max(float(np.abs(one).max()), float(np.abs(other).max()))
    return float(np.abs(one - other).max()) / scale if scale > 0 else 0.0


def moved_otherwise(run: Run, networks: Sequence[str]) -> Array:
    """How often each network changed between its optimiser's steps, or in another's step."""
    kept = [step for step in run.record.steps if step.before and step.after]
    kept = kept[: 4 * UPDATES]
    found = []
    for network in networks:
        between = sum(
            _differ(one.after, two.before, network) for one, two in itertools.pairwise(kept)
        )
        within = sum(_differ(s.before, s.after, network) for s in kept if network not in s.networks)
        found.append(float(between + within))
    return np.array(found)


def _differ(one: Parameters, other: Parameters, network: str) -> bool:
    names = [name for name in one if name.split(".")[0] == network]
    return any(not np.array_equal(one[name], other[name]) for name in names)


def _activation(run: Run, network: str) -> str:
    step = updates_of(run, network)[0]
    rests = {name: rest(run, network, step, f) for name, f in ACTIVATIONS.items()}
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
