"""Probes of DQN's exploration: the share of random actions over a run, and greedy actions."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.probes.dqn import trainings
from harness.probes.dqn.trainings import (
    FINAL,
    INITIAL,
    LENGTH,
    PAPER,
    ROUND,
    STEPS,
    TIED,
    WARM_UP,
)
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, Unmeasured, listed, relation
from harness.probes.results import Array, Axis

SHAPE = (
    "steps of the warm-up, which are all random",
    "share at the first step, on the line that the fall follows",
    "share in the end",
    "steps from there to the end of that line",
    "steps between two changes, at most",
    "farthest from the line",
)
"""What a schedule is told by."""
SAME = 1e-6
"""Shares that differ by less are the same in float32."""


def shares(run: Run) -> Array:
    """Share of random actions at each step of a run whose coins are too large, float[steps].

    Where an action is random all the same, nothing decided: the share is 1.
    """
    decided = dict(run.thresholds)
    found = [decided.get(step, 0.0) for step in range(len(run.transitions))]
    return np.where(_regardless(run), 1.0, np.clip(found, 0, 1))


def undecided(run: Run) -> int:
    """Leading steps in which actions are random whatever the coins say."""
    return int(np.argmin([*_regardless(run), False]))


def _regardless(run: Run) -> NDArray[np.bool_]:
    # No random choice is the greedy one there: that is always the first.
    return np.asarray(run.actions()[:, 0] != 0)


def line(steps: Array) -> Array:
    """The share of random actions that is asked for, by environment steps taken before."""
    return np.maximum(INITIAL - (INITIAL - FINAL) * steps / LENGTH, FINAL)


def _schedule(lab: Lab) -> Measurement:
    run = trainings.exploring(lab)
    found = shares(run)[:STEPS]
    steps = np.arange(len(found), dtype=float)
    after = np.where(steps < WARM_UP, 1.0, line(steps))
    by_rounds = np.where(steps < WARM_UP, 1.0, line(steps // ROUND * ROUND))
    others = {
        "random actions follow the schedule from the first step on": line(steps),
        "it starts to fall after the warm-up": np.where(steps < WARM_UP, 1, line(steps - WARM_UP)),
        "it falls after each round of steps": by_rounds,
    }
    axis = Axis("environment step", steps)
    return Measurement(found, after, axis, alternatives=others)


def _shape(lab: Lab) -> Measurement:
    run = trainings.exploring(lab)
    found, warm_up = shares(run)[:STEPS], undecided(run)
    expected = np.array([WARM_UP, INITIAL, FINAL, LENGTH, 1, 0.0])
    falling = _falls(found, warm_up)
    if len(falling) < 2:
        raise Unmeasured("the share of random actions does not fall")
    slope, start = np.polyfit(falling, found[falling], 1)
    apart = float(np.abs(start + slope * falling - found[falling]).max())
    stay = int(np.diff(falling).max())
    length = (found[-1] - start) / slope
    value = [warm_up, start, found[-1], length, stay, apart if apart > 1e-3 else 0.0]
    return Measurement(np.array(value).round(4), expected)


def _falls(found: Array, warm_up: int) -> Array:
    # Steps whose share is below that of the step before, without the last, which may be cut off.
    steps = np.arange(max(warm_up, 0) + 1, len(found))
    fallen = steps[found[steps - 1] - found[steps] > SAME]
    return np.asarray(fallen[found[fallen] > found[-1] + SAME])


def _greedy(lab: Lab, rows: slice) -> Measurement:
    run, values = trainings.acting(lab), trainings.patterns()
    seen = run.experiment.dictation.observations[: len(values)][rows]
    evaluated = np.ravel(run.watch.greedy(seen))
    taken = np.concatenate([run.actions()[: len(values), 0][rows], evaluated])
    best = values[rows].argmax(axis=1)
    last = values.shape[1] - 1 - values[rows][:, ::-1].argmax(axis=1)
    others = {"the last of several that are equal": np.tile(last, 2)}
    return Measurement(taken, np.tile(best, 2).astype(float), alternatives=others)


PROBES: Sequence[Probe] = (
    Probe(
        "dqn.exploration_schedule",
        f"Which share of actions is random, told {INITIAL} to {FINAL} over {LENGTH} steps?",
        f"{PAPER}, extended data table 1: uniformly random during the warm-up; then a share that "
        "falls linearly with the steps from the first on",
        f"share, at each step; a warm-up of {WARM_UP} steps, then rounds of {ROUND}",
        _schedule,
        relation("share of random actions"),
        tolerance=1e-3,
    ),
    Probe(
        "dqn.exploration_shape",
        "When does the share of random actions begin and end to fall, and how?",
        f"{PAPER}, methods: linearly, step by step",
        ", ".join(SHAPE),
        _shape,
        listed(SHAPE),
        each=True,
        tolerance=1e-3,
    ),
    Probe(
        "dqn.greedy_action",
        "Which action is taken without exploration, in the training and in an evaluation?",
        f"{PAPER}, algorithm 1: that of the largest value",
        "number of the action",
        lambda lab: _greedy(lab, slice(None, -TIED)),
        relation("greedy action"),
        counts=True,
    ),
    Probe(
        "dqn.greedy_ties",
        "Which of several actions of the same value is taken?",
        f"{PAPER}: does not say; here the first",
        "number of the action, in the training and in an evaluation",
        lambda lab: _greedy(lab, slice(-TIED, None)),
        relation("greedy action"),
        counts=True,
    ),
)
