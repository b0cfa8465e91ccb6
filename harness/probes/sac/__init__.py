"""Probes of soft actor-critic."""

import numpy as np

from harness.probes.probe import Probe
from harness.probes.sac import policy, trainings, update
from harness.probes.sac.trainings import CODE, PAPER
from harness.probes.shared import counts, gradients, initial, optimizers, storage

ALGORITHM = f"{PAPER}, algorithm 1"
APPENDIX = f"{PAPER}, appendix D"


PROBES: tuple[Probe, ...] = (
    storage.greedy_probe(
        "sac",
        (trainings.acting, lambda lab: trainings.beyond(lab, narrow=True)),
        "mean",
        f"{trainings.FIRST_PAPER}, section 5.2: tanh of the mean, scaled",
    ),
    storage.edges_probe(
        "sac",
        (trainings.beyond, lambda lab: trainings.beyond(lab, narrow=True)),
        f"{trainings.FIRST_PAPER}, appendix C: tanh keeps them there",
    ),
    *policy.PROBES,
    *update.PROBES,
    *update.TEMPERATURE_PROBES,
    *counts.off_policy("sac", trainings.counting, trainings.copies, ALGORITHM, 1),
    *storage.probes("sac", trainings.update, trainings.acting),
    storage.full_probe("sac", trainings.full),
    *gradients.probes(
        "sac",
        trainings.update,
        ("policy", "critic1", "critic2"),
        f"{APPENDIX}: ReLU",
    ),
    *optimizers.probes(
        "sac",
        trainings.update,
        trainings.own,
        {"policy": 3e-4, "critic1": 3e-4, "temperature": 3e-4},
        1e-8,
        f"{APPENDIX}: Adam with 0.0003",
    ),
    initial.constant_start(
        "sac.initial_temperature",
        "At which temperature does a run start, by default?",
        f"{CODE}: 1",
        trainings.own,
        "temperature.log",
        1.0,
    ),
    initial.target_starts("sac", trainings.own, ALGORITHM),
    *initial.probes(
        "sac",
        trainings.own,
        initial.Start(
            lambda name, shape: float(np.sqrt(2 / sum(shape))),
            0.0,
            f"{CODE}: as Keras makes a layer, Glorot uniform and no bias",
            sizes=(256, 256, 256, 256),
            size_source=f"{APPENDIX}: 256 and 256",
        ),
    ),
)
