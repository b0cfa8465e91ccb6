"""Measurements from runs of PPO, and the advantages that their rollouts should have.

Rollouts are numbered from 0; `step` is always an optimizer step whose gradients were saved.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness import formulas
from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.protocol import OptimizerStepRecord, Parameters
from parallax.harness.contract.probing.scripted_env import TERMINATED, ScriptedTransition
from parallax.harness.probes.experiments import ProbeRun, compute_once
from parallax.harness.probes.measurements import describe_observations, measure_misfit, merge_steps
from parallax.harness.probes.ppo.experiments import GAMMA, LAMBDA
from parallax.harness.probes.probe import ProbeMeasurement, UnmeasuredError
from parallax.harness.probes.reference_networks import TANH, compute_output, solve_output_gradient
from parallax.harness.probes.results import AnswerAxis

Rollout = tuple[Array, Array, Array, NDArray[np.int64]]
"""Rewards, values, next values and ends of each step, float[steps] or [steps, copies]."""


@dataclasses.dataclass(frozen=True)
class Minibatch:
    """What a loss of a minibatch is computed from, float[rows].

    Attributes:
        goal: Advantages, or returns, and those that are taken by mistake, by name.
        new: Log-probabilities, or values, of the trained network.
        old: The same of the network that collected the rollout; with mistakes as well.
    """

    goal: Mapping[str, Array]
    new: Array
    old: Mapping[str, Array]


MIN_MISSING, MAX_MISFIT = 3, 5e-3
"""Fewest transitions without a pull that are described, and the largest share that is rounding."""
RENEWED_ADVANTAGES = "those computed anew with the values of the epoch's start"
BOTH_NETWORKS = {"policy", "value"}
"""Networks that learn from a minibatch."""


@compute_once
def list_updates(run: ProbeRun) -> list[tuple[OptimizerStepRecord, ...]]:
    """Return optimizer steps by minibatch: two if policy and value have separate optimizers."""
    found: list[tuple[OptimizerStepRecord, ...]] = []
    for step in run.record.steps:
        last = found[-1] if found else ()
        moved = {network for earlier in last for network in earlier.networks}
        if moved and moved < BOTH_NETWORKS and set(step.networks) == BOTH_NETWORKS - moved:
            found[-1] = (*last, step)
        else:
            found.append((step,))
    return found


@compute_once
def list_gradient_steps(run: ProbeRun) -> list[OptimizerStepRecord]:
    """Return one merged step of both networks per minibatch."""
    return [functools.reduce(merge_steps, update) for update in list_updates(run)]


def get_snapshot_step(run: ProbeRun, number: int) -> OptimizerStepRecord:
    """Return an optimizer step whose gradients were saved.

    Raises:
        UnmeasuredError: There were fewer steps.
    """
    steps = [step for step in list_gradient_steps(run) if step.before]
    if number >= len(steps):
        raise UnmeasuredError(f"its optimizer took only {len(steps)} steps")
    return steps[number]


def describe_epochs(run: ProbeRun) -> str:
    """Return the numbers of epochs or minibatches of a rollout, if not as configured."""
    hp, steps = run.hyperparameters, list_gradient_steps(run)
    steps = [step for step in steps if step.env_steps == steps[0].env_steps]
    due = -(-hp.rollout_steps // hp.minibatch_size)
    each, rest = divmod(len(steps), hp.epochs)
    if not rest and each == due:
        return ""
    rows = [np.asarray(row, float) for step in steps[:due] for row in step.observations]
    known = {np.asarray(t.observation, float).tobytes() for t in get_rollout_transitions(run)}
    is_whole = len(rows) == hp.rollout_steps and {row.tobytes() for row in rows} == known
    if is_whole and not len(steps) % due:
        return f"epochs per rollout: {len(steps) // due} in place of {hp.epochs}"
    left = hp.rollout_steps - sum(len(step.observations) for step in steps[:each])
    if rest or each > due or left <= 0:
        return f"a rollout has {len(steps)} minibatches in place of {hp.epochs} epochs of {due}"
    words = f"{left} of {hp.rollout_steps} transitions are left out of it"
    return f"an epoch ends early, after {each} of {due} minibatches: {words}"


def list_rollouts(run: ProbeRun) -> list[tuple[int, Mapping[str, NDArray[Any]]]]:
    """Return the numbers of the rollouts and the arrays stored for each.

    Raises:
        UnmeasuredError: The stored arrays were not recorded.
    """
    if not run.record.rollouts:
        raise UnmeasuredError("what it stores was not read before it learned from it")
    return list(enumerate(run.record.rollouts))


def get_transformed_advantages(run: ProbeRun, rollout: int = 0) -> Array | None:
    """Return advantages as normalized over the whole rollout, float[steps], or None."""
    stored = run.record.rollouts[rollout] if run.record.rollouts else run.record.stored
    return stored.get("advantage_weights")


def get_advantage_weights(run: ProbeRun, rollout: int = 0) -> Array:
    """Return the weights of a rollout's steps in the policy loss, float[steps]."""
    transformed = get_transformed_advantages(run, rollout)
    if transformed is not None:
        return transformed
    return (
        run.record.stored["advantages"]
        if rollout == 0
        else compute_rollout_advantages(run, rollout)
    )


def list_later_steps(run: ProbeRun) -> list[OptimizerStepRecord]:
    """Return all saved optimizer steps but the first.

    Raises:
        UnmeasuredError: There are no others.
    """
    get_snapshot_step(run, 1)
    return [step for step in list_gradient_steps(run) if step.before][1:]


def find_rollout_rows(
    run: ProbeRun, step: OptimizerStepRecord, rollout: int = 0
) -> NDArray[np.intp]:
    """Return the rows of the rollout that a minibatch consists of.

    Raises:
        UnmeasuredError: The policy's inputs are not observations of the rollout.
    """
    seen = get_rollout_observations(run, rollout)
    rows = [np.flatnonzero((seen == row).all(axis=1)) for row in step.observations]
    if any(len(found) != 1 for found in rows):
        unknown = [o for o, at in zip(step.observations, rows, strict=True) if len(at) != 1]
        which = describe_observations(run, unknown)
        raise UnmeasuredError(f"the policy was not shown transitions of the rollout{which}")
    return np.concatenate(rows) if rows else np.empty(0, dtype=np.intp)


def get_rollout_weights(run: ProbeRun, rollout: int = 0) -> Parameters:
    """Return the weights that collected a rollout."""
    if rollout == 0:
        return run.weights
    collected = (rollout + 1) * run.hyperparameters.rollout_steps
    return next(s.before for s in run.record.steps if s.before and s.env_steps == collected)


def get_rollout_transitions(run: ProbeRun, rollout: int = 0) -> tuple[ScriptedTransition, ...]:
    """Return all steps of a rollout."""
    size = run.hyperparameters.rollout_steps
    return run.transitions[rollout * size : (rollout + 1) * size]


def get_rollout_observations(run: ProbeRun, rollout: int = 0) -> Array:
    """Return the observations of a rollout, float[steps, observations]."""
    return np.array([t.observation for t in get_rollout_transitions(run, rollout)])


def compute_policy_gaussian(weights: Parameters, rows: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of the policy, float[rows, actions]."""
    mean = compute_output(weights, "policy", rows, TANH)
    return mean, np.exp(weights["policy.log_std"]) * np.ones_like(mean)


def compute_samples(run: ProbeRun, rollout: int = 0) -> Array:
    """Return the sample of each action: mean plus std times noise, float[steps, actions]."""
    mean, std = compute_policy_gaussian(
        get_rollout_weights(run, rollout), get_rollout_observations(run, rollout)
    )
    first = rollout * len(mean)
    noise = run.experiment.scripted_data.acting_noise[first : first + len(mean)]
    return np.asarray(mean + std * noise)


def predict_values(weights: Parameters, rows: Array) -> Array:
    """Return predictions of the value network, float[rows]."""
    return compute_output(weights, "value", rows, TANH)[:, 0]


def compute_log_ratio(run: ProbeRun, step: OptimizerStepRecord, rollout: int = 0) -> Array:
    """Return the log ratio of new to old probability of a minibatch's actions, float[rows]."""
    policies = step.before, get_rollout_weights(run, rollout)
    new, old = (compute_log_probs(run, weights, rollout) for weights in policies)
    return (new - old)[find_rollout_rows(run, step, rollout)]


def compute_log_probs(run: ProbeRun, weights: Parameters, rollout: int = 0) -> Array:
    """Return the log-probabilities of a rollout's actions under a policy, float[steps]."""
    gaussian = compute_policy_gaussian(weights, get_rollout_observations(run, rollout))
    return formulas.compute_normal_log_prob(compute_samples(run, rollout), *gaussian)


def read_policy_minibatch(run: ProbeRun, step: OptimizerStepRecord, rollout: int = 0) -> Minibatch:
    """Return what the policy loss of a minibatch is computed from; see `Minibatch`."""
    rows, advantages = find_rollout_rows(run, step, rollout), get_advantage_weights(run, rollout)
    number, steps = count_minibatches_before(run, step)
    begun = number - number % -(-len(advantages) // run.hyperparameters.minibatch_size)
    policies = {
        "the policy that collected them": get_rollout_weights(run, rollout),
        "the policy of now, so that ratios are 1": step.before,
        "the policy of the epoch's start, renewed in each epoch": steps[begun].before,
        "the policy before the previous minibatch": steps[max(number - 1, 0)].before,
        "the policy of the first rollout": run.weights,
    }
    old = {n: compute_log_probs(run, weights, rollout) for n, weights in policies.items()}
    (due, *_) = old.values()
    mean, std = compute_policy_gaussian(
        get_rollout_weights(run, rollout), get_rollout_observations(run, rollout)
    )
    noise = np.resize(run.experiment.scripted_data.batch_noise, mean.shape)
    for name, drawn in (("newly sampled actions", noise), ("the policy's means", 0 * noise)):
        old[name] = formulas.compute_normal_log_prob(mean + std * drawn, mean, std)
    anew = compute_advantages(steps[begun].before, get_rollout_transitions(run, rollout))[rows]
    return Minibatch(
        list_other_numbers(advantages, rows, number - begun) | {RENEWED_ADVANTAGES: anew},
        compute_log_probs(run, step.before, rollout)[rows],
        {f"those of {name}": array[rows] for name, array in old.items()}
        | list_other_numbers(due, rows, number - begun),
    )


def count_minibatches_before(
    run: ProbeRun, step: OptimizerStepRecord
) -> tuple[int, list[OptimizerStepRecord]]:
    """Return how many steps of the same rollout were before a step, and all its steps."""
    steps = [s for s in list_gradient_steps(run) if s.before and s.env_steps == step.env_steps]
    return next(number for number, each in enumerate(steps) if each is step), steps


def list_other_numbers(array: Array, rows: NDArray[np.intp], number: int) -> dict[str, Array]:
    """Return the numbers of a minibatch, and those of other rows by mistake, float[rows], by name.

    Args:
        array: Numbers of a rollout.
        rows: Rows of the minibatch.
        number: Number of the minibatch in its epoch.
    """
    places = np.arange(len(rows))
    others = {
        "the minibatch": rows,
        "the steps before": rows - 1,
        "the steps after": rows + 1,
        "the rollout's rows in order, not shuffled as the other data": number * len(rows) + places,
        "the same places in the rollout's first rows": places,
    }
    return {f"those of {name}": array[at % len(array)] for name, at in others.items()}


def solve_surrogate_slope(
    run: ProbeRun, step: OptimizerStepRecord, rollout: int = 0
) -> tuple[Array, float]:
    """Return upstream's derivative of the objective by each row's log ratio, times the rows.

    The second value is the share of the gradients that has its direction.
    """
    rows = find_rollout_rows(run, step, rollout)
    return solve_minibatch_slope(
        step, get_rollout_observations(run, rollout)[rows], compute_samples(run, rollout)[rows]
    )


def solve_minibatch_slope(step: OptimizerStepRecord, seen: Array, x: Array) -> tuple[Array, float]:
    """Return the same as `solve_surrogate_slope` for observations and samples of a minibatch.

    The gradient by a row's mean is that derivative times (x - mean) / std^2.

    Raises:
        UnmeasuredError: The minibatch is empty.
    """
    if not len(seen):
        raise UnmeasuredError("its minibatch is empty")
    mean, std = compute_policy_gaussian(step.before, seen)
    direction = (x - mean) / std**2
    pull = solve_output_gradient(step.gradients, step.before, "policy", seen, TANH)
    share = (direction * pull).sum(axis=1) / (direction**2).sum(axis=1)
    rest = np.abs(pull - share[:, None] * direction).max() / max(np.abs(pull).max(), 1e-30)
    rest = rest if pull.any() else 1.0
    return np.asarray(-share * len(seen)), 1 - float(rest)


def describe_missing_pulls(slope: Array, due: Array) -> str:
    """Return advantages of which sign lack their slope at ratios of 1, whatever their factor."""
    if np.abs(slope).max() < MAX_MISFIT * np.abs(due).max():
        return ""
    for sign, which, why in ((1, "positive", "below"), (-1, "negative", "above")):
        mine = sign * due > 0
        if mine.all() or np.abs(slope[mine]).max(initial=0.0) > MAX_MISFIT * np.abs(slope).max():
            continue
        if mine.sum() >= MIN_MISSING and measure_misfit(due[~mine], slope[~mine]) < MAX_MISFIT:
            return f"{which} advantages have no pull, as if the ratio were cut {why} 1"
    return ""


def compute_parallel_samples(run: ProbeRun) -> Array:
    """Return the Gaussian sample of each action of parallel environments, float[steps, actions]."""
    mean, std = compute_policy_gaussian(
        run.weights, np.array([t.observation for t in run.transitions])
    )
    noise = run.experiment.scripted_data.batch_noise[: run.experiment.n_envs]
    return np.asarray(mean + std * np.resize(noise, mean.shape))


def solve_value_slope(run: ProbeRun, step: OptimizerStepRecord, rollout: int = 0) -> Array:
    """Return the derivative of the loss by each row's value prediction, times the rows."""
    seen = get_rollout_observations(run, rollout)[find_rollout_rows(run, step, rollout)]
    pull = solve_output_gradient(step.gradients, step.before, "value", seen, TANH)
    return np.asarray(pull[:, 0] * len(seen))


def measure_value_factor(run: ProbeRun) -> Array:
    """Return the value loss's derivative over the error, per row of the first minibatch."""
    step = get_snapshot_step(run, 0)
    rows = find_rollout_rows(run, step)
    apart = (
        predict_values(step.before, get_rollout_observations(run)[rows])
        - run.record.stored["returns"][rows]
    )
    far = np.abs(apart) > 0.2 * np.abs(apart).max()
    return np.asarray(solve_value_slope(run, step)[far] / apart[far])


def sort_measurement(
    value: Array, expected: Array, axis: AnswerAxis, others: Mapping[str, Array]
) -> ProbeMeasurement:
    """Return a measurement whose rows are sorted along its axis."""
    order = np.argsort(axis.values)
    sorted_axis = AnswerAxis(axis.label, axis.values[order])
    sorted_others = {name: array[order] for name, array in others.items()}
    return ProbeMeasurement(value[order], expected[order], sorted_axis, sorted_others)


def compute_rollout_advantages(run: ProbeRun, rollout: int = 0) -> Array:
    """Return generalised advantage estimates of a rollout of one environment, float[steps]."""
    return compute_advantages(
        get_rollout_weights(run, rollout), get_rollout_transitions(run, rollout)
    )


def compute_advantages(weights: Parameters, steps: Sequence[ScriptedTransition]) -> Array:
    """Return generalised advantage estimates of consecutive steps of one environment.

    Args:
        weights: Weights of the value network.
        steps: Steps of one environment.
    """
    rewards, values, next_values, ends = read_rollout(weights, steps)
    masks = (ends == TERMINATED).astype(float), (ends > 0).astype(float)
    return formulas.compute_gae(rewards, values, next_values, *masks, GAMMA, LAMBDA)


def read_rollout(weights: Parameters, steps: Sequence[ScriptedTransition]) -> Rollout:
    """Return what advantages of consecutive steps of one environment are computed from."""
    seen, after = (
        predict_values(weights, np.array([getattr(t, name) for t in steps]))
        for name in ("observation", "next_observation")
    )
    return np.array([t.reward for t in steps]), seen, after, np.array([t.end for t in steps])
