"""Probes of PPO's actions and their log-probabilities."""

from collections.abc import Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.lab import Lab
from harness.probes.ppo import readings, trainings
from harness.probes.ppo.trainings import PAPER
from harness.probes.probe import Measurement, Probe, relation
from harness.probes.results import Array, Axis
from harness.probes.setups import HALF, HIGH, LOW

TANH_TEXT = "the sample is squashed by tanh and scaled to the range, not cut at the bounds"


def _action(lab: Lab) -> Measurement:
    run = trainings.wide(lab)
    x = readings.samples(run)[:, 0]
    order = np.argsort(x)
    return Measurement(
        run.actions()[order, 0],
        np.clip(x, LOW[0], HIGH[0])[order],
        Axis("Gaussian sample", x[order]),
        {TANH_TEXT: _squashed(x)[order], "not cut at the bounds": x[order]},
    )


def _stored_action(lab: Lab) -> Measurement:
    run = trainings.wide(lab)
    x = readings.samples(run)
    others = {
        "the action taken, after it was squashed and scaled": np.stack(
            [_squashed(x[:, 0]), HALF * np.tanh(x[:, 1])], axis=1
        ),
        "the action taken, after it was cut": np.clip(x, LOW, HIGH),
    }
    return Measurement(run.record.stored["actions"], x, alternatives=others)


def _log_prob(lab: Lab) -> Measurement:
    run = trainings.wide(lab)
    x = readings.samples(run)
    gaussian = readings.gaussian(run.weights, readings.observations(run))
    others = {
        "that of the squashed and scaled action": formulas.squashed_log_prob(x, *gaussian, HALF),
        "that of the action before it is scaled": formulas.squashed_log_prob(x, *gaussian),
    }
    expected = formulas.normal_log_prob(x, *gaussian)
    return Measurement(run.record.stored["log_probs"], expected, alternatives=others)


def _squashed(x: Array) -> Array:
    return np.asarray((LOW[0] + HIGH[0]) / 2 + HALF * np.tanh(x))


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.action",
        "Which action is taken, where actions range from -1 to 3?",
        f"{PAPER}, section 6.1: a Gaussian; authors' code cuts it at the bounds",
        "action, in action units",
        _action,
        relation("action"),
    ),
    Probe(
        "ppo.stored_action",
        "Which action does the policy learn from?",
        f"{PAPER}, authors' code: the sample before it is cut",
        "action, in action units",
        _stored_action,
        relation("stored action"),
    ),
    Probe(
        "ppo.log_prob",
        "Which log-probability has an action?",
        f"{PAPER}, section 6.1: that of the Gaussian",
        "log-probability, nats",
        _log_prob,
        relation("log-probability"),
    ),
)
