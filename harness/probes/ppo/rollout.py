"""Probes of PPO's rollout: actions, log-probabilities, advantages."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.probes import oracles, words
from harness.probes.lab import Lab, Run
from harness.probes.ppo import readings, runs
from harness.probes.ppo.runs import CODE, COPIES, GAE, PAPER
from harness.probes.probe import Measurement, Probe, Unmeasured
from harness.probes.results import Array, Axis
from harness.probes.setups import HALF, HIGH, LOW
from harness.probes.world import TERMINATED

TANH_TEXT = "the sample is squashed by tanh and scaled to the range, not cut at the bounds"


def _action(lab: Lab) -> Measurement:
    run = runs.wide(lab)
    x = readings.samples(run)[:, 0]
    order = np.argsort(x)
    return Measurement(
        run.actions()[order, 0],
        np.clip(x, LOW[0], HIGH[0])[order],
        Axis("Gaussian sample", x[order]),
        {TANH_TEXT: _squashed(x)[order], "not cut at the bounds": x[order]},
    )


def _stored_action(lab: Lab) -> Measurement:
    run = runs.wide(lab)
    x = readings.samples(run)
    others = {
        "the action taken, after it was squashed and scaled": np.stack(
            [_squashed(x[:, 0]), HALF * np.tanh(x[:, 1])], axis=1
        ),
        "the action taken, after it was cut": np.clip(x, LOW, HIGH),
    }
    return Measurement(run.record.stored["actions"], x, alternatives=others)


def _log_prob(lab: Lab) -> Measurement:
    run = runs.wide(lab)
    x = readings.samples(run)
    gaussian = readings.gaussian(run.weights, readings.observations(run))
    others = {
        "that of the squashed and scaled action": oracles.squashed_log_prob(x, *gaussian, HALF),
        "that of the action before it is scaled": oracles.squashed_log_prob(x, *gaussian),
    }
    expected = oracles.normal_log_prob(x, *gaussian)
    return Measurement(run.record.stored["log_probs"], expected, alternatives=others)


def _advantages(
    of: Callable[[Lab], Run], pick: Callable[[Run], NDArray[np.bool_]]
) -> Callable[[Lab], Measurement]:
    def measure(lab: Lab) -> Measurement:
        run = of(lab)
        rows = pick(run)
        known = {
            "as if lambda were 1": readings.advantages(run, lam=1.0),
            "as if lambda were 0": readings.advantages(run, lam=0.0),
            "the value after an end counts": readings.advantages(run, bootstraps=True),
            "sums run on across ends of episodes": readings.advantages(run, runs_on=True),
            "nothing follows the end": _without_bootstrap(run),
        }
        others = {name: array[rows] for name, array in known.items()}
        measured = run.record.stored["advantages"][rows]
        return Measurement(measured, readings.advantages(run)[rows], alternatives=others)

    return measure


def _without_bootstrap(run: Run) -> Array:
    # As if every end were one of the task.
    steps = tuple(
        t
        if not t.end
        else type(t)(t.observation, t.action, t.reward, t.next_observation, TERMINATED)
        for t in readings.transitions(run)
    )
    return readings.advantages_of(run.weights, steps)


def _ends(run: Run) -> NDArray[np.bool_]:
    return np.array([t.end > 0 for t in readings.transitions(run)])


def _after_last_end(run: Run) -> NDArray[np.bool_]:
    ends = _ends(run)
    return np.asarray(np.arange(len(ends)) > np.flatnonzero(ends)[-1])


def _inside(run: Run) -> NDArray[np.bool_]:
    return ~_ends(run) & ~_after_last_end(run)


def _copies(lab: Lab) -> Measurement:
    run = runs.copies(lab)
    stored, expected = run.record.stored, np.zeros(len(run.transitions))
    for copy in range(COPIES):
        steps = run.transitions[copy::COPIES]
        expected[copy::COPIES] = readings.advantages_of(run.weights, steps)
    seen = np.array([t.observation for t in run.transitions])
    places = [np.flatnonzero((stored["observations"] == row).all(axis=1)) for row in seen]
    if any(len(place) != 1 for place in places):
        raise Unmeasured("stored observations are not those of the environments")
    return Measurement(stored["advantages"][np.concatenate(places)], expected)


def _value_target(lab: Lab) -> Measurement:
    run = runs.update(lab)
    seen = readings.values(run.weights, readings.observations(run))
    return Measurement(run.record.stored["returns"], readings.advantages(run) + seen)


def _squashed(x: Array) -> Array:
    return np.asarray((LOW[0] + HIGH[0]) / 2 + HALF * np.tanh(x))


UNIT = "advantage, in units of return"
PROBES: Sequence[Probe] = (
    Probe(
        "ppo.action",
        "Which action is taken, where actions range from -1 to 3?",
        f"{PAPER}, section 6.1: a Gaussian; authors' code cuts it at the bounds",
        "action, in action units",
        _action,
        words.relation("action"),
    ),
    Probe(
        "ppo.stored_action",
        "Which action does the policy learn from?",
        f"{PAPER}, authors' code: the sample before it is cut",
        "action, in action units",
        _stored_action,
        words.relation("stored action"),
    ),
    Probe(
        "ppo.log_prob",
        "Which log-probability has an action?",
        f"{PAPER}, section 6.1: that of the Gaussian",
        "log-probability, nats",
        _log_prob,
        words.relation("log-probability"),
    ),
    Probe(
        "ppo.gae",
        "Which advantages come of whole episodes?",
        GAE,
        UNIT,
        _advantages(runs.update, _inside),
        words.relation("advantage"),
    ),
    Probe(
        "ppo.termination",
        "Which advantage has the last step of a task?",
        f"{GAE}: nothing follows",
        UNIT,
        _advantages(runs.update, _ends),
        words.relation("advantage at the end of the task"),
    ),
    Probe(
        "ppo.truncation",
        "Which advantage has a step that a time limit cuts?",
        "Pardo et al. 2018 (arXiv:1712.00378), section 3: bootstrap with the value of that state",
        UNIT,
        _advantages(runs.truncated, _ends),
        words.relation("advantage at a time limit"),
    ),
    Probe(
        "ppo.rollout_end",
        "Which advantages have the steps before the cut at the end of the rollout?",
        f"{GAE}, {PAPER}, eq. 11: bootstrap with the value of the state after the cut",
        UNIT,
        _advantages(runs.update, _after_last_end),
        words.relation("advantage before the cut"),
    ),
    Probe(
        "ppo.gae_with_copies",
        f"Which advantages come of a rollout on {COPIES} copies of the environment?",
        f"{GAE}, each copy on its own",
        UNIT,
        _copies,
        words.relation("advantage"),
    ),
    Probe(
        "ppo.value_target",
        "What is the value network drawn to?",
        f"{PAPER}, eq. 9; {CODE}: advantage plus value",
        "in units of return",
        _value_target,
        words.relation("value target"),
    ),
)
