"""Reading answers off PPO's trainings, and the advantages that their rollouts should have.

Rollouts are numbered from 0; `step` is always an optimiser step of which gradients were kept.
"""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.probes import formulas
from harness.probes.contract import Parameters, Step
from harness.probes.lab import Run
from harness.probes.networks import TANH, output, output_gradient
from harness.probes.ppo.trainings import GAMMA, LAMBDA
from harness.probes.probe import Measurement, Unmeasured
from harness.probes.readings import together
from harness.probes.results import Array, Axis
from harness.probes.world import TERMINATED, Transition

BOTH = {"policy", "value"}
"""Networks that learn from a minibatch."""


def updates(run: Run) -> list[tuple[Step, ...]]:
    """Optimiser steps by minibatch: one, or two where policy and value have optimisers apart."""
    return run.once("ppo updates", lambda: _updates(run))


def _updates(run: Run) -> list[tuple[Step, ...]]:
    found: list[tuple[Step, ...]] = []
    for step in run.record.steps:
        last = found[-1] if found else ()
        moved = {network for earlier in last for network in earlier.networks}
        if moved and moved < BOTH and set(step.networks) == BOTH - moved:
            found[-1] = (*last, step)
        else:
            found.append((step,))
    return found


def gradient_steps(run: Run) -> list[Step]:
    """One step per minibatch, of both networks."""
    return run.once("ppo steps", lambda: [functools.reduce(together, u) for u in updates(run)])


def kept(run: Run, number: int) -> Step:
    """An optimiser step of which gradients were kept.

    Raises:
        Unmeasured: There were fewer.
    """
    steps = [step for step in gradient_steps(run) if step.before]
    if number >= len(steps):
        raise Unmeasured(f"its optimiser took only {len(steps)} steps")
    return steps[number]


def rollouts(run: Run) -> list[tuple[int, Mapping[str, NDArray[Any]]]]:
    """Numbers of the rollouts that were learned from, and what was stored of each.

    Raises:
        Unmeasured: What was stored was not read.
    """
    if not run.record.rollouts:
        raise Unmeasured("what it stores was not read before it learned from it")
    return list(enumerate(run.record.rollouts))


def weights_told(run: Run, rollout: int = 0) -> Array | None:
    """What advantages of a rollout became before it was cut, float[steps]; None where unchanged."""
    kept = run.record.rollouts[rollout] if run.record.rollouts else run.record.stored
    return kept.get("advantage_weights")


def advantage_weights(run: Run, rollout: int = 0) -> Array:
    """What weighs the steps of a rollout in the policy loss, float[steps]: stored advantages."""
    told = weights_told(run, rollout)
    if told is not None:
        return told
    return run.record.stored["advantages"] if rollout == 0 else advantages(run, rollout)


def later(run: Run) -> list[Step]:
    """All kept optimiser steps but the first."""
    return [step for step in gradient_steps(run) if step.before][1:]


def rows_of(run: Run, step: Step, rollout: int = 0) -> NDArray[np.intp]:
    """Which transitions of the rollout a minibatch holds.

    Raises:
        Unmeasured: The policy saw something else.
    """
    seen = observations(run, rollout)
    rows = [np.flatnonzero((seen == row).all(axis=1)) for row in step.observations]
    if any(len(found) != 1 for found in rows):
        raise Unmeasured("the policy was not shown transitions of the rollout")
    return np.concatenate(rows) if rows else np.empty(0, dtype=np.intp)


def start(run: Run, rollout: int = 0) -> Parameters:
    """Weights that collected a rollout."""
    if rollout == 0:
        return run.weights
    collected = (rollout + 1) * run.hyperparameters.rollout_steps
    return next(s.before for s in run.record.steps if s.before and s.env_steps == collected)


def transitions(run: Run, rollout: int = 0) -> tuple[Transition, ...]:
    """All steps of a rollout."""
    size = run.hyperparameters.rollout_steps
    return run.transitions[rollout * size : (rollout + 1) * size]


def observations(run: Run, rollout: int = 0) -> Array:
    """Of a rollout, float[steps, observations]."""
    return np.array([t.observation for t in transitions(run, rollout)])


def gaussian(weights: Parameters, rows: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the policy, float[rows, actions]."""
    mean = output(weights, "policy", rows, TANH)
    return mean, np.exp(weights["policy.log_std"]) * np.ones_like(mean)


def samples(run: Run, rollout: int = 0) -> Array:
    """The Gaussian sample behind each action: mean plus dictated noise, float[steps, actions]."""
    mean, std = gaussian(start(run, rollout), observations(run, rollout))
    first = rollout * len(mean)
    noise = run.experiment.dictation.acting_noise[first : first + len(mean)]
    return np.asarray(mean + std * noise)


def values(weights: Parameters, rows: Array) -> Array:
    """Predictions of the value network, float[rows]."""
    return output(weights, "value", rows, TANH)[:, 0]


def log_ratio(run: Run, step: Step, rollout: int = 0) -> Array:
    """Log of new over old probability of the minibatch's actions at that step, float[rows]."""
    rows, x = rows_of(run, step, rollout), samples(run, rollout)
    seen = observations(run, rollout)[rows]
    new = formulas.normal_log_prob(x[rows], *gaussian(step.before, seen))
    return np.asarray(new - formulas.normal_log_prob(x[rows], *gaussian(start(run, rollout), seen)))


def surrogate_slope(run: Run, step: Step, rollout: int = 0) -> tuple[Array, float]:
    """Derivative of the objective by each row's log ratio, times the rows, as upstream has it.

    Also returned is the share of the gradients that has its direction.
    """
    rows = rows_of(run, step, rollout)
    return slope_of(step, observations(run, rollout)[rows], samples(run, rollout)[rows])


def slope_of(step: Step, seen: Array, x: Array) -> tuple[Array, float]:
    """The same for observations and samples of a minibatch.

    The gradient by a row's mean is that derivative times (x - mean) / std^2.
    """
    mean, std = gaussian(step.before, seen)
    direction = (x - mean) / std**2
    pull = output_gradient(step.gradients, step.before, "policy", seen, TANH)
    share = (direction * pull).sum(axis=1) / (direction**2).sum(axis=1)
    rest = np.abs(pull - share[:, None] * direction).max() / np.abs(pull).max()
    return np.asarray(-share * len(seen)), 1 - float(rest)


def copy_samples(run: Run) -> Array:
    """The Gaussian sample behind each action of several copies, float[steps, actions]."""
    mean, std = gaussian(run.weights, np.array([t.observation for t in run.transitions]))
    noise = run.experiment.dictation.batch_noise[: run.experiment.n_envs]
    return np.asarray(mean + std * np.resize(noise, mean.shape))


def value_slope(run: Run, step: Step, rollout: int = 0) -> Array:
    """Derivative of the loss by each row's value prediction, times the rows."""
    seen = observations(run, rollout)[rows_of(run, step, rollout)]
    pull = output_gradient(step.gradients, step.before, "value", seen, TANH)
    return np.asarray(pull[:, 0] * len(seen))


def value_factor(run: Run) -> Array:
    """Slope of the value loss by prediction minus stored return, per row of the first minibatch."""
    step = kept(run, 0)
    rows = rows_of(run, step)
    apart = values(step.before, observations(run)[rows]) - run.record.stored["returns"][rows]
    far = np.abs(apart) > 0.2 * np.abs(apart).max()
    return np.asarray(value_slope(run, step)[far] / apart[far])


def ordered(value: Array, expected: Array, axis: Axis, others: Mapping[str, Array]) -> Measurement:
    """A measurement whose rows are sorted along its axis."""
    order = np.argsort(axis.values)
    sorted_axis = Axis(axis.label, axis.values[order])
    sorted_others = {name: array[order] for name, array in others.items()}
    return Measurement(value[order], expected[order], sorted_axis, sorted_others)


def advantages(
    run: Run,
    rollout: int = 0,
    **otherwise: Any,
) -> Array:
    """Generalised advantage estimates of a rollout of one environment.

    Args:
        run: The training.
        rollout: Which rollout.
        otherwise: Further arguments of `advantages_of`.
    """
    return advantages_of(start(run, rollout), transitions(run, rollout), **otherwise)


def advantages_of(
    weights: Parameters,
    steps: tuple[Transition, ...],
    lam: float = LAMBDA,
    gamma: float = GAMMA,
    bootstraps: bool = False,
    runs_on: bool = False,
) -> Array:
    """Generalised advantage estimates of steps that follow each other, float[steps].

    Args:
        weights: Of the value network.
        steps: Of one environment.
        lam: Weight of longer sums.
        gamma: Discount factor.
        bootstraps: Whether the value after the end of the task counts: it should not.
        runs_on: Whether sums run on across ends: they should not.
    """
    ends = np.array([t.end for t in steps])
    return formulas.gae(
        np.array([t.reward for t in steps]),
        values(weights, np.array([t.observation for t in steps])),
        values(weights, np.array([t.next_observation for t in steps])),
        np.where(bootstraps, 0.0, ends == TERMINATED),
        np.where(runs_on, 0.0, ends > 0),
        gamma,
        lam,
    )
