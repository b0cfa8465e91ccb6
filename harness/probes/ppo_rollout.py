"""Probes of PPO's rollout: actions, log-probabilities, advantages."""

from collections.abc import Sequence

import numpy as np

from harness.probes import oracles, ppo_runs, setups, words
from harness.probes.lab import Lab
from harness.probes.probe import Measurement, Probe
from harness.probes.results import Axis, Comparison
from harness.probes.world import TERMINATED, TRUNCATED

PAPER = "Schulman et al. 2017 (arXiv:1707.06347)"
GAE = "Schulman et al. 2016 (arXiv:1506.02438), eq. 16"


def action(lab: Lab) -> Measurement:
    run = ppo_runs.update(lab)
    x = ppo_runs.before_squashing(run)[:, 0]
    order = np.argsort(x)
    taken = run.actions()[: len(x), 0]
    return Measurement(taken[order], np.clip(x, -1, 1)[order], Axis("Gaussian sample", x[order]))


def stored_action(lab: Lab) -> Measurement:
    run = ppo_runs.update(lab)
    return Measurement(run.record.stored["actions"], ppo_runs.before_squashing(run))


def log_prob(lab: Lab) -> Measurement:
    run = ppo_runs.update(lab)
    x = ppo_runs.before_squashing(run)
    mean, std = ppo_runs.gaussian(run.weights, ppo_runs.observations(run))
    return Measurement(run.record.stored["log_probs"], oracles.normal_log_prob(x, mean, std))


def gae(lab: Lab) -> Measurement:
    run = ppo_runs.update(lab)
    rows = run.experiment.dictation.ends != TERMINATED
    return Measurement(run.record.stored["advantages"][rows], ppo_runs.advantages(run)[rows])


def termination(lab: Lab) -> Measurement:
    run = ppo_runs.update(lab)
    rows = run.experiment.dictation.ends == TERMINATED
    return Measurement(run.record.stored["advantages"][rows], ppo_runs.advantages(run)[rows])


def truncation(lab: Lab) -> Measurement:
    run = ppo_runs.truncated(lab)
    rows = run.experiment.dictation.ends == TRUNCATED
    return Measurement(run.record.stored["advantages"][rows], ppo_runs.advantages(run)[rows])


def value_target(lab: Lab) -> Measurement:
    run = ppo_runs.update(lab)
    seen = ppo_runs.values(run.weights, ppo_runs.observations(run))
    return Measurement(run.record.stored["returns"], ppo_runs.advantages(run) + seen)


def _action_words(comparison: Comparison, measurement: Measurement) -> str:
    assert measurement.axis is not None
    if np.allclose(measurement.value, np.tanh(measurement.axis.values), atol=1e-4):
        return "the sample is squashed by tanh, not cut at the bounds"
    return words.relation("action")(comparison, measurement)


def _log_prob_words(comparison: Comparison, measurement: Measurement) -> str:
    return words.relation("log-probability")(comparison, measurement)


def _truncation_words(comparison: Comparison, measurement: Measurement) -> str:
    # The advantage without bootstrapping lacks gamma times a value.
    return f"does not follow the value of the cut state: up to {comparison.size:.3g} away"


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.action",
        "Which action is taken, where actions range from -1 to 1?",
        f"{PAPER}, section 6.1: a Gaussian; authors' code cuts it at the bounds",
        "action, in action units",
        action,
        _action_words,
    ),
    Probe(
        "ppo.stored_action",
        "Which action does the policy learn from?",
        f"{PAPER}, authors' code: the sample before it is cut",
        "action, in action units",
        stored_action,
        words.relation("stored action"),
    ),
    Probe(
        "ppo.log_prob",
        "Which log-probability has an action?",
        f"{PAPER}, section 6.1: that of the Gaussian",
        "log-probability, nats",
        log_prob,
        _log_prob_words,
    ),
    Probe(
        "ppo.gae",
        "Which advantages come of a rollout with ends and a cut?",
        GAE,
        "advantage, in units of return",
        gae,
        words.relation("advantage"),
    ),
    Probe(
        "ppo.termination",
        "Which advantage has the last step of a task?",
        f"{GAE}: nothing follows",
        "advantage, in units of return",
        termination,
        words.relation("advantage at the end of the task"),
    ),
    Probe(
        "ppo.truncation",
        "Which advantage has a step that a time limit cuts?",
        "Pardo et al. 2018 (arXiv:1712.00378), section 3: bootstrap with the value of that state",
        "advantage, in units of return",
        truncation,
        _truncation_words,
    ),
    Probe(
        "ppo.value_target",
        "What is the value network drawn to?",
        f"{PAPER}, eq. 9; authors' code: advantage plus value",
        "in units of return",
        value_target,
        words.relation("value target"),
    ),
)

__all__ = ["PROBES", "setups"]
