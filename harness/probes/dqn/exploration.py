"""Probes of DQN's exploration: the share of random actions over a run, and greedy actions."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import ACTION
from parallax.harness.probes.dqn import experiments
from parallax.harness.probes.dqn.experiments import (
    CYCLE_STEPS,
    DQN_ALGORITHM,
    DQN_PAPER,
    EPSILON_FINAL,
    EPSILON_INITIAL,
    EPSILON_STEPS,
    EXPLORATION_STEPS,
    N_TIED_PATTERNS,
    WARM_UP_STEPS,
)
from parallax.harness.probes.experiment_setups import BATCH_ROWS
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families.counts import NO_EVENT, compare_counts
from parallax.harness.probes.probe import (
    GREEDY,
    SETTINGS,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_count_probe,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.reference_networks import RELU, compute_output
from parallax.harness.probes.relation import describe_course
from parallax.harness.probes.results import AnswerAxis

SCHEDULE_NAMES = (
    "steps of the warm-up, which are all random",
    "share at the first step, on the line that the fall follows",
    "share in the end",
    "steps from there to the end of that line",
    "steps between two changes, at most",
    "farthest from the line",
)
"""Numbers that describe a schedule."""
NO_THRESHOLD = "epsilon is compared with no uniform random number"
SHARE_TOLERANCE = 1e-6
"""Shares that differ by less count as equal in float32."""


def measure_random_shares(run: ProbeRun) -> Array:
    """Return epsilon at each step of a run whose random numbers exceed it, float[steps].

    If an action is random nevertheless, no random number was compared: the share is 1. If all
    are where one was, numbers above epsilon explore: the share is the rest.
    """
    decided, drawn = dict(run.thresholds), run.experiment.scripted_data.exploration_draw
    found = np.clip([decided.get(step, 0.0) for step in range(len(run.transitions))], 0, 1)
    above = np.isin(np.arange(len(found)), [*decided]) & (found < drawn)
    is_random = _find_random_actions(run)
    above &= bool(is_random[above].all())
    return np.where(is_random, np.where(above, 1.0 - found, 1.0), found)


def count_forced_random_steps(run: ProbeRun) -> int:
    """Return the number of first steps whose actions are random for any random numbers."""
    return int(np.argmin([*_find_random_actions(run), False]))


def _find_random_actions(run: ProbeRun) -> NDArray[np.bool_]:
    # Random actions in these trainings are never the first action, which is the greedy one.
    return np.asarray(run.get_actions()[:, 0] != 0)


def compute_epsilon_schedule(steps: Array, least: float = EPSILON_FINAL) -> Array:
    """Return the configured epsilon after numbers of environment steps."""
    return np.maximum(
        EPSILON_INITIAL - (EPSILON_INITIAL - EPSILON_FINAL) * steps / EPSILON_STEPS, least
    )


def _list_other_schedules(run: ProbeRun, steps: Array, found: Array) -> dict[str, Array]:
    # Shares after the warm-up that known faults have, before steps with these numbers.
    taken = np.array([s.env_steps for s in run.record.steps])
    updates = np.array([np.sum(taken <= at) for at in steps], float)
    rounds = steps // CYCLE_STEPS * CYCLE_STEPS
    forms = {
        "the decision is inverted: actions are greedy with the probability epsilon": [
            1 - compute_epsilon_schedule(at) for at in (steps, rounds)
        ],
        "it runs from the schedule's end to its start": [
            compute_epsilon_schedule(EXPLORATION_STEPS - at) for at in (steps, rounds)
        ],
        "epsilon is the smaller of the line and its end": [
            np.clip(compute_epsilon_schedule(at, -np.inf), 0, EPSILON_FINAL)
            for at in (steps, rounds)
        ],
        "it counts updates, not steps": [compute_epsilon_schedule(updates)],
        "epsilon is 0 or less after the warm-up" if run.thresholds else NO_THRESHOLD: [
            np.zeros_like(steps)
        ],
    }
    others = {
        name: np.array([np.where(steps < n, 1.0, a) for n in (WARM_UP_STEPS, 0) for a in arrays])
        for name, arrays in forms.items()
    }
    fallen = _find_falling_steps(found, WARM_UP_STEPS) if np.ptp(found) else np.array([], int)
    left = found[fallen] - EPSILON_FINAL
    if len(fallen) > 3 and left.min() > SHARE_TOLERANCE:
        rate, start = np.polyfit(steps[fallen], np.log(left), 1)
        if np.abs(np.exp(start + rate * steps[fallen]) - left).max() < 1e-3:
            others[f"it falls exponentially, by {1 - np.exp(rate):.3g} of the rest per step"] = (
                found
            )
    falls = -np.diff(found[steps >= WARM_UP_STEPS])
    falls = falls[falls > SHARE_TOLERANCE]
    if len(falls) > 3 and falls[-1] > 3 * falls[:-1].max():
        text = f"it falls by {np.median(falls):.3g} and then jumps by {falls[-1]:.3g} to its end"
        others[text] = found
    return others


def _measure_schedule(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_exploration_schedule(cache)
    found = measure_random_shares(run)[:EXPLORATION_STEPS]
    steps = np.arange(len(found), dtype=float)
    places = steps, steps - WARM_UP_STEPS, steps // CYCLE_STEPS * CYCLE_STEPS
    free, late, by_rounds = (compute_epsilon_schedule(at) for at in places)
    warm_up = steps < WARM_UP_STEPS
    others = {
        "random actions follow the schedule from the first step on": free,
        "it starts to fall after the warm-up": np.where(warm_up, 1.0, late),
        "it falls after each round of steps": np.where(warm_up, 1.0, by_rounds),
    }
    axis = AnswerAxis("environment step", steps)
    others |= _list_other_schedules(run, steps, found)
    due = np.where(warm_up, 1.0, free)
    explain = functools.partial(_explain_schedule, found, steps, due)
    return ProbeMeasurement(found, due, axis, alternatives=others, explain=explain)


def _explain_schedule(found: Array, steps: Array, due: Array) -> str:
    # PyTorch and its second of start-up are only needed here.
    from parallax.harness.probes.families import action_formulas

    line = (EPSILON_INITIAL, EPSILON_FINAL, float(EPSILON_STEPS))
    words = action_formulas.explain_epsilon(found, steps, line, WARM_UP_STEPS, CYCLE_STEPS)
    return words or describe_course(found, due, steps)


def _measure_parallel_schedule(cache: ExperimentCache) -> ProbeMeasurement:
    # Epsilon before each step of all environments, by the number of steps that all have taken.
    run = experiments.run_parallel_exploration(cache)
    n_envs = run.experiment.n_envs
    steps = np.arange(0, len(run.transitions), n_envs)
    places = steps.astype(float), steps / n_envs, n_envs * steps.astype(float)
    schedule, calls, repeated = (compute_epsilon_schedule(at) for at in places)
    warm_up = steps < WARM_UP_STEPS
    others = {
        "random actions follow the schedule from the first step on": schedule,
        "it counts steps of all environments as one": np.where(warm_up, 1.0, calls),
        "it counts steps of all environments as one, from the first step on": calls,
        f"it counts each step {n_envs} times": np.where(warm_up, 1.0, repeated),
    }
    axis = AnswerAxis("environment step", steps.astype(float))
    found = measure_random_shares(run)[steps]
    others |= _list_other_schedules(run, steps.astype(float), found)
    due = np.where(warm_up, 1.0, schedule)
    explain = functools.partial(_explain_schedule, found, steps.astype(float), due)
    return ProbeMeasurement(found, due, axis, others, explain=explain)


def _measure_schedule_shape(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_exploration_schedule(cache)
    found, warm_up = measure_random_shares(run)[:EXPLORATION_STEPS], count_forced_random_steps(run)
    expected = np.array([WARM_UP_STEPS, EPSILON_INITIAL, EPSILON_FINAL, EPSILON_STEPS, 1, 0.0])
    falling = _find_falling_steps(found, warm_up)
    if len(falling) < 2:
        raise UnmeasuredError("the share of random actions does not fall")
    slope, start = np.polyfit(falling, found[falling], 1)
    apart = float(np.abs(start + slope * falling - found[falling]).max())
    stay = int(np.diff(falling).max())
    length = (found[-1] - start) / slope
    value = [warm_up, start, found[-1], length, stay, apart if apart > 1e-3 else 0.0]
    return ProbeMeasurement(np.array(value).round(4), expected)


def _find_falling_steps(found: Array, warm_up: int) -> Array:
    # Steps whose share is below that of the previous step, without the last, which may be clipped.
    steps = np.arange(max(warm_up, 0) + 1, len(found))
    fallen = steps[found[steps - 1] - found[steps] > SHARE_TOLERANCE]
    return np.asarray(fallen[found[fallen] > found[-1] + SHARE_TOLERANCE])


def _measure_greedy_actions(cache: ExperimentCache, rows: slice) -> ProbeMeasurement:
    run, values = experiments.run_greedy_policy(cache), experiments.make_value_patterns()
    seen = run.experiment.scripted_data.observations[: len(values)][rows]
    evaluated = np.ravel(run.monitor.predict_greedy(seen))
    taken = np.concatenate([run.get_actions()[: len(values), 0][rows], evaluated])
    best = values[rows].argmax(axis=1)
    last = values.shape[1] - 1 - values[rows][:, ::-1].argmax(axis=1)
    of_target = compute_output(run.weights, "critic1_target", seen, RELU).argmax(axis=1)
    others = {
        "the last of several that are equal": np.tile(last, 2),
        "that of the target network's largest value": np.array(
            [[*of_target, *of_target], [*of_target, *best], [*best, *of_target]], float
        ),
    }
    return ProbeMeasurement(taken, np.tile(best, 2).astype(float), alternatives=others)


EXPLORATION_PROBES: Sequence[Probe] = (
    Probe(
        "dqn.exploration_schedule",
        f"What is epsilon when it falls from {EPSILON_INITIAL} to {EPSILON_FINAL} "
        f"over {EPSILON_STEPS} steps?",
        f"{DQN_PAPER}, extended data table 1: random actions during the warm-up; then epsilon "
        "falls linearly from the first step on",
        f"epsilon at each step; a warm-up of {WARM_UP_STEPS} steps, then cycles of {CYCLE_STEPS}",
        _measure_schedule,
        make_relation_description("share of random actions"),
        tolerance=1e-3,
        part=SETTINGS,
        events=(ACTION,),
    ),
    Probe(
        "dqn.exploration_schedule_with_copies",
        "What is epsilon with 4 parallel environments, by transitions?",
        f"{DQN_PAPER}, extended data table 1; a step of each environment is a transition",
        "epsilon at each step of all environments",
        _measure_parallel_schedule,
        make_relation_description("share of random actions"),
        tolerance=1e-3,
        part=SETTINGS,
        events=(ACTION,),
    ),
    Probe(
        "dqn.exploration_shape",
        "When does the share of random actions begin and end to fall, and how?",
        f"{DQN_PAPER}, methods: linearly, step by step",
        ", ".join(SCHEDULE_NAMES),
        _measure_schedule_shape,
        make_entry_description(SCHEDULE_NAMES),
        has_own_units=True,
        tolerance=1e-3,
        part=SETTINGS,
        events=(ACTION,),
    ),
    Probe(
        "dqn.greedy_action",
        "Which action is taken without exploration, in the training and in an evaluation?",
        f"{DQN_PAPER}, algorithm 1: that of the largest value",
        "number of the action",
        lambda cache: _measure_greedy_actions(cache, slice(None, -N_TIED_PATTERNS)),
        make_relation_description("greedy action"),
        counts=True,
        part=GREEDY,
    ),
    Probe(
        "dqn.greedy_ties",
        "Which of several actions of the same value is taken?",
        f"{DQN_PAPER}: does not say; here the first",
        "number of the action, in the training and in an evaluation",
        lambda cache: _measure_greedy_actions(cache, slice(-N_TIED_PATTERNS, None)),
        make_relation_description("greedy action"),
        counts=True,
    ),
)

COUNT_NAMES = (
    "environment steps",
    "warm-up steps",
    "environment steps at the first update",
    "updates",
    "environment steps between two updates",
    "target updates",
    "environment steps at the first target update",
    "updates until then",
    "environment steps between two target updates",
)


def count_events(run: ProbeRun) -> Array:
    """Return the counts of `COUNT_NAMES`; -1 for events that do not happen."""
    updates = [step.env_steps for step in run.record.steps]
    moves = [(steps, taken) for steps, taken, _ in run.record.target_moves]
    at = [steps for steps, _ in moves]
    return np.array(
        [
            len(run.transitions),
            count_forced_random_steps(run),
            updates[0] if updates else NO_EVENT,
            len(updates),
            _compute_longest_interval(sorted(set(updates))),
            len(moves),
            at[0] if moves else NO_EVENT,
            moves[0][1] if moves else NO_EVENT,
            _compute_longest_interval(at),
        ],
        dtype=float,
    )


EVEN_COUNT_NAMES = ("environment steps", "environment steps at the first update", "updates")


def _measure_even_counts(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_greedy_policy(cache)
    steps, updates = len(run.transitions), [step.env_steps for step in run.record.steps]
    value = [steps, updates[0] if updates else NO_EVENT, len(updates)]
    due = np.array([steps, steps, 1.0])
    return compare_counts(run, EVEN_COUNT_NAMES, np.array(value, float), due)


def _compute_longest_interval(steps: Sequence[int]) -> float:
    return float(np.max(np.diff(steps))) if len(steps) > 1 else NO_EVENT


def compute_expected_counts(run: ProbeRun) -> Array:
    """Return the counts of `COUNT_NAMES` that the schedule of updates has."""
    hp, steps = run.hyperparameters, len(run.experiment.scripted_data.rewards)
    update_schedule = hp.compute_update_schedule(steps)
    every = hp.train_freq
    interval = hp.target_interval_in_updates() or np.nan  # it may be no number of updates
    rounds_before = (interval - 1) // hp.gradient_steps
    return np.array(
        [
            steps,
            update_schedule.random_steps,
            update_schedule.first_update,
            update_schedule.total_gradient_steps,
            every,
            update_schedule.total_gradient_steps // interval,
            update_schedule.first_update + rounds_before * every,
            interval,
            hp.target_update_interval,
        ],
        dtype=float,
    )


def _build_count_probe(
    name: str, question: str, runner: Callable[[ExperimentCache], ProbeRun]
) -> Probe:
    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        run = runner(cache)
        return compare_counts(run, COUNT_NAMES, count_events(run), compute_expected_counts(run))

    citation = (
        f"{DQN_ALGORITHM}: every so many steps an update once the warm-up is over, every so many "
        "updates a copy to the target after the last of them"
    )
    return make_count_probe(name, question, citation, COUNT_NAMES, measure)


COUNT_PROBES: Sequence[Probe] = (
    _build_count_probe(
        "dqn.counts",
        "How often do events of a training happen, and when first?",
        experiments.RUNS.run_count_experiment,
    ),
    _build_count_probe(
        "dqn.counts_with_copies",
        "How often do events happen with 4 parallel environments, by transitions?",
        experiments.RUNS.run_parallel_envs,
    ),
    make_count_probe(
        "dqn.counts_of_even_rounds",
        f"How often do events happen in {BATCH_ROWS} steps of one cycle without warm-up?",
        f"{DQN_ALGORITHM}: an update every so many steps",
        EVEN_COUNT_NAMES,
        _measure_even_counts,
    ),
)
