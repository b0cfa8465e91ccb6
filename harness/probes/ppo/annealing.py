"""Probes of PPO's clip range and of what is annealed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.probes.contract import Step
from harness.probes.lab import Lab, Run
from harness.probes.ppo import readings, trainings
from harness.probes.ppo.trainings import ANNEALED_EPOCHS, CLIP, CODE
from harness.probes.probe import Measurement, Probe, Unmeasured, listed
from harness.probes.results import Array, Axis

LEFT = np.array([1.0, 0.75, 0.5, 0.25])
"""What is left of an annealed quantity in each of four rollouts."""
WIDEST, HALVINGS = 4.0, 9
"""Search for another clip range: as shares of that set, and how often the interval is halved."""
FARTHEST = 0.9
"""Largest distance from 1 of a ratio beside which the range is set; 1 leaves no lower bound."""
SLOWER = (0.005, 0.00125)
"""Learning rates of further trainings, if all ratios of the first are farther."""
BRACKET = 0.004
"""How near on both sides, as shares, a clip range is set to a ratio to see on which side it is."""


def _learning_rates(lab: Lab) -> Measurement:
    run = trainings.annealing(lab, "learning_rate_schedule")
    rates = np.array([step.settings["policy"]["lr"] for step in readings.gradient_steps(run)])
    value = rates / run.hyperparameters.learning_rate
    axis = Axis("gradient step", np.arange(1.0, len(value) + 1))
    return Measurement(value, np.repeat(LEFT, ANNEALED_EPOCHS), axis)


def _clip_ranges(lab: Lab) -> Measurement:
    run = trainings.annealing(lab, "clip_range_schedule")
    passes = readings.later(run)
    value = []
    for rollout in range(len(LEFT)):
        steps = passes[rollout * ANNEALED_EPOCHS :][: ANNEALED_EPOCHS - 1]
        found = [_clipped(run, rollout, step) for step in steps]
        value.append(_edge(*(np.concatenate(a) for a in list(zip(*found, strict=True))[:2])))
    axis = Axis("rollout", np.arange(1.0, 5.0))
    return Measurement(np.array(value), CLIP * LEFT, axis)


def _edge(beyond: Array, clipped: NDArray[np.bool_]) -> float:
    # Gradients tell which rows are clipped; the range is between theirs and the others' ratios.
    low = float(beyond[~clipped].max(initial=0.0))
    high = float(beyond[clipped].min(initial=np.inf))
    return (low + high) / 2 if np.isfinite(high) else low


def _constant_clip_range(lab: Lab) -> Measurement:
    value = [CLIP * _unit(lab, *_beside(lab, sign)) for sign in (1.0, -1.0)]
    return Measurement(np.array(value), np.full(2, CLIP))


def _beside(lab: Lab, side: float) -> tuple[dict[str, float], int, float]:
    # Ratios of the second pass do not depend on the range, which is set right beside one of them.
    # Where all are so far from 1 that no framework need take such a range, a slower training's.
    for changes in ({}, *({"learning_rate": rate} for rate in SLOWER)):
        free = trainings.whole_batches(lab, **changes)
        beyond, _, sides = _clipped(free, 0, readings.later(free)[0])
        mine = np.flatnonzero((sides == side) & (beyond > 0) & (beyond < FARTHEST))
        if len(mine):
            row = mine[np.argmin(np.abs(beyond[mine] - CLIP))]
            return changes, int(row), float(beyond[row])
    raise Unmeasured("no ratio is near enough to 1 on that side")


def _unit(lab: Lab, changes: dict[str, float], row: int, distance: float) -> float:
    """At how many times the clip range that is set a ratio is clipped."""

    def is_clipped(share: float) -> bool:
        run = trainings.whole_batches(lab, **changes, clip_range=distance / share)
        return bool(_clipped(run, 0, readings.later(run)[0])[1][row])

    if is_clipped(1 + BRACKET) and not is_clipped(1 - BRACKET):
        return 1.0
    low, high = 1 / WIDEST, WIDEST
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if is_clipped(middle) else (middle, high)
    return float(np.sqrt(low * high))


def _clipped(run: Run, rollout: int, step: Step) -> tuple[Array, NDArray[np.bool_], Array]:
    # How far ratios are on the side where they are clipped, whether they are, and that side.
    ratio = np.exp(readings.log_ratio(run, step, rollout))
    rows = readings.rows_of(run, step, rollout)
    weight = readings.advantage_weights(run, rollout)[rows]
    slope, _ = readings.surrogate_slope(run, step, rollout)
    # Some compute advantages anew in each epoch: rows count whose sign that does not change.
    anew = readings.advantages_of(step.before, readings.transitions(run, rollout))[rows]
    # Standardising them once changes signs for good.
    anew = weight if readings.weights_told(run, rollout) is not None else anew
    heavy = (np.abs(weight) > 0.1 * np.abs(weight).max()) & (weight * anew > 0)
    side = np.sign(weight)[heavy]
    clipped = (np.abs(slope) < 1e-2 * np.abs(weight * ratio))[heavy]
    return side * (ratio[heavy] - 1), clipped, side


def _schedule_words(comparison: object, measurement: Measurement) -> str:
    value: Array = measurement.value
    return f"it goes {', '.join(f'{v:.3g}' for v in value)}"


PROBES: Sequence[Probe] = (
    Probe(
        "ppo.clip_range",
        "At which distance from 1 is the probability ratio clipped, with clip_range 0.2?",
        f"{trainings.PAPER}, eq. 7",
        "distance from 1: above, below",
        _constant_clip_range,
        listed(("the range above 1", "the range below 1")),
        tolerance=2 * BRACKET,
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
        tolerance=0.04,
    ),
)
