"""Probes of DDPG's exploration noise: its kind and size, by default and as a process."""

from collections.abc import Sequence

import numpy as np

from harness.probes.ddpg import trainings
from harness.probes.ddpg.trainings import PAPER, SIGMA, THETA
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, listed
from harness.probes.results import Array
from harness.probes.setups import HALF, HIGH, LOW

NUMBERS = ("share of the noise before that is kept", "deviation of what is added")
ENDS = "share that is kept over the end of an episode"
FROM = 2
"""The first steps are left out: some implementations start with a step of their own."""


def noise_of(run: Run) -> Array:
    """What was added to actions of the middle of the range, as a share of half of it."""
    middle = (np.array(LOW) + np.array(HIGH)) / 2
    return np.asarray((run.actions() - middle) / HALF)


def _fit(run: Run, rows: Array) -> Array:
    # Weights of the noise before and of the number drawn in the noise of some steps.
    noise, drawn = noise_of(run), run.experiment.dictation.acting_noise
    basis = np.stack([noise[rows - 1].ravel(), drawn[rows].ravel()], axis=1)
    return np.asarray(np.linalg.lstsq(basis, noise[rows].ravel(), rcond=None)[0])


def _inside(run: Run) -> Array:
    ends = np.flatnonzero(run.experiment.dictation.ends) + 1
    return np.array([row for row in range(FROM, len(run.transitions)) if row not in ends])


def _by_default(lab: Lab) -> Measurement:
    run = trainings.noisy(lab)
    if not noise_of(run).any():
        return Measurement(np.zeros(2), np.array([1 - THETA, SIGMA]))
    return Measurement(_fit(run, _inside(run)).round(6), np.array([1 - THETA, SIGMA]))


def _process(lab: Lab) -> Measurement:
    run = trainings.process(lab)
    kept, added = _fit(run, _inside(run))
    noise, row = noise_of(run), int(np.flatnonzero(run.experiment.dictation.ends)[0]) + 1
    rest = noise[row] - added * run.experiment.dictation.acting_noise[row]
    over = float(rest @ noise[row - 1] / (noise[row - 1] @ noise[row - 1]))
    value = np.array([kept, added, over]).round(6)
    return Measurement(value, np.array([1 - THETA, SIGMA, 0.0]))


PROBES: Sequence[Probe] = (
    Probe(
        "ddpg.exploration_kind",
        "Which noise is added to actions, by default?",
        f"{PAPER}, section 7: an Ornstein-Uhlenbeck process with theta {THETA} and sigma {SIGMA}",
        "per step, by least squares, as shares of half the action range: " + ", ".join(NUMBERS),
        _by_default,
        listed(NUMBERS),
        tolerance=1e-3,
    ),
    Probe(
        "ddpg.exploration_process",
        f"How does an Ornstein-Uhlenbeck process with sigma {SIGMA} go on?",
        f"{PAPER}, section 7: theta {THETA} and sigma {SIGMA}, per step; algorithm 1: a process of "
        "its own for each episode",
        "per step, by least squares, as shares of half the action range: "
        + ", ".join((*NUMBERS, ENDS)),
        _process,
        listed((*NUMBERS, ENDS)),
        tolerance=1e-3,
    ),
)
