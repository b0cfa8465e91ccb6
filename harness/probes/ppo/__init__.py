"""Probes of proximal policy optimisation."""

import numpy as np

from harness.probes.ppo import actions, advantages, annealing, later, losses, minibatches, trainings
from harness.probes.ppo.trainings import CODE, PAPER
from harness.probes.probe import Probe
from harness.probes.shared import gradients, initial, optimizers, storage

GAINS = {"policy.out": 0.01, "value.out": 1.0}
"""Orthogonal gain of the last layers in the authors' code; hidden layers have sqrt(2)."""


def _orthogonal(name: str, shape: tuple[int, ...]) -> float:
    return float(GAINS.get(name, np.sqrt(2)) / np.sqrt(max(shape)))


PROBES: tuple[Probe, ...] = (
    storage.greedy_probe(
        "ppo",
        (trainings.wide, lambda lab: trainings.beyond(lab, narrow=True)),
        "out",
        f"{PAPER}, section 6.1: the mean of the Gaussian; {CODE} cuts it",
    ),
    *actions.PROBES,
    *advantages.PROBES,
    *losses.POLICY_PROBES,
    *losses.PROBES,
    *later.PROBES,
    *minibatches.PROBES,
    *losses.DIVERGENCE_PROBES,
    *annealing.PROBES,
    *gradients.probes(
        "ppo",
        trainings.rollouts,
        ("policy", "value"),
        f"{PAPER}, section 6.1: tanh",
    ),
    *optimizers.probes(
        "ppo",
        trainings.rollouts,
        trainings.own,
        {"policy": 3e-4, "value": 3e-4},
        1e-5,
        f"{PAPER}, table 3: Adam with 0.0003; epsilon in {CODE}",
    ),
    initial.constant_start(
        "ppo.initial_std",
        "Which standard deviation has the policy at the start, by default?",
        f"{CODE}: 1",
        trainings.own,
        "policy.log_std",
        1.0,
    ),
    *initial.probes(
        "ppo",
        trainings.own,
        initial.Start(
            _orthogonal,
            0.0,
            f"{CODE}: orthogonal, gain sqrt(2), 0.01 for the policy's last layer, no bias",
            orthogonal=True,
            sizes=(64, 64, 64, 64),
            size_source=f"{PAPER}, section 6.1: 64 and 64",
        ),
    ),
)
