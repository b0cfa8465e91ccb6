"""Probes of PPO's actions and their log-probabilities."""

from collections.abc import Sequence

import numpy as np

from harness.probes import formulas
from harness.probes.lab import Lab, Run
from harness.probes.ppo import readings, trainings
from harness.probes.ppo.trainings import PAPER
from harness.probes.probe import Measurement, Probe, listed, relation
from harness.probes.results import Array, Axis
from harness.probes.setups import EDGES, HALF

TANH_TEXT = "the sample is squashed by tanh and scaled to the range, not cut at the bounds"
SCALED_TEXT = "the sample is cut at -1 and 1 and then scaled to the range"


def _bounds(run: Run) -> tuple[Array, Array]:
    d = run.experiment.dictation
    return np.array(d.low), np.array(d.high)


def _others(run: Run, x: Array) -> dict[str, Array]:
    # What else actions can be made from a sample, float[rows, actions].
    low, high = _bounds(run)
    middle, half = (low + high) / 2, (high - low) / 2
    return {
        TANH_TEXT: middle + half * np.tanh(x),
        SCALED_TEXT: middle + half * np.clip(x, -1, 1),
        "not cut at the bounds": x,
    }


def _action(lab: Lab) -> Measurement:
    run = trainings.beyond(lab)
    x = readings.samples(run)
    order = np.argsort(x[:, 0])
    others = {text: array[order, 0] for text, array in _others(run, x).items()}
    expected = np.clip(x, *_bounds(run))[order, 0]
    axis = Axis("Gaussian sample", x[order, 0])
    return Measurement(run.actions()[order, 0], expected, axis, others)


def _edges(lab: Lab) -> Measurement:
    value: list[float] = []
    expected: list[float] = []
    for narrow in (False, True):
        run = trainings.beyond(lab, narrow)
        actions, (low, high) = run.actions(), _bounds(run)
        for dimension in (0, 1):
            value += [actions[:, dimension].min(), actions[:, dimension].max()]
            expected += [low[dimension], high[dimension]]
    return Measurement(np.array(value), np.array(expected))


def _stored_action(lab: Lab) -> Measurement:
    runs = [trainings.beyond(lab, narrow) for narrow in (False, True)]
    samples = [readings.samples(run) for run in runs]
    stored = np.concatenate([run.record.stored["actions"] for run in runs])
    known = [_others(run, x) for run, x in zip(runs, samples, strict=True)]
    cut = [np.clip(x, *_bounds(run)) for run, x in zip(runs, samples, strict=True)]
    others = {
        "the action taken, after it was squashed and scaled": [k[TANH_TEXT] for k in known],
        "the action taken, after it was cut": cut,
        "the action taken, after it was cut and scaled": [k[SCALED_TEXT] for k in known],
    }
    joined = {text: np.concatenate(arrays) for text, arrays in others.items()}
    return Measurement(stored, np.concatenate(samples), alternatives=joined)


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
        "ppo.action_bounds",
        "Between which bounds are actions, where samples are far beyond them?",
        f"{PAPER}, authors' code: those of the action space, here -1 to 3 and -2 to 2, then "
        "-0.1 to 0.5 and -0.5 to 0.1",
        f"smallest and largest action, in action units: {', '.join(EDGES)}",
        _edges,
        listed(EDGES),
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
