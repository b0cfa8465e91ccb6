"""Probes of PPO's advantages."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.probes.lab import Lab, Run
from harness.probes.ppo import readings, trainings
from harness.probes.ppo.trainings import CODE, COPIES, GAE, GAMMA, LAMBDA, PAPER
from harness.probes.probe import Measurement, Probe, Unmeasured, relation
from harness.probes.readings import rows_shown
from harness.probes.results import Array
from harness.probes.world import TERMINATED, Transition

Pick = Callable[[Sequence[Transition]], NDArray[np.bool_]]
"""Which steps of a rollout count."""


def _advantages(of: Callable[[Lab], Run], pick: Pick) -> Callable[[Lab], Measurement]:
    def measure(lab: Lab) -> Measurement:
        run = of(lab)
        value: list[Array] = []
        expected: list[Array] = []
        others: dict[str, list[Array]] = {}
        for number, stored in readings.rollouts(run):
            rows = pick(readings.transitions(run, number))
            value.append(stored["advantages"][rows])
            expected.append(readings.advantages(run, number)[rows])
            for name, array in _others(run, number).items():
                others.setdefault(name, []).append(array[rows])
        joined = {name: np.concatenate(arrays) for name, arrays in others.items()}
        return Measurement(np.concatenate(value), np.concatenate(expected), alternatives=joined)

    return measure


def _others(run: Run, number: int) -> dict[str, Array]:
    # As if every end were one of the task.
    ended = tuple(
        dataclasses.replace(t, end=TERMINATED if t.end else t.end)
        for t in readings.transitions(run, number)
    )
    return {
        "as if lambda were 1": readings.advantages(run, number, lam=1.0),
        "as if lambda were 0": readings.advantages(run, number, lam=0.0),
        "gamma and lambda have changed places": readings.advantages(
            run, number, lam=GAMMA, gamma=LAMBDA
        ),
        "the value after an end counts": readings.advantages(run, number, bootstraps=True),
        "sums run on across ends of episodes": readings.advantages(run, number, runs_on=True),
        "nothing follows the end": readings.advantages_of(readings.start(run, number), ended),
        "the values of the policy that the run started with": readings.advantages_of(
            run.weights, readings.transitions(run, number)
        ),
    }


def _ends(steps: Sequence[Transition]) -> NDArray[np.bool_]:
    return np.array([t.end > 0 for t in steps])


def _after_last_end(steps: Sequence[Transition]) -> NDArray[np.bool_]:
    ends = _ends(steps)
    return np.asarray(np.arange(len(ends)) > np.flatnonzero(ends)[-1])


def _last_episode(steps: Sequence[Transition]) -> NDArray[np.bool_]:
    ends = _ends(steps)
    return np.asarray(ends[::-1].cumsum()[::-1] == 1)


def _inside(steps: Sequence[Transition]) -> NDArray[np.bool_]:
    return ~_ends(steps) & ~_after_last_end(steps)


def _of_copies(run: Run) -> Array:
    # Advantages of all transitions, each copy on its own.
    expected = np.zeros(len(run.transitions))
    for copy in range(COPIES):
        steps = run.transitions[copy::COPIES]
        expected[copy::COPIES] = readings.advantages_of(run.weights, steps)
    return expected


def _copies(lab: Lab) -> Measurement:
    run = trainings.copies(lab)
    stored, expected = run.record.stored, _of_copies(run)
    seen = np.array([t.observation for t in run.transitions])
    places = [np.flatnonzero((stored["observations"] == row).all(axis=1)) for row in seen]
    if any(len(place) != 1 for place in places):
        raise Unmeasured("stored observations are not those of the environments")
    return Measurement(stored["advantages"][np.concatenate(places)], expected)


def _learned_of_copies(lab: Lab) -> Measurement:
    run = trainings.copies(lab)
    step, samples = readings.kept(run, 0), readings.copy_samples(run)
    rows = rows_shown(run, step.observations)
    slope, _ = readings.slope_of(step, step.observations, samples[rows])
    return Measurement(slope, _of_copies(run)[rows])


def _value_target(lab: Lab) -> Measurement:
    run = trainings.rollouts(lab)
    value: list[Array] = []
    expected: list[Array] = []
    for number, stored in readings.rollouts(run):
        seen = readings.observations(run, number)
        values = readings.values(readings.start(run, number), seen)
        value.append(stored["returns"])
        expected.append(readings.advantages(run, number) + values)
    return Measurement(np.concatenate(value), np.concatenate(expected))


UNIT = "advantage, in units of return, of three rollouts"
PROBES: Sequence[Probe] = (
    Probe(
        "ppo.gae",
        "Which advantages come of whole episodes?",
        GAE,
        UNIT,
        _advantages(trainings.rollouts, _inside),
        relation("advantage"),
    ),
    Probe(
        "ppo.termination",
        "Which advantage has the last step of a task?",
        f"{GAE}: nothing follows",
        UNIT,
        _advantages(trainings.rollouts, _ends),
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
        _advantages(trainings.rollouts, _after_last_end),
        relation("advantage before the cut"),
    ),
    Probe(
        "ppo.rollout_end_at_end",
        "Which advantages has the last episode of a rollout that ends where the task does?",
        f"{GAE}: nothing follows",
        "advantage, in units of return",
        _advantages(lambda lab: trainings.minibatches(lab, 24, 8), _last_episode),
        relation("advantage of a last episode"),
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
        "ppo.policy_loss_with_copies",
        f"How strongly is each action of {COPIES} copies made more likely in the first minibatch?",
        f"{PAPER}, eq. 7: by the advantage of its own copy",
        "derivative of the objective by the log ratio, times the minibatch size",
        _learned_of_copies,
        relation("pull on the policy"),
        tolerance=1e-3,
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
