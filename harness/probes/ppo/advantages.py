"""Probes of PPO's advantages."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.probes.lab import Lab, Run
from harness.probes.ppo import readings, trainings
from harness.probes.ppo.trainings import CODE, COPIES, GAE, PAPER
from harness.probes.probe import Measurement, Probe, Unmeasured, relation
from harness.probes.results import Array
from harness.probes.world import TERMINATED


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
    run = trainings.copies(lab)
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
    run = trainings.update(lab)
    seen = readings.values(run.weights, readings.observations(run))
    return Measurement(run.record.stored["returns"], readings.advantages(run) + seen)


UNIT = "advantage, in units of return"
PROBES: Sequence[Probe] = (
    Probe(
        "ppo.gae",
        "Which advantages come of whole episodes?",
        GAE,
        UNIT,
        _advantages(trainings.update, _inside),
        relation("advantage"),
    ),
    Probe(
        "ppo.termination",
        "Which advantage has the last step of a task?",
        f"{GAE}: nothing follows",
        UNIT,
        _advantages(trainings.update, _ends),
        relation("advantage at the end of the task"),
    ),
    Probe(
        "ppo.truncation",
        "Which advantage has a step that a time limit cuts?",
        "Pardo et al. 2018 (arXiv:1712.00378), section 3: bootstrap with the value of that state",
        UNIT,
        _advantages(trainings.truncated, _ends),
        relation("advantage at a time limit"),
    ),
    Probe(
        "ppo.rollout_end",
        "Which advantages have the steps before the cut at the end of the rollout?",
        f"{GAE}, {PAPER}, eq. 11: bootstrap with the value of the state after the cut",
        UNIT,
        _advantages(trainings.update, _after_last_end),
        relation("advantage before the cut"),
    ),
    Probe(
        "ppo.gae_with_copies",
        f"Which advantages come of a rollout on {COPIES} copies of the environment?",
        f"{GAE}, each copy on its own",
        UNIT,
        _copies,
        relation("advantage"),
    ),
    Probe(
        "ppo.value_target",
        "What is the value network drawn to?",
        f"{PAPER}, eq. 9; {CODE}: advantage plus value",
        "in units of return",
        _value_target,
        relation("value target"),
    ),
)
