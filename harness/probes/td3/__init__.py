"""Probes of twin delayed deep deterministic policy gradient."""

import numpy as np

from harness.probes.probe import Probe
from harness.probes.shared import counts, gradients, initial, optimizers, storage
from harness.probes.td3 import action, trainings, update
from harness.probes.td3.trainings import CODE, DELAY, PAPER

ALGORITHM = f"{PAPER}, algorithm 1"


PROBES: tuple[Probe, ...] = (
    storage.greedy_probe(
        "td3",
        (trainings.acting, trainings.narrow),
        "out",
        f"{PAPER}, appendix C: tanh of the output, scaled",
    ),
    storage.edges_probe(
        "td3", (trainings.beyond, trainings.narrow), f"{PAPER}, authors' code: cut there"
    ),
    *action.PROBES,
    *update.PROBES,
    *counts.off_policy("td3", trainings.counting, trainings.copies, ALGORITHM, DELAY),
    *storage.probes("td3", trainings.update, trainings.beyond),
    storage.full_probe("td3", trainings.full),
    *gradients.probes(
        "td3",
        trainings.update,
        ("policy", "critic1", "critic2"),
        f"{PAPER}, appendix C: ReLU",
    ),
    *optimizers.probes(
        "td3",
        trainings.update,
        trainings.own,
        {"policy": 1e-3, "critic1": 1e-3},
        1e-8,
        f"{PAPER}, appendix C: Adam with 0.001",
    ),
    initial.target_starts("td3", trainings.own, ALGORITHM),
    *initial.probes(
        "td3",
        trainings.own,
        initial.Start(
            lambda name, shape: 1 / np.sqrt(3 * shape[1]),
            1 / np.sqrt(3),
            f"{CODE}: as PyTorch makes a linear layer, uniform",
            sizes=(400, 300, 400, 300),
            size_source=f"{PAPER}, appendix C: 400 and 300",
        ),
    ),
)
