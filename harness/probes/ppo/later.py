"""Probes of PPO's updates in three rollouts, each learned from once."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.contract import Step
from harness.probes.lab import Lab, Run
from harness.probes.ppo import readings, trainings
from harness.probes.ppo.trainings import CLIP, PAPER, VF
from harness.probes.probe import Measurement, Probe, relation
from harness.probes.results import Array

Pair = tuple[Array, Array]
"""What was measured of one update, and the paper's."""


def _over(read: Callable[[Run, Step, int], Pair]) -> Callable[[Lab], Measurement]:
    def measure(lab: Lab) -> Measurement:
        run = trainings.rollouts(lab)
        found = []
        for number, _ in readings.rollouts(run):
            collected = (number + 1) * run.hyperparameters.rollout_steps
            every = readings.gradient_steps(run)
            steps = [s for s in every if s.before and s.env_steps == collected]
            found += [read(run, step, number) for step in steps]
        value, expected = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return Measurement(value, expected)

    return measure


def _policy(run: Run, step: Step, rollout: int) -> Pair:
    rows = readings.rows_of(run, step, rollout)
    ratio = np.exp(readings.log_ratio(run, step, rollout))
    told = readings.weights_told(run, rollout)
    weight = (readings.advantages(run, rollout) if told is None else told)[rows]
    slope, _ = readings.surrogate_slope(run, step, rollout)
    return slope, formulas.surrogate_slope(weight, ratio, CLIP)


def _value(run: Run, step: Step, rollout: int) -> Pair:
    rows, start = readings.rows_of(run, step, rollout), readings.start(run, rollout)
    seen = readings.observations(run, rollout)
    returns = readings.advantages(run, rollout) + readings.values(start, seen)
    now = readings.values(step.before, seen[rows])
    return readings.value_slope(run, step, rollout), 2 * VF * (now - returns[rows])


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.later_policy_loss",
        "How strongly is each action made more likely in each of three rollouts?",
        f"{PAPER}, eq. 7, with ratios to the policy that collected the rollout",
        "derivative of the objective by the log ratio, times the minibatch size",
        _over(_policy),
        relation("pull on the policy"),
        tolerance=1e-3,
    ),
    Probe(
        "ppo.later_value_loss",
        "How strongly is the value drawn to its target in each of three rollouts?",
        f"{PAPER}, eq. 9: vf_coef times the mean squared error",
        "derivative of the value loss by a prediction, times the minibatch size",
        _over(_value),
        relation("pull on the value"),
        tolerance=1e-3,
    ),
)
