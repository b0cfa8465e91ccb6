"""Probes of PPO's clip range and of what is annealed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.probes.contract import Step
from harness.probes.lab import Lab, Run
from harness.probes.ppo import readings, trainings
from harness.probes.ppo.trainings import ANNEALED_EPOCHS, CLIP, CODE
from harness.probes.probe import Measurement, Probe, relation
from harness.probes.results import Array, Axis

FIRST, LAST, HALVINGS = 0.25, 16.0, 9
"""Search for the limit: as shares of the divergence, and how often the interval is halved."""
LEFT = np.array([1.0, 0.75, 0.5, 0.25])
"""What is left of an annealed quantity in each of four rollouts."""
KL = "Schulman 2020, joschu.net/blog/kl-approx.html: mean of (r - 1) - log r"


def _learning_rates(lab: Lab) -> Measurement:
    run = trainings.annealing(lab, "learning_rate_schedule")
    rates = np.array([step.settings["policy"]["lr"] for step in run.record.steps])
    value = rates / run.hyperparameters.learning_rate
    axis = Axis("gradient step", np.arange(1.0, len(value) + 1))
    return Measurement(value, np.repeat(LEFT, ANNEALED_EPOCHS), axis)


def _clip_ranges(lab: Lab) -> Measurement:
    run = trainings.annealing(lab, "clip_range_schedule")
    expected = CLIP * LEFT
    passes = readings.later(run)
    value = [
        _clip_range(run, i, passes[i * ANNEALED_EPOCHS :][: ANNEALED_EPOCHS - 1], expected[i])
        for i in range(len(LEFT))
    ]
    return Measurement(np.array(value), expected, Axis("rollout", np.arange(1.0, 5.0)))


def _constant_clip_range(lab: Lab) -> Measurement:
    run = trainings.long(lab)
    return Measurement(np.array([_clip_range(run, 0, readings.later(run), CLIP)]), np.array([CLIP]))


def _clip_range(run: Run, rollout: int, steps: Sequence[Step], expected: float) -> float:
    # Gradients tell which rows are clipped; the range is between theirs and the others' ratios.
    found = [_clipped(run, rollout, step) for step in steps]
    beyond, clipped = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    low = float(beyond[~clipped].max(initial=0.0))
    high = float(beyond[clipped].min(initial=np.inf))
    if low <= expected <= high:
        return expected
    return (low + high) / 2 if np.isfinite(high) else low


def _clipped(run: Run, rollout: int, step: Step) -> tuple[Array, NDArray[np.bool_]]:
    # How far ratios are on the side where they are clipped, and whether they are.
    ratio = np.exp(readings.log_ratio(run, step, rollout))
    rows = readings.rows_of(run, step, rollout)
    weight = run.record.stored["advantages"] if rollout == 0 else readings.advantages(run, rollout)
    weight = weight[rows]
    slope, _ = readings.surrogate_slope(run, step, rollout)
    # Some compute advantages anew in each epoch: rows count whose sign that does not change.
    anew = readings.advantages_of(step.before, readings.transitions(run, rollout))[rows]
    heavy = (np.abs(weight) > 0.1 * np.abs(weight).max()) & (weight * anew > 0)
    beyond = (np.sign(weight) * (ratio - 1))[heavy]
    return beyond, (np.abs(slope) < 1e-2 * np.abs(weight * ratio))[heavy]


def _schedule_words(comparison: object, measurement: Measurement) -> str:
    value: Array = measurement.value
    return f"it goes {', '.join(f'{v:.3g}' for v in value)}"


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.clip_range",
        "At which distance from 1 is the probability ratio clipped, with clip_range 0.2?",
        f"{trainings.PAPER}, eq. 7",
        "distance from 1",
        _constant_clip_range,
        relation("clip range"),
        tolerance=0.03,
    ),
    Probe(
        "ppo.learning_rate_annealing",
        "Which learning rate has each gradient step of four rollouts, when it is annealed?",
        f"{CODE}: what is left of the run when the rollout begins, linearly",
        "share of the learning rate at the start",
        _learning_rates,
        _schedule_words,
    ),
    Probe(
        "ppo.clip_range_annealing",
        "Which clip range has each of four rollouts, when it is annealed from 0.2?",
        f"{CODE}: what is left of the run when the rollout begins, linearly",
        "distance from 1",
        _clip_ranges,
        _schedule_words,
        tolerance=0.03,
    ),
)
