"""Probes of PPO's minibatches, epochs, counts of events, and annealed settings."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import POLICY_LOSS, POLICY_STEP, OptimizerStepRecord
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families.settings import (
    compute_final_weights,
    has_same_weights,
    make_option_probe,
)
from parallax.harness.probes.ppo import experiments, measurements
from parallax.harness.probes.ppo.experiments import (
    ANNEALED_EPOCHS,
    CLIP,
    N_ENVS,
    PPO_CODE,
    PPO_PAPER,
)
from parallax.harness.probes.ppo.losses import explain_policy_loss
from parallax.harness.probes.ppo.measurements import find_rollout_rows, get_snapshot_step
from parallax.harness.probes.probe import (
    LOOP,
    SETTINGS,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    describe_counts,
    make_count_probe,
    make_entry_description,
)
from parallax.harness.probes.results import AnswerAxis

TARGET_CHANGE_TOLERANCE = 1e-2
"""Largest change of a value target, in units of return, that counts as rounding."""
COUNT_NAMES = ("environment steps", "environment steps at the first update", "gradient steps")


def _measure_coverage(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_update(cache)
    shown = np.concatenate(
        [find_rollout_rows(run, get_snapshot_step(run, number)) for number in (0, 1)]
    )
    times = np.bincount(shown, minlength=experiments.ROLLOUT_STEPS).astype(float)
    words = measurements.describe_epochs(run)
    return ProbeMeasurement(times, np.ones(experiments.ROLLOUT_STEPS), meaning=words)


def _measure_reshuffling(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_update(cache)
    first, second = (
        set(find_rollout_rows(run, get_snapshot_step(run, number))) for number in (0, 2)
    )
    return ProbeMeasurement(np.array([float(first != second)]), np.ones(1))


def _measure_advantage_recompute(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_update(cache)
    step, factor = get_snapshot_step(run, 2), np.median(measurements.measure_value_factor(run))
    rows = find_rollout_rows(run, step)
    now = measurements.predict_values(step.before, measurements.get_rollout_observations(run)[rows])
    target = now - measurements.solve_value_slope(run, step) / factor
    moved = np.abs(target - run.record.stored["returns"][rows]).max()
    return ProbeMeasurement(np.array([float(moved > TARGET_CHANGE_TOLERANCE)]), np.zeros(1))


def _compare_counts(run: ProbeRun, expected: list[float]) -> ProbeMeasurement:
    steps = measurements.list_gradient_steps(run)
    first = steps[0].env_steps if steps else -1
    counts = ProbeMeasurement(
        np.array([float(len(run.transitions)), float(first), float(len(steps))]), np.array(expected)
    )
    if not (words := measurements.describe_epochs(run) if steps else ""):
        return counts
    text = describe_counts(COUNT_NAMES, counts.value, counts.expected, words)
    return dataclasses.replace(counts, meaning=text)


def _compare_minibatch_sizes(
    cache: ExperimentCache, rollout_steps: int, expected: list[float]
) -> ProbeMeasurement:
    run = experiments.run_minibatches(cache, rollout_steps, 8)
    steps = measurements.list_gradient_steps(run)
    epoch = steps[: max(1, len(steps) // run.hyperparameters.epochs)]
    sizes = np.array([float(len(step.observations)) for step in epoch])
    return ProbeMeasurement(sizes, np.array(expected))


def _describe_coverage(comparison: object, measurement: ProbeMeasurement) -> str:
    never = int((measurement.value == 0).sum())
    often = int((measurement.value > 1).sum())
    steps = experiments.ROLLOUT_STEPS
    return f"{never} of {steps} transitions are left out of an epoch, {often} come twice"


MINIBATCH_PROBES: Sequence[Probe] = (
    Probe(
        "ppo.minibatch_sizes",
        "Into which minibatches is a rollout of 24 cut, with minibatch_size 8?",
        f"{PPO_PAPER}, algorithm 1",
        "transitions",
        lambda cache: _compare_minibatch_sizes(cache, 24, [8.0, 8.0, 8.0]),
        make_entry_description(("first", "second", "third")),
        counts=True,
        part=LOOP,
    ),
    Probe(
        "ppo.minibatch_remainder",
        "Into which minibatches is a rollout of 20 cut, with minibatch_size 8?",
        f"{PPO_PAPER}, algorithm 1: every transition is used in each epoch",
        "transitions",
        lambda cache: _compare_minibatch_sizes(cache, 20, [8.0, 8.0, 4.0]),
        make_entry_description(("first", "second", "third")),
        counts=True,
        part=LOOP,
    ),
    Probe(
        "ppo.epoch_coverage",
        "How often is each transition used in an epoch?",
        f"{PPO_PAPER}, algorithm 1: once",
        "times, per transition",
        _measure_coverage,
        _describe_coverage,
        counts=True,
    ),
    Probe(
        "ppo.reshuffling",
        "Does each epoch cut the rollout in another way?",
        f"{PPO_CODE}: yes",
        "0 no, 1 yes",
        _measure_reshuffling,
        lambda comparison, measurement: "every epoch has the same minibatches",
        counts=True,
    ),
    Probe(
        "ppo.advantages_recomputed",
        "Are advantages and value targets computed anew in each epoch?",
        f"{PPO_PAPER}, algorithm 1: no, once per rollout",
        "0 no, 1 yes",
        _measure_advantage_recompute,
        lambda comparison, measurement: "value targets change from one epoch to the next",
        counts=True,
        part=LOOP,
    ),
    make_count_probe(
        "ppo.counts",
        "How often do events happen with 60 steps requested and rollouts of 24?",
        f"{PPO_CODE}: as many whole rollouts as fit; 2 epochs of 2 minibatches",
        COUNT_NAMES,
        lambda cache: _compare_counts(experiments.run_count_experiment(cache), [48.0, 24.0, 8.0]),
    ),
    make_count_probe(
        "ppo.counts_with_copies",
        f"How often do events happen with {N_ENVS} parallel environments and rollouts of 24?",
        f"{PPO_PAPER}, algorithm 1: a rollout is of all actors together",
        COUNT_NAMES,
        lambda cache: _compare_counts(experiments.run_parallel_envs(cache), [24.0, 24.0, 4.0]),
    ),
)

SCHEDULE_SHARES = np.array([1.0, 0.75, 0.5, 0.25])
"""Remaining share of an annealed quantity in each of four rollouts."""
MAX_CLIP_FACTOR, CLIP_BISECTIONS = 4.0, 9
"""Search for another clip range: largest factor of the configured one, and number of bisections."""
MAX_RATIO_DISTANCE = 0.9
"""Largest distance from 1 of the ratio near which the range is set; 1 leaves no lower bound."""
SLOWER_LEARNING_RATES = (0.005, 0.00125)
"""Learning rates of further trainings, if all ratios of the first one are farther from 1."""
CLIP_BRACKET = 0.004
"""Relative distance of the two clip ranges that bracket a ratio."""


def _measure_learning_rates(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_annealing(cache, "learning_rate_schedule")
    get_snapshot_step(run, 0)
    steps = [step.settings for step in measurements.list_gradient_steps(run)]
    due = np.repeat(SCHEDULE_SHARES, ANNEALED_EPOCHS)
    shares = {
        network: np.array([step.get(network, step["policy"])["lr"] for step in steps])
        / run.hyperparameters.learning_rate
        for network in ("policy", "value")
    }
    network = "policy"
    if len(steps) == len(due):  # a schedule may reach one of the networks only
        network = max(shares, key=lambda one: float(np.abs(shares[one] - due).max()))
    value = shares[network]
    axis = AnswerAxis("gradient step", np.arange(1.0, len(value) + 1))

    def explain() -> str:
        words = _explain_annealing(value, 1.0)
        if np.array_equal(shares["policy"], shares["value"]):
            return words
        return f"the learning rate of the {network} alone: {words or _describe_shares(value)}"

    return ProbeMeasurement(value, due, axis, explain=explain)


def _explain_annealing(found: Array, start: float) -> str:
    # PyTorch and its second of start-up are only needed here.
    from parallax.harness.probes.families import action_formulas

    rollouts = len(SCHEDULE_SHARES)
    if len(found) % rollouts or np.ptp(found) < 1e-3 * np.abs(found).max():
        return ""
    words = action_formulas.explain_annealing(found, rollouts, start)
    return f"{words}: {_format_values(found)}" if words else ""


def _measure_clip_ranges(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_annealing(cache, "clip_range_schedule")
    passes = measurements.list_later_steps(run)
    value = []
    for rollout in range(len(SCHEDULE_SHARES)):
        steps = passes[rollout * ANNEALED_EPOCHS :][: ANNEALED_EPOCHS - 1]
        found = [_find_clipped_rows(run, rollout, step) for step in steps]
        value.append(
            _compute_clip_edge(*(np.concatenate(a) for a in list(zip(*found, strict=True))[:2]))
        )
    axis = AnswerAxis("rollout", np.arange(1.0, 5.0))
    explain = functools.partial(_explain_annealing, np.array(value), CLIP)
    return ProbeMeasurement(np.array(value), CLIP * SCHEDULE_SHARES, axis, explain=explain)


def _compute_clip_edge(beyond: Array, clipped: NDArray[np.bool_]) -> float:
    # Gradients show which rows are clipped; the range is between their ratios and the others'.
    low = float(beyond[~clipped].max(initial=0.0))
    high = float(beyond[clipped].min(initial=np.inf))
    return (low + high) / 2 if np.isfinite(high) else low


def _measure_constant_clip_range(cache: ExperimentCache) -> ProbeMeasurement:
    value = [
        CLIP * _measure_clip_factor(cache, *_find_ratio_near_clip(cache, sign))
        for sign in (1.0, -1.0)
    ]
    words = ""
    if not np.allclose(value, CLIP, rtol=4 * CLIP_BRACKET):
        # Epochs of several minibatches show whether a ratio is to the policy of the epoch's start.
        runs = experiments.run_full_batches(cache), experiments.run_update(cache)
        words = explain_policy_loss(runs)
        words = f"in later epochs, {words}" if words else ""
    return ProbeMeasurement(np.array(value), np.full(2, CLIP), meaning=words)


def _find_ratio_near_clip(
    cache: ExperimentCache, side: float
) -> tuple[dict[str, float], int, float]:
    # Ratios of the second pass do not depend on the clip range, so it is set close to one of them.
    # If all are too far from 1 for a valid clip range, a training with a lower rate is used.
    for changes in ({}, *({"learning_rate": rate} for rate in SLOWER_LEARNING_RATES)):
        free = experiments.run_full_batches(cache, **changes)
        beyond, _, sides = _find_clipped_rows(free, 0, measurements.list_later_steps(free)[0])
        mine = np.flatnonzero((sides == side) & (beyond > 0) & (beyond < MAX_RATIO_DISTANCE))
        if len(mine):
            row = mine[np.argmin(np.abs(beyond[mine] - CLIP))]
            return changes, int(row), float(beyond[row])
    raise UnmeasuredError("no ratio is near enough to 1 on that side")


def _measure_clip_factor(
    cache: ExperimentCache, changes: dict[str, float], row: int, distance: float
) -> float:
    """Return the multiple of the configured clip range at which a ratio is clipped."""

    def is_clipped(share: float) -> bool:
        run = experiments.run_full_batches(cache, **changes, clip_range=distance / share)
        return bool(_find_clipped_rows(run, 0, measurements.list_later_steps(run)[0])[1][row])

    if is_clipped(1 + CLIP_BRACKET) and not is_clipped(1 - CLIP_BRACKET):
        return 1.0
    low, high = 1 / MAX_CLIP_FACTOR, MAX_CLIP_FACTOR
    for _ in range(CLIP_BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if is_clipped(middle) else (middle, high)
    return float(np.sqrt(low * high))


def _find_clipped_rows(
    run: ProbeRun, rollout: int, step: OptimizerStepRecord
) -> tuple[Array, NDArray[np.bool_], Array]:
    # Distances of ratios from 1 on the side of clipping, whether they are clipped, and that side.
    ratio = np.exp(measurements.compute_log_ratio(run, step, rollout))
    rows = measurements.find_rollout_rows(run, step, rollout)
    weight = measurements.get_advantage_weights(run, rollout)[rows]
    slope, _ = measurements.solve_surrogate_slope(run, step, rollout)
    # Some frameworks recompute advantages in each epoch: use only rows whose sign stays the same.
    anew = measurements.compute_advantages(
        step.before, measurements.get_rollout_transitions(run, rollout)
    )[rows]
    # Standardising them once per rollout changes signs, so recomputed ones cannot be compared.
    anew = weight if measurements.get_transformed_advantages(run, rollout) is not None else anew
    heavy = (np.abs(weight) > 0.1 * np.abs(weight).max()) & (weight * anew > 0)
    side = np.sign(weight)[heavy]
    clipped = (np.abs(slope) < 1e-2 * np.abs(weight * ratio))[heavy]
    return side * (ratio[heavy] - 1), clipped, side


def _describe_schedule(comparison: object, measurement: ProbeMeasurement) -> str:
    return _describe_shares(measurement.value)


def _describe_shares(values: Array) -> str:
    if np.ptp(values) < 1e-3 * values[0]:
        return f"it does not change: it stays at {values[0]:.3g}"
    return _format_values(values)


def _format_values(values: Array) -> str:
    return f"it goes {', '.join(f'{v:.3g}' for v in values)}"


ANNEALING_PROBES: Sequence[Probe] = (
    Probe(
        "ppo.clip_range",
        "At which distance from 1 is the probability ratio clipped, with clip_range 0.2?",
        f"{experiments.PPO_PAPER}, eq. 7",
        "distance from 1: above, below",
        _measure_constant_clip_range,
        make_entry_description(("the range above 1", "the range below 1")),
        tolerance=2 * CLIP_BRACKET,
        events=(POLICY_LOSS,),
    ),
    Probe(
        "ppo.learning_rate_annealing",
        "Which learning rate has each gradient step of four rollouts, when it is annealed?",
        f"{PPO_CODE}: what is left of the run when the rollout begins, linearly",
        "share of the learning rate at the start",
        _measure_learning_rates,
        _describe_schedule,
        part=LOOP,
        events=(POLICY_STEP,),
    ),
    Probe(
        "ppo.clip_range_annealing",
        "Which clip range has each of four rollouts, when it is annealed from 0.2?",
        f"{PPO_CODE}: what is left of the run when the rollout begins, linearly",
        "distance from 1",
        _measure_clip_ranges,
        _describe_schedule,
        tolerance=0.04,
        part=LOOP,
    ),
)


def _measure_default_clip_range(cache: ExperimentCache) -> ProbeMeasurement:
    base = experiments.build_option_experiment(cache)
    defaults = {k: v for k, v in base.changes.items() if k != "clip_range_schedule"}
    base = dataclasses.replace(base, name="ppo own schedule", changes=defaults)
    constant = compute_final_weights(cache, base, {"clip_range_schedule": "constant"})
    same = has_same_weights(constant, compute_final_weights(cache, base, {}))
    return ProbeMeasurement(np.array([float(same)]), np.ones(1))


OPTION_PROBES: Sequence[Probe] = (
    make_option_probe(
        "ppo",
        {"value_clip_range": CLIP / 10},
        "value_clip_range",
        "the range of value clipping",
        experiments.build_option_experiment,
    ),
    Probe(
        "ppo.clip_range_by_default",
        "Is the clip range constant over a run, by default?",
        f"{PPO_PAPER}, table 3: yes",
        "0 no, 1 yes",
        _measure_default_clip_range,
        lambda comparison, measurement: "the clip range changes over a run",
        counts=True,
        part=SETTINGS,
    ),
)
