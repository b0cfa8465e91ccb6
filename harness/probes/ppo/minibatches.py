"""Probes of how PPO goes through a rollout."""

from collections.abc import Sequence

import numpy as np

from harness.probes.lab import Lab, Run
from harness.probes.ppo import readings, trainings
from harness.probes.ppo.readings import kept, rows_of
from harness.probes.ppo.trainings import CODE, COPIES, PAPER
from harness.probes.probe import Measurement, Probe, Words, listed

MOVED = 1e-2
"""Change of a value target, in units of return, that is no rounding."""
COUNTS = (
    "environment steps",
    "environment steps at the first update",
    "gradient steps",
)


def _minibatch_sizes(lab: Lab) -> Measurement:
    return _sizes(trainings.minibatches(lab, 24, 8), [8.0, 8.0, 8.0])


def _remainder(lab: Lab) -> Measurement:
    return _sizes(trainings.minibatches(lab, 20, 8), [8.0, 8.0, 4.0])


def _coverage(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    shown = np.concatenate([rows_of(run, kept(run, number)) for number in (0, 1)])
    times = np.bincount(shown, minlength=trainings.ROLLOUT).astype(float)
    return Measurement(times, np.ones(trainings.ROLLOUT))


def _reshuffling(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    first, second = (set(rows_of(run, kept(run, number))) for number in (0, 2))
    return Measurement(np.array([float(first != second)]), np.ones(1))


def _recomputed(lab: Lab) -> Measurement:
    run = trainings.update(lab)
    step, factor = kept(run, 2), np.median(readings.value_factor(run))
    rows = rows_of(run, step)
    now = readings.values(step.before, readings.observations(run)[rows])
    target = now - readings.value_slope(run, step) / factor
    moved = np.abs(target - run.record.stored["returns"][rows]).max()
    return Measurement(np.array([float(moved > MOVED)]), np.zeros(1))


def _counts(lab: Lab) -> Measurement:
    run = trainings.counting(lab)
    return Measurement(_counted(run), np.array([48.0, 24.0, 8.0]))


def _copies(lab: Lab) -> Measurement:
    return Measurement(_counted(trainings.copies(lab)), np.array([24.0, 24.0, 4.0]))


def _counted(run: Run) -> np.ndarray:
    steps = readings.gradient_steps(run)
    first = steps[0].env_steps if steps else -1
    return np.array([float(len(run.transitions)), float(first), float(len(steps))])


def _sizes(run: Run, expected: list[float]) -> Measurement:
    steps = readings.gradient_steps(run)
    epoch = steps[: max(1, len(steps) // run.hyperparameters.epochs)]
    sizes = np.array([float(len(step.observations)) for step in epoch])
    return Measurement(sizes, np.array(expected))


def _says(text: str) -> Words:
    return lambda comparison, measurement: text


def _coverage_words(comparison: object, measurement: Measurement) -> str:
    never = int((measurement.value == 0).sum())
    often = int((measurement.value > 1).sum())
    return (
        f"{never} of {trainings.ROLLOUT} transitions are left out of an epoch, {often} come twice"
    )


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.minibatch_sizes",
        "Into which minibatches is a rollout of 24 cut, with minibatch_size 8?",
        f"{PAPER}, algorithm 1",
        "transitions",
        _minibatch_sizes,
        listed(("first", "second", "third")),
        counts=True,
    ),
    Probe(
        "ppo.minibatch_remainder",
        "Into which minibatches is a rollout of 20 cut, with minibatch_size 8?",
        f"{PAPER}, algorithm 1: every transition is used in each epoch",
        "transitions",
        _remainder,
        listed(("first", "second", "third")),
        counts=True,
    ),
    Probe(
        "ppo.epoch_coverage",
        "How often is each transition used in an epoch?",
        f"{PAPER}, algorithm 1: once",
        "times, per transition",
        _coverage,
        _coverage_words,
        counts=True,
    ),
    Probe(
        "ppo.reshuffling",
        "Does each epoch cut the rollout in another way?",
        f"{CODE}: yes",
        "0 no, 1 yes",
        _reshuffling,
        _says("every epoch has the same minibatches"),
        counts=True,
    ),
    Probe(
        "ppo.advantages_recomputed",
        "Are advantages and value targets computed anew in each epoch?",
        f"{PAPER}, algorithm 1: no, once per rollout",
        "0 no, 1 yes",
        _recomputed,
        _says("value targets change from one epoch to the next"),
        counts=True,
    ),
    Probe(
        "ppo.counts",
        "What happens how often when 60 steps are asked for, with rollouts of 24?",
        f"{CODE}: as many whole rollouts as fit; 2 epochs of 2 minibatches",
        ", ".join(COUNTS),
        _counts,
        listed(COUNTS),
        counts=True,
    ),
    Probe(
        "ppo.counts_with_copies",
        f"What happens how often with {COPIES} copies of the environment and a rollout of 24?",
        f"{PAPER}, algorithm 1: a rollout is of all actors together",
        ", ".join(COUNTS),
        _copies,
        listed(COUNTS),
        counts=True,
    ),
)
