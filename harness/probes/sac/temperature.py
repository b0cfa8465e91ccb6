"""Probes of SAC's temperature."""

from collections.abc import Sequence

import numpy as np

from harness.probes import setups, words
from harness.probes.lab import Lab
from harness.probes.probe import Measurement, Probe
from harness.probes.readings import batch, steps_of
from harness.probes.results import Array
from harness.probes.sac import runs
from harness.probes.sac.runs import PAPER
from harness.probes.sac.update import sample, temperature

ON_LOG = "the loss is linear in the log temperature, so the pull lacks the temperature as a factor"


def pulls(lab: Lab) -> tuple[Array, Array, float]:
    """Gradients by the log temperature, mean log-probabilities, and the temperature.

    Of trainings with little and with much noise.
    """
    found, means = [], []
    for run in runs.quiet_and_noisy(lab):
        step = steps_of(run, "temperature")[0]
        found.append(step.gradients["temperature.log"].reshape(-1)[0])
        means.append(sample(run, step.before, batch(run).observations)[1].mean())
    return np.array(found), np.array(means), temperature(run.weights)


def _gradient(lab: Lab) -> Measurement:
    found, means, heat = pulls(lab)
    apart = means - setups.ACTIONS
    return Measurement(found, -heat * apart, alternatives={ON_LOG: -apart})


def _target_entropy(lab: Lab) -> Measurement:
    found, means, _ = pulls(lab)
    slope, start = np.polyfit(means, found, 1)
    return Measurement(np.array([start / slope]), np.array([-float(setups.ACTIONS)]))


PROBES: Sequence[Probe] = (
    Probe(
        "sac.temperature_gradient",
        "How strongly is the temperature pulled?",
        f"{PAPER}, eq. 18: the loss is linear in the temperature itself",
        "gradient by the log temperature, under little and under much noise; temperature 0.5",
        _gradient,
        words.relation("pull on the log temperature"),
    ),
    Probe(
        "sac.target_entropy",
        "Which entropy does the temperature steer to?",
        f"{PAPER}, appendix D: minus the number of actions",
        "nats, for two action dimensions",
        _target_entropy,
        words.relation("target entropy"),
    ),
)
