"""Trainings that PPO's probes read, and how answers are read off them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.probes import oracles, setups
from harness.probes.contract import Parameters, Step
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.networks import TANH, output, output_gradient
from harness.probes.probe import Unmeasured
from harness.probes.results import Array
from harness.probes.world import TERMINATED, Dictation

ROLLOUT, MINIBATCH = 24, 12
GAMMA, LAMBDA, CLIP, VF = 0.99, 0.95, 0.2, 0.5
PLAIN: dict[str, Any] = {
    "rollout_steps": ROLLOUT,
    "minibatch_size": MINIBATCH,
    "epochs": 2,
    "learning_rate": 0.02,
    "learning_rate_schedule": "constant",
    "gamma": GAMMA,
    "gae_lambda": LAMBDA,
    "clip_range": CLIP,
    "value_clip_range": None,
    "normalize_advantage": False,
    "ent_coef": 0.0,
    "vf_coef": VF,
    "max_grad_norm": None,
}
"""Settings that every framework takes, with large steps, so that the second differs."""


def experiment(
    name: str,
    rollouts: int = 1,
    world: Dictation | None = None,
    own: tuple[str, ...] = (),
    **changes: Any,
) -> Experiment:
    """PPO on some rollouts without time limits, from random weights.

    Args:
        name: Of the experiment.
        rollouts: How many.
        world: What is dictated; terminations only unless given.
        own: Hyperparameters that stay as the framework has them.
        changes: Hyperparameters that differ from `PLAIN`.
    """
    settings = {key: value for key, value in (PLAIN | changes).items() if key not in own}
    if world is None:
        world = setups.dictation(rollouts * settings["rollout_steps"])
        world.ends[:] = np.where(world.ends > 0, TERMINATED, 0)
    return Experiment(name, "ppo", world, settings, setups.weights("ppo"), snapshots=8)


def update(lab: Lab) -> Run:
    """Two epochs of two minibatches."""
    return lab.run(experiment("ppo update"))


def truncated(lab: Lab) -> Run:
    """A rollout with time limits."""
    return lab.run(experiment("ppo truncated", world=setups.dictation(ROLLOUT)))


def rows_of(run: Run, step: Step) -> NDArray[np.intp]:
    """Which transitions of the rollout a minibatch holds.

    Raises:
        Unmeasured: The policy saw something else.
    """
    seen = np.array([t.observation for t in run.transitions])
    rows = [np.flatnonzero((seen == row).all(axis=1)) for row in step.observations]
    if any(len(found) != 1 for found in rows):
        raise Unmeasured("the policy was not shown transitions of the rollout")
    return np.concatenate(rows) if rows else np.empty(0, dtype=np.intp)


def before_squashing(run: Run) -> Array:
    """The Gaussian sample behind each action: mean plus dictated noise, float[steps, actions]."""
    mean, std = gaussian(run.weights, observations(run))
    return mean + std * run.experiment.dictation.acting_noise[: len(mean)]


def gaussian(weights: Parameters, rows: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the policy, float[rows, actions]."""
    mean = output(weights, "policy", rows, TANH)
    return mean, np.exp(weights["policy.log_std"]) * np.ones_like(mean)


def observations(run: Run) -> Array:
    """Of the first rollout, float[steps, observations]."""
    steps = run.hyperparameters.rollout_steps
    return np.array([t.observation for t in run.transitions[:steps]])


def values(weights: Parameters, rows: Array) -> Array:
    """Predictions of the value network, float[rows]."""
    return output(weights, "value", rows, TANH)[:, 0]


def advantages(run: Run) -> Array:
    """Generalised advantage estimates of the first rollout."""
    transitions = run.transitions[: run.hyperparameters.rollout_steps]
    following = np.array([t.next_observation for t in transitions])
    ends = np.array([t.end for t in transitions])
    return oracles.gae(
        np.array([t.reward for t in transitions]),
        values(run.weights, observations(run)),
        values(run.weights, following),
        (ends == TERMINATED).astype(float),
        (ends > 0).astype(float),
        GAMMA,
        LAMBDA,
    )


def log_ratio(run: Run, step: Step) -> Array:
    """Log of new over old probability of the minibatch's actions at that step, float[rows]."""
    rows, x = rows_of(run, step), before_squashing(run)
    seen = observations(run)[rows]
    new = oracles.normal_log_prob(x[rows], *gaussian(step.before, seen))
    return np.asarray(new - oracles.normal_log_prob(x[rows], *gaussian(run.weights, seen)))


def surrogate_slope(run: Run, step: Step) -> Array:
    """Derivative of the objective by each row's log ratio, times the rows, as upstream has it.

    The gradient by a row's mean is that derivative times (x - mean) / std^2.
    """
    rows, x = rows_of(run, step), before_squashing(run)
    seen = observations(run)[rows]
    mean, std = gaussian(step.before, seen)
    direction = (x[rows] - mean) / std**2
    pull = output_gradient(step.gradients, step.before, "policy", seen, TANH)
    share = (direction * pull).sum(axis=1) / (direction**2).sum(axis=1)
    return np.asarray(-share * len(rows))


def value_slope(run: Run, step: Step) -> Array:
    """Derivative of the loss by each row's value prediction, times the rows."""
    seen = observations(run)[rows_of(run, step)]
    pull = output_gradient(step.gradients, step.before, "value", seen, TANH)
    return np.asarray(pull[:, 0] * len(seen))


def value_factor(run: Run) -> Array:
    """Slope of the value loss by prediction minus stored return, per row of the first minibatch."""
    step = kept(run, 0)
    rows = rows_of(run, step)
    apart = values(step.before, observations(run)[rows]) - run.record.stored["returns"][rows]
    far = np.abs(apart) > 0.2 * np.abs(apart).max()
    return np.asarray(value_slope(run, step)[far] / apart[far])


def kept(run: Run, number: int) -> Step:
    """An optimiser step of which gradients were kept.

    Raises:
        Unmeasured: There were fewer.
    """
    steps = [step for step in run.record.steps if step.before]
    if number >= len(steps):
        raise Unmeasured(f"its optimiser took only {len(steps)} steps")
    return steps[number]
