"""Probes of deep Q-networks."""

import numpy as np

from harness.probes.dqn import counts, exploration, losses, targets, trainings
from harness.probes.dqn.trainings import ALGORITHM, CODE, PAPER
from harness.probes.probe import Probe
from harness.probes.shared import gradients, initial, optimizers, storage

PROBES: tuple[Probe, ...] = (
    *exploration.PROBES,
    *losses.PROBES,
    *targets.PROBES,
    *counts.PROBES,
    *storage.probes("dqn", trainings.update, None),
    storage.full_probe("dqn", trainings.full),
    *gradients.probes("dqn", trainings.update, ("critic1",), f"{PAPER}, methods: rectified"),
    *optimizers.probes(
        "dqn",
        trainings.update,
        trainings.own,
        {"critic1": 2.5e-4},
        1e-8,
        f"{PAPER}, extended data table 1: 0.00025, there of RMSProp; here Adam",
    ),
    initial.target_starts("dqn", trainings.own, ALGORITHM),
    *initial.probes(
        "dqn",
        trainings.own,
        initial.Start(
            lambda name, shape: 1 / np.sqrt(3 * shape[1]),
            1 / np.sqrt(3),
            f"{CODE}: as Torch makes a linear layer, uniform",
        ),
    ),
)
