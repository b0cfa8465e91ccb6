"""Probes of soft actor-critic."""

import numpy as np

from harness.probes.lab import Run
from harness.probes.probe import Probe
from harness.probes.readings import batch
from harness.probes.results import Array
from harness.probes.sac import policy, runs, temperature, update
from harness.probes.sac.runs import CODE, PAPER
from harness.probes.shared import completeness, counts, greedy, initial, optimizers, starts, storage

ALGORITHM = f"{PAPER}, algorithm 1"
APPENDIX = f"{PAPER}, appendix D"


def _pairs(run: Run) -> Array:
    return np.hstack([batch(run).observations, batch(run).actions])


PROBES: tuple[Probe, ...] = (
    greedy.probe(
        "sac", runs.acting, "mean", f"{runs.FIRST_PAPER}, section 5.2: tanh of the mean, scaled"
    ),
    *policy.PROBES,
    *update.PROBES,
    *temperature.PROBES,
    *counts.off_policy("sac", runs.counting, runs.copies, ALGORITHM, 1),
    *storage.probes("sac", runs.update, runs.acting),
    *completeness.probes(
        "sac",
        runs.update,
        {"policy": lambda run: batch(run).observations, "critic1": _pairs},
        f"{APPENDIX}: ReLU",
    ),
    *optimizers.probes(
        "sac",
        runs.update,
        runs.own,
        {"policy": 3e-4, "critic1": 3e-4, "temperature": 3e-4},
        1e-8,
        f"{APPENDIX}: Adam with 0.0003",
    ),
    starts.constant(
        "sac.initial_temperature",
        "At which temperature does a run start, by default?",
        f"{CODE}: 1",
        runs.own,
        "temperature.log",
        1.0,
    ),
    starts.targets("sac", runs.own, ALGORITHM),
    *initial.probes(
        "sac",
        runs.own,
        (256, 256, 256, 256),
        f"{APPENDIX}: 256 and 256",
        lambda name, shape: float(np.sqrt(2 / sum(shape))),
        0.0,
        orthogonal=False,
        source=f"{CODE}: as Keras makes a layer, Glorot uniform and no bias",
    ),
)
