"""Probes of deep deterministic policy gradient."""

import numpy as np

from harness.probes.ddpg import noise, trainings, update
from harness.probes.ddpg.trainings import ALGORITHM, PAPER
from harness.probes.probe import Probe, relation
from harness.probes.settings.single_statements import exploration_unit
from harness.probes.shared import counts, gradients, initial, optimizers, storage

LAST = 3e-3
"""Bound of the uniform weights and biases of the paper's last layers."""


def _weight(name: str, shape: tuple[int, ...]) -> float:
    bound = LAST if name.endswith(".out") else 1 / np.sqrt(shape[1])
    return float(bound / np.sqrt(3))


def _bias(name: str, inputs: int) -> float:
    return _weight(name, (1, inputs)) * float(np.sqrt(inputs))


PROBES: tuple[Probe, ...] = (
    storage.greedy_probe(
        "ddpg",
        (trainings.beyond, trainings.narrow),
        "out",
        f"{PAPER}, section 7: tanh of the output; here scaled to the range",
    ),
    storage.edges_probe(
        "ddpg", (trainings.beyond, trainings.narrow), f"{PAPER}, section 7: bounded; here cut there"
    ),
    Probe(
        "ddpg.exploration",
        "Which action is taken with Gaussian noise of 0.1 of half the range, from -1 to 3?",
        f"{ALGORITHM}: the policy's action and noise; here kept within the bounds",
        "action, in action units",
        lambda lab: exploration_unit(lab, "ddpg"),
        relation("action"),
    ),
    *noise.PROBES,
    *update.PROBES,
    *counts.off_policy("ddpg", trainings.counting, trainings.copies, ALGORITHM, 1),
    *storage.probes("ddpg", trainings.update, trainings.beyond),
    storage.full_probe("ddpg", trainings.full),
    *gradients.probes(
        "ddpg", trainings.update, ("policy", "critic1"), f"{PAPER}, section 7: rectified"
    ),
    *optimizers.probes(
        "ddpg",
        trainings.update,
        trainings.own,
        {"policy": 1e-4, "critic1": 1e-3},
        1e-8,
        f"{PAPER}, section 7: Adam with 0.0001 and 0.001, weight decay 0.01 of the critic",
        decay=0.01,
    ),
    initial.target_starts("ddpg", trainings.own, ALGORITHM),
    *initial.probes(
        "ddpg",
        trainings.own,
        initial.Start(
            _weight,
            _bias,
            f"{PAPER}, section 7: uniform within 1/sqrt(inputs), the last layer within 0.003",
            sizes=(400, 300, 400, 300),
            size_source=f"{PAPER}, section 7: 400 and 300",
        ),
    ),
)
