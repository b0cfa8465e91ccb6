"""Probes of the optimisers: settings, and how far they step."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.contract import Step
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, listed
from harness.probes.readings import UPDATES, steps_of
from harness.probes.results import Array

ADAM = "Kingma & Ba 2015 (arXiv:1412.6980), algorithm 1"
SETTINGS = ("eps", "beta1", "beta2", "weight_decay")


def probes(
    algorithm: str,
    run: Callable[[Lab], Run],
    own: Callable[[Lab], Run],
    rates: Mapping[str, float],
    eps: float,
    source: str,
    decay: float = 0.0,
) -> Sequence[Probe]:
    """The probes of one algorithm.

    Args:
        algorithm: Name.
        run: A few updates with known gradients.
        own: A few updates with the framework's own settings.
        rates: The paper's learning rates, by canonical network.
        eps: The authors' epsilon of Adam.
        source: Where these stand.
        decay: The paper's weight decay of critics.
    """
    networks = tuple(rates)

    def learning_rates(lab: Lab) -> Measurement:
        value = np.array([_first(own(lab), n).settings[n].get("lr", np.nan) for n in networks])
        return Measurement(value, np.array(list(rates.values())))

    def settings(lab: Lab) -> Measurement:
        value = np.array([[_held(own(lab), n, k) for k in SETTINGS] for n in networks])
        decays = (decay if network.startswith("critic") else 0.0 for network in networks)
        expected = np.array([[eps, 0.9, 0.999, decay_of] for decay_of in decays])
        return Measurement(value.ravel(), expected.ravel())

    def kept(lab: Lab) -> Measurement:
        rates_then = [_held_over(own(lab), n, "lr") for n in networks]
        value = np.concatenate([rates / rates[0] for rates in rates_then])
        return Measurement(value, np.ones_like(value))

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
        step_probe(algorithm, run, networks),
        Probe(
            name("learning_rate_by_default"),
            "Does the learning rate change during a run, by default?",
            f"{source}: it is constant",
            f"learning rate over that of the first step, at each step of a short run, of {listing}",
            kept,
            lambda comparison, measurement: _schedule(measurement.value),
        ),
    )


def step_probe(algorithm: str, run: Callable[[Lab], Run], networks: Sequence[str]) -> Probe:
    """A probe of how far steps go.

    Args:
        algorithm: Name.
        run: A few updates with known gradients.
        networks: Canonical names.
    """

    def steps(lab: Lab) -> Measurement:
        shares = np.concatenate([adam_shares(run(lab), network) for network in networks])
        return Measurement(shares, np.ones_like(shares))

    return Probe(
        f"{algorithm}.optimizer_step",
        "How far do steps go, for the gradients until then and the learning rate?",
        ADAM,
        f"share of Adam's step, in the first {UPDATES} steps of {', '.join(networks)}",
        steps,
        _step_words,
        tolerance=1e-3,
    )


ROUNDING = 1e-3
"""Part of a step, as a share of its largest entry, that is rounding."""


def adam_shares(run: Run, network: str, penalty: float = 0.0) -> Array:
    """Lengths of the first steps along Adam's with the same gradients, as shares.

    Not a number where directions differ.

    Args:
        run: The training.
        network: Canonical name.
        penalty: Weight of half the squared weights, whose gradient is added.
    """
    adam, shares = formulas.Adam(), []
    for step in steps_of(run, network)[:UPDATES]:
        if step.after:
            shares.append(_adam_share(adam, step, network, penalty))
    return np.array(shares)


def _adam_share(adam: formulas.Adam, step: Step, network: str, penalty: float) -> float:
    names = [name for name in step.gradients if name.split(".")[0] == network]
    if not names:
        return float("nan")
    pulls = {n: step.gradients[n] + penalty * step.before[n] for n in names}
    line = np.concatenate(
        [adam.step(n, pull, step.settings[network]).ravel() for n, pull in pulls.items()]
    )
    taken = np.concatenate([(step.after[n] - step.before[n]).ravel() for n in names])
    share = float(taken @ line / (line @ line))
    rest = np.abs(taken - share * line).max() / np.abs(line).max()
    return share if rest < ROUNDING * max(1.0, abs(share)) else np.nan


def _step_words(comparison: object, measurement: Measurement) -> str:
    value = measurement.value
    lost = int(np.isnan(value).sum())
    if lost:
        return f"{lost} of {len(value)} steps go elsewhere than Adam's"
    return f"steps are {value.min():.4g} to {value.max():.4g} times as long as Adam's"


def _first(run: Run, network: str) -> Step:
    return steps_of(run, network)[0]


def _held(run: Run, network: str, setting: str) -> float:
    # What a setting is at the first step, or what it becomes.
    over = _held_over(run, network, setting)
    return float(over[np.argmax(np.abs(over - over[0]))])


def _held_over(run: Run, network: str, setting: str) -> Array:
    missing = np.nan if setting == "lr" else 0.0
    found = [s.settings[network] for s in run.record.steps if network in s.networks]
    return np.array([settings.get(setting, missing) for settings in found])


def _schedule(shares: Array) -> str:
    return f"it goes from {shares[0]:.3g} to {shares[-1]:.3g} of its start"
