"""Probes of DQN's update: shape and clipping of the loss, heads, targets and their updates."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import CRITIC_LOSS, OptimizerStepRecord
from parallax.harness.probes.dqn import experiments
from parallax.harness.probes.dqn.experiments import (
    DOUBLE_Q_PAPER,
    DQN_ALGORITHM,
    DQN_PAPER,
    HUGE_SCALE,
    MAX_GRAD_NORM,
)
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.families import critics
from parallax.harness.probes.families.critics import (
    CriticReader,
    TargetAlternatives,
    TargetTerms,
    compute_masked_targets,
    solve_predictions_and_gradients,
)
from parallax.harness.probes.families.optimisation import ROUNDING, make_clipped_norm_probe
from parallax.harness.probes.measurements import find_minibatch, list_critic_updates
from parallax.harness.probes.probe import (
    SETTINGS,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.reference_networks import RELU, compute_output, find_solvable_rows
from parallax.harness.probes.results import AnswerAxis

LINEAR_PART_START = 0.999
"""Share of the largest gradient above which a loss may be linear and errors are unknown."""
NEAR_ZERO_SHARE, TINY_ERROR_SHARE = 0.4, 0.02
"""Errors between these shares of a quarter of the largest error give the slope near 0."""
HUBER_CURVE_NAMES = ("pull per error, near 0", "error from which the pull is constant, 0 for none")


def compute_errors_and_gradients(run: ProbeRun, step: OptimizerStepRecord) -> tuple[Array, Array]:
    """Return errors in a training with a discount of 0, and derivatives of the loss by predictions.

    Args:
        run: A training with a discount of 0.
        step: Optimizer step of the network.

    Returns:
        Both float[rows], in ascending order of the errors.
    """
    predictions, pulls = solve_predictions_and_gradients(run, step)
    errors = predictions - find_minibatch(run, step).rewards
    order = np.argsort(errors)
    return errors[order], pulls[order]


def fit_huber_curve(errors: Array, pulls: Array) -> tuple[float, float]:
    """Return the gradient's slope near 0 and the error above which it is constant, 0 for never.

    Raises:
        UnmeasuredError: All gradients are 0, or all of the same size.
    """
    largest = np.abs(errors).max()
    near = (np.abs(errors) < NEAR_ZERO_SHARE * largest / 4) & (
        np.abs(errors) > TINY_ERROR_SHARE * largest / 4
    )
    near = near if near.any() else np.abs(errors) <= np.sort(np.abs(errors))[2]
    slope = float(np.median(pulls[near] / errors[near]))
    if not slope:
        raise UnmeasuredError("the loss has no gradient by the values of the actions taken")
    flat = np.abs(pulls) > LINEAR_PART_START * np.abs(pulls).max()
    if flat.all():
        raise UnmeasuredError("the loss is linear at all errors")
    return slope, float(np.abs(pulls).max() / slope) if flat.sum() > 1 else 0.0


def compute_huber_gradients(errors: Array, slope: float, bend: float) -> Array:
    """Return derivatives of a Huber loss that is linear above an error of `bend`; 0 for never."""
    return np.asarray(slope * (np.clip(errors, -bend, bend) if bend else errors))


def _read_first_update(run: ProbeRun) -> tuple[Array, Array]:
    return compute_errors_and_gradients(run, list_critic_updates(run)[0])


def _measure_loss_shape(cache: ExperimentCache) -> ProbeMeasurement:
    # Later updates show whether earlier gradients were not cleared.
    run = experiments.run_bandit(cache)
    read = [compute_errors_and_gradients(run, step) for step in list_critic_updates(run)]
    errors, pulls = (np.concatenate(arrays) for arrays in zip(*read, strict=True))
    others = _list_alternative_losses(errors)
    if bend := run.hyperparameters.huber_delta:
        others["linear from huber_delta on"] = np.clip(errors, -bend, bend)
    others |= _describe_missing_pulls(errors, pulls)
    means = np.array([np.clip(errors, -1, 1), *_list_alternative_losses(errors).values()])
    others[critics.SUMMED_LOSS] = run.hyperparameters.batch_size * means
    if cause := critics.describe_untaken_pulls(run):
        others[cause] = pulls
    return ProbeMeasurement(pulls, np.clip(errors, -1, 1), AnswerAxis("error", errors), others)


def _list_alternative_losses(errors: Array) -> dict[str, Array]:
    return {
        "the squared error, without a bend": 2 * errors,
        "half the squared error, without a bend": errors,
        "the absolute error": np.sign(errors),
        "twice the paper's": 2 * np.clip(errors, -1, 1),
    }


def _describe_missing_pulls(errors: Array, pulls: Array) -> dict[str, Array]:
    # Losses that have no gradient beyond an error, by their description.
    there = np.abs(pulls) > ROUNDING * np.abs(pulls).max()
    last = float(np.abs(errors[there]).max(initial=0.0))
    if there.all() or np.abs(errors[~there]).max() <= last:
        return {}
    known = {"the paper's loss": np.clip(errors, -1, 1), **_list_alternative_losses(errors)}
    text = f"without a gradient beyond errors of {last:.3g}"
    return {f"{name}, {text}": np.where(np.abs(errors) <= last, p, 0) for name, p in known.items()}


def _make_huber_measure(
    runner: Callable[[ExperimentCache], ProbeRun], delta: float
) -> Callable[[ExperimentCache], ProbeMeasurement]:
    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        errors, pulls = _read_first_update(runner(cache))
        others = {
            f"divided by {delta:g}": np.clip(errors, -delta, delta) / delta,
            "linear from 1 on": np.clip(errors, -1, 1),
            **_describe_missing_pulls(errors, pulls),
        }
        expected = np.clip(errors, -delta, delta)
        return ProbeMeasurement(pulls, expected, AnswerAxis("error", errors), others)

    return measure


def _measure_huber_curve(cache: ExperimentCache) -> ProbeMeasurement:
    slope, bend = fit_huber_curve(*_read_first_update(experiments.run_bandit(cache)))
    return ProbeMeasurement(np.array([slope, bend]).round(5), np.array([1.0, 1.0]))


def _measure_gradient_clipping(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_steep_values(cache)
    slope, bend = fit_huber_curve(*_read_first_update(experiments.run_bandit(cache)))
    shares = []
    for step in list_critic_updates(run)[:2]:
        errors, pulls = compute_errors_and_gradients(run, step)
        shares.append(float(np.median(pulls / compute_huber_gradients(errors, slope, bend))))
    return ProbeMeasurement(np.array(shares), np.ones(len(shares)))


def _measure_reward_clipping(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_unclipped_rewards(cache)
    slope, bend = fit_huber_curve(*_read_first_update(experiments.run_bandit(cache)))
    step = list_critic_updates(run)[0]
    predictions, pulls = solve_predictions_and_gradients(run, step)
    rewards = find_minibatch(run, step).rewards
    known = {
        "rewards are cut at -1 and 1": np.clip(rewards, -1, 1),
        "the signs of rewards": np.sign(rewards),
    }
    others = {
        name: compute_huber_gradients(predictions - r, slope, bend) for name, r in known.items()
    }
    expected = compute_huber_gradients(predictions - rewards, slope, bend)
    return ProbeMeasurement(pulls, expected, AnswerAxis("reward", rewards), others)


def _measure_head_gradients(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_dueling_network(cache)
    step = list_critic_updates(run)[0]
    weights, data = step.before, find_minibatch(run, step)
    body = RELU(data.observations @ weights["critic1.0.weight"].T + weights["critic1.0.bias"])
    return compare_head_gradients(step, body, data.actions[:, 0].astype(int))


def compare_head_gradients(
    step: OptimizerStepRecord, body: Array, chosen: NDArray[np.intp]
) -> ProbeMeasurement:
    """Compare the gradient by advantages with that by the value, split as in the paper.

    Args:
        step: Optimizer step of a network with two heads.
        body: Input of both heads, float[rows, units].
        chosen: Actions that were taken, int[rows].
    """
    # Each head's outputs, and the loss's gradients by them, solved from those of its last layer.
    weights, outputs, pulls = step.before, dict[str, Array](), dict[str, Array]()
    for head in ("advantage", "value"):
        name = f"critic1.{head}"
        hidden = RELU(body @ weights[f"{name}0.weight"].T + weights[f"{name}0.bias"])
        outputs[head] = hidden @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        system = np.vstack([hidden.T, np.ones(len(hidden))])
        known = np.vstack([step.gradients[f"{name}.weight"].T, step.gradients[f"{name}.bias"]])
        pulls[head] = np.linalg.lstsq(system, known, rcond=None)[0] * len(hidden)
    value, choices = pulls["value"], np.eye(pulls["advantage"].shape[1])
    taken, best = choices[chosen], choices[outputs["advantage"].argmax(axis=1)]
    others = {
        "advantages without their mean taken off": value * taken,
        "the largest advantage is taken off": value * (taken - best),
    }
    return ProbeMeasurement(pulls["advantage"], value * (taken - 1 / len(choices)), None, others)


def _solve_targets(cache: ExperimentCache, run: ProbeRun, step: OptimizerStepRecord) -> Array:
    # Targets of the predictions; NaN where the loss is linear, or gradients cannot be solved.
    slope, bend = fit_huber_curve(*_read_first_update(experiments.run_bandit(cache)))
    predictions, pulls = solve_predictions_and_gradients(run, step)
    inputs = find_minibatch(run, step).observations
    is_known = find_solvable_rows(step.before, "critic1", inputs, RELU)
    if bend:
        is_known = is_known & (np.abs(pulls) < LINEAR_PART_START * slope * bend)
    return np.where(is_known, predictions - pulls / slope, np.nan)


def _compute_slopes(run: ProbeRun, step: OptimizerStepRecord) -> Array:
    errors, pulls = compute_errors_and_gradients(run, step)
    return pulls / errors


READER = CriticReader(_compute_slopes, _solve_targets)
"""Reader of DQN's targets for a quadratic or a Huber loss."""

LOSS_PROBES: Sequence[Probe] = (
    Probe(
        "dqn.critic_loss",
        "What is the gradient of the default loss by a prediction, over the error?",
        f"{DQN_PAPER}, methods: by the error, which is cut at -1 and 1",
        "derivative of the loss by the prediction, times the minibatch size, in the first updates",
        _measure_loss_shape,
        make_relation_description("pull on the value"),
        tolerance=1e-3,
        events=(CRITIC_LOSS,),
    ),
    Probe(
        "dqn.loss_numbers",
        "What is the slope of the loss near 0, and where does it become linear, by default?",
        f"{DQN_PAPER}, methods: 1, and from an error of 1 on",
        ", ".join(HUBER_CURVE_NAMES),
        _measure_huber_curve,
        make_entry_description(HUBER_CURVE_NAMES),
        tolerance=1e-2,
    ),
    *(
        Probe(
            f"dqn.huber_loss{suffix}",
            f"What is the gradient of the Huber loss with delta {delta:g}, over the error?",
            "Huber 1964, eq. 2.6: by the error, which is cut there",
            "derivative of the loss by the prediction, times the minibatch size",
            _make_huber_measure(runner, delta),
            make_relation_description("pull on the value"),
            tolerance=1e-3,
        )
        for suffix, delta, runner in (
            ("", 1.0, experiments.run_huber_loss),
            ("_half", 0.5, experiments.run_narrow_huber_loss),
        )
    ),
    Probe(
        "dqn.critic_gradient_clipping",
        "Are huge gradients clipped, by default?",
        f"{DQN_PAPER}: they are not",
        f"pull on values that are {HUGE_SCALE:g} times as steep, as a share of what is due, in the "
        "first two updates",
        _measure_gradient_clipping,
        make_relation_description("pull on steep values"),
        tolerance=0.01,
        events=(CRITIC_LOSS,),
    ),
    make_clipped_norm_probe("dqn", experiments.run_clipped_gradients, MAX_GRAD_NORM),
    Probe(
        "dqn.reward_clipping",
        "What is the gradient of the loss at rewards beyond -1 and 1?",
        f"{DQN_PAPER}, methods: clips rewards of Atari games; here they are the environment's",
        "derivative of the loss by the prediction, times the minibatch size",
        _measure_reward_clipping,
        make_relation_description("pull to large rewards"),
        tolerance=5e-3,
    ),
    Probe(
        "dqn.dueling_head",
        "How is the gradient of a value split over the advantages of a dueling network?",
        "Wang et al. 2016 (arXiv:1511.06581), eq. 9: the mean of the advantages is taken off",
        "derivative of the loss by each advantage, times the minibatch size",
        _measure_head_gradients,
        make_relation_description("pull on the advantages"),
        tolerance=1e-3,
    ),
)


TARGET_NETWORK_MAXIMUM, DOUBLE_Q = "the largest value of the target network", "double"
MIN_TARGET_DIFFERENCE = 1e-3
"""Targets that differ by less count as equal."""


def list_updates_without_target_move(run: ProbeRun) -> list[OptimizerStepRecord]:
    """Return the first updates before which the target network did not move.

    Some implementations copy it within an update, after the update has used it. In these updates
    it is unknown which weights were used.

    Raises:
        UnmeasuredError: There are none.
    """
    found = [step for step in list_critic_updates(run) if not _is_target_copied_before(run, step)]
    if not found:
        raise UnmeasuredError("its target moves with every update")
    return found


def _is_target_copied_before(run: ProbeRun, step: OptimizerStepRecord) -> bool:
    number = next(i for i, s in enumerate(run.record.steps) if s is step)
    earlier = run.record.steps[number - 1].after if number else run.weights
    name = "critic1_target.out.weight"
    return not np.array_equal(earlier[name], step.before[name])


def compute_next_values(run: ProbeRun, step: OptimizerStepRecord) -> Mapping[str, Array]:
    """Return next values by the rule that chooses them, each float[rows]."""
    seen = find_minibatch(run, step).next_observations
    online, target = (
        compute_output(step.before, name, seen, RELU) for name in ("critic1", "critic1_target")
    )
    rows = np.arange(len(seen))
    return {
        TARGET_NETWORK_MAXIMUM: target.max(axis=1),
        DOUBLE_Q: target[rows, online.argmax(axis=1)],
    }


def compute_targets(run: ProbeRun, step: OptimizerStepRecord) -> TargetAlternatives:
    """Return the paper's targets of an update, and others by their description."""
    values = dict(compute_next_values(run, step))
    return compute_masked_targets(run, step, values.pop(TARGET_NETWORK_MAXIMUM), values)


def list_target_terms(run: ProbeRun, step: OptimizerStepRecord) -> TargetTerms:
    """Return the terms of the paper's targets, with their weights."""
    value, gamma = compute_next_values(run, step)[TARGET_NETWORK_MAXIMUM], run.hyperparameters.gamma
    return {"reward": (find_minibatch(run, step).rewards, 1.0), "next value": (value, gamma)}


def _measure_default_targets(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_default_target(cache)
    known = [compute_next_values(run, step) for step in list_updates_without_target_move(run)]
    apart = (np.abs(values[TARGET_NETWORK_MAXIMUM] - values[DOUBLE_Q]).max() for values in known)
    if max(apart) < MIN_TARGET_DIFFERENCE:
        raise UnmeasuredError("both ways to choose give the same targets")
    return _compare_next_values(cache, run, TARGET_NETWORK_MAXIMUM)


def _compare_next_values(cache: ExperimentCache, run: ProbeRun, due: str) -> ProbeMeasurement:
    # Targets of the first updates within episodes, compared with one way to choose next values.
    targets: list[Array] = []
    known: dict[str, list[Array]] = {}
    read: list[tuple[OptimizerStepRecord, NDArray[np.intp]]] = []
    for step in list_updates_without_target_move(run):
        found, data = READER.target(cache, run, step), find_minibatch(run, step)
        rows = np.flatnonzero((data.ends == 0) & ~np.isnan(found))
        read.append((step, rows))
        targets.append(found[rows])
        for name, value in compute_next_values(run, step).items():
            target = data.rewards + run.hyperparameters.gamma * value
            known.setdefault(f"target: {name}", []).append(target[rows])
    joined = {name: np.concatenate(arrays) for name, arrays in known.items()}
    expected = joined.pop(f"target: {due}")
    value = np.concatenate(targets)
    explain = functools.partial(critics.explain_targets, run, value, read)
    return ProbeMeasurement(value, expected, alternatives=joined, explain=explain)


def _measure_soft_update(cache: ExperimentCache) -> ProbeMeasurement:
    run = experiments.run_unclipped_rewards(cache)
    if run.hyperparameters.tau != experiments.SOFT_UPDATE_TAU:
        raise UnmeasuredError(f"its target is copied: tau={experiments.SOFT_UPDATE_TAU} is refused")
    return critics.measure_target_moves(run)


CRITIC_PROBES = critics.CriticProbes(
    experiments.RUNS,
    experiments.run_steep_values,
    compute_targets,
    list_target_terms,
    DQN_ALGORITHM,
    halves_loss=False,
    reader=READER,
    steps=list_updates_without_target_move,
)
_MOVING = dataclasses.replace(CRITIC_PROBES, steps=list_critic_updates)
TARGET_PROBES: Sequence[Probe] = (
    *CRITIC_PROBES.build_target_probes(),
    Probe(
        "dqn.moved_target",
        "Which target network gives the targets of the update after it moved?",
        f"{DQN_ALGORITHM}: the one that has moved",
        f"value target, in units of return, {critics.FIRST_UPDATES_TEXT}",
        functools.partial(_MOVING.measure_targets, experiments.run_moving_target, None),
        make_relation_description("target"),
        tolerance=1e-3,
        events=(CRITIC_LOSS,),
    ),
    CRITIC_PROBES.build_weight_probe(),
    Probe(
        "dqn.double_target",
        "Which next value is used in double Q-learning?",
        f"{DOUBLE_Q_PAPER}: the target network's, of the action that the online network prefers",
        "value target in the middle of episodes, in units of return, in the first updates",
        lambda cache: _compare_next_values(cache, experiments.run_double_q(cache), DOUBLE_Q),
        make_relation_description("target"),
        tolerance=1e-3,
        events=(CRITIC_LOSS,),
    ),
    Probe(
        "dqn.target_by_default",
        "Which next value is used by default?",
        f"{DQN_ALGORITHM}: the largest of the target network",
        "value target in the middle of episodes, in units of return, in the first updates",
        _measure_default_targets,
        make_relation_description("target"),
        tolerance=1e-3,
        part=SETTINGS,
    ),
    CRITIC_PROBES.build_move_probe(experiments.run_moving_target),
    critics.make_target_move_probe(
        "dqn.partial_target_update",
        "How far does each array of the target network move to the online one, at "
        f"tau={experiments.SOFT_UPDATE_TAU}?",
        f"{DQN_ALGORITHM} copies it; a share tau as in Lillicrap et al. 2016 (arXiv:1509.02971)",
        _measure_soft_update,
        critics.list_target_arrays("dqn"),
    ),
)
