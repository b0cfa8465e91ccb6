"""Trainings that PPO's probes read."""

import dataclasses
from typing import Any

import numpy as np

from harness.probes import setups
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.networks import single
from harness.probes.setups import HIGH, LOW, NARROW_HIGH, NARROW_LOW
from harness.probes.world import TERMINATED, TRUNCATED, Dictation

PAPER = "Schulman et al. 2017 (arXiv:1707.06347)"
GAE = "Schulman et al. 2016 (arXiv:1506.02438), eq. 16"
CODE = "code of PPO's authors (openai/baselines, ppo2)"
ROLLOUT, MINIBATCH = 24, 12
GAMMA, LAMBDA, CLIP, VF, ENTROPY = 0.99, 0.95, 0.2, 0.5, 0.1
COPIES = 4
ANNEALED_EPOCHS = 5
LONG_MINIBATCH, LONG_MINIBATCHES = 36, 6
FAR = 10.0
"""Standard normal numbers that take samples beyond all bounds."""
AWAY = np.float32(5.0)
"""Where values lie in the long training."""
LOUD = 1e3
"""What rewards are multiplied by to see whether gradients are clipped."""
SNAPSHOTS = 40
"""Optimiser steps to keep in full: two per minibatch where both networks have their own."""
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
"""Settings that frameworks take, with large steps, so that the second differs."""


def update(lab: Lab) -> Run:
    """Two epochs of two minibatches; episodes end, but not by time limits."""
    return lab.run(experiment(lab, "update"))


def wide(lab: Lab) -> Run:
    """Actions from -1 to 3 and from -2 to 2; the policy does not learn."""
    world = setups.dictation(lab, ROLLOUT, LOW, HIGH, ends=False)
    return lab.run(experiment(lab, "wide", world, learning_rate=setups.NO_LEARNING))


def beyond(lab: Lab, narrow: bool = False) -> Run:
    """Samples far beyond every bound, of a wide or of a narrow range; no learning."""
    low, high = (NARROW_LOW, NARROW_HIGH) if narrow else (LOW, HIGH)
    world = setups.dictation(lab, ROLLOUT, low, high, ends=False)
    spread = np.linspace(-FAR, FAR, ROLLOUT)
    world.acting_noise[:] = single(np.stack([spread, np.roll(spread, 5)], axis=1))
    name = "narrow" if narrow else "beyond"
    return lab.run(experiment(lab, name, world, learning_rate=setups.NO_LEARNING))


def rollouts(lab: Lab) -> Run:
    """Three rollouts of two minibatches, each learned from once."""
    world = _terminating(lab, 3 * ROLLOUT)
    return lab.run(experiment(lab, "rollouts", world, epochs=1))


def truncated(lab: Lab) -> Run:
    """All episodes end by time limits."""
    world = setups.dictation(lab, ROLLOUT)
    world.ends[:] = np.where(world.ends > 0, TRUNCATED, 0)
    return lab.run(experiment(lab, "truncated", world))


def copies(lab: Lab) -> Run:
    """Some copies of the environment."""
    return lab.run(experiment(lab, "copies", n_envs=COPIES))


def normalising(lab: Lab) -> Run:
    """Advantages are standardised."""
    return lab.run(experiment(lab, "normalising", normalize_advantage=True))


def long(lab: Lab) -> Run:
    """Many minibatches of one epoch, so that there are ratios of all sizes.

    Changes of values are clipped where the framework takes that.
    """
    takes = lab.accepts("ppo", {"value_clip_range": CLIP}, LONG_MINIBATCHES * LONG_MINIBATCH)
    return lab.run(_long(lab, CLIP if takes else None))


def long_and_clipped(lab: Lab) -> Run:
    """The same with clipped changes of values.

    Raises:
        SpecError: The framework refuses that.
    """
    return lab.run(_long(lab, CLIP))


def _long(lab: Lab, value_clip_range: float | None) -> Experiment:
    # Values lie so far from 0 that a small error in one takes it across the bounds of its change;
    # rewards are what leaves errors and advantages as they would be around 0.
    rollout = LONG_MINIBATCHES * LONG_MINIBATCH
    changes: dict[str, Any] = {
        "rollout_steps": rollout,
        "minibatch_size": LONG_MINIBATCH,
        "epochs": 1,
        "learning_rate": 0.006,
        "value_clip_range": value_clip_range,
    }
    world = _terminating(lab, rollout)
    world.rewards[:] += AWAY * (1 - GAMMA * (world.ends == 0))
    name = "long" if value_clip_range else "long, values not clipped"
    made = experiment(lab, name, world, **changes)
    weights = {**made.weights, "value.out.bias": made.weights["value.out.bias"] + AWAY}
    return dataclasses.replace(made, weights=weights)


def entropic(lab: Lab) -> Run:
    """With an entropy bonus."""
    return lab.run(experiment(lab, "entropy", ent_coef=ENTROPY))


def loud(lab: Lab) -> Run:
    """Huge rewards, and the framework's own clipping of gradients."""
    world = _terminating(lab, ROLLOUT)
    world.rewards[:] *= LOUD
    return lab.run(experiment(lab, "loud", world, own=("max_grad_norm",)))


def whole_batches(lab: Lab, **changes: Any) -> Run:
    """Four passes over one minibatch; with `target_kl`, until the divergence is too large."""
    settings: dict[str, Any] = {"minibatch_size": ROLLOUT, "epochs": 4, **changes}
    name = ", ".join(f"{field}={value}" for field, value in changes.items())
    return lab.run(experiment(lab, f"whole batches {name}", **settings))


def early(lab: Lab) -> Run:
    """Several minibatches, and a limit of the divergence that is exceeded at once."""
    return lab.run(experiment(lab, "early", epochs=4, target_kl=1e-4))


def minibatches(lab: Lab, rollout: int, size: int) -> Run:
    """A rollout that is cut into minibatches of some size; it ends together with an episode."""
    world = _terminating(lab, rollout)
    world.ends[-1] = TERMINATED
    changes: dict[str, Any] = {"rollout_steps": rollout, "minibatch_size": size}
    return lab.run(experiment(lab, f"minibatches {rollout} {size}", world, **changes))


def annealing(lab: Lab, field: str) -> Run:
    """Four rollouts over which something is annealed; some passes over each, as one minibatch."""
    rollout = 48
    world = _terminating(lab, 4 * rollout)
    changes: dict[str, Any] = {
        "rollout_steps": rollout,
        "minibatch_size": rollout,
        "epochs": ANNEALED_EPOCHS,
        "learning_rate": 0.006,
        field: "linear",
    }
    return lab.run(experiment(lab, f"annealing {field}", world, **changes))


def counting(lab: Lab) -> Run:
    """As many steps as two and a half rollouts."""
    return lab.run(experiment(lab, "counts", _terminating(lab, 60)))


def own(lab: Lab, number: int = 0) -> Run:
    """A short training with the framework's own settings and networks."""
    return lab.run(setups.own(lab, "ppo", number))


def experiment(
    lab: Lab,
    name: str,
    world: Dictation | None = None,
    own: tuple[str, ...] = (),
    n_envs: int = 1,
    **changes: Any,
) -> Experiment:
    """PPO from random weights.

    Args:
        lab: Has the seed.
        name: Of the experiment.
        world: What is dictated; one rollout unless given.
        own: Hyperparameters that stay as the framework has them.
        n_envs: Copies of the environment.
        changes: Hyperparameters that differ from `PLAIN`.
    """
    settings = {k: v for k, v in (plain(lab) | changes).items() if k not in own}
    world = _terminating(lab, settings["rollout_steps"]) if world is None else world
    # Numbers that are drawn with replacement come twice, as permutations' do not.
    world = dataclasses.replace(world, repeated=2)
    weights = setups.weights(lab, "ppo")
    return Experiment(f"ppo {name}", "ppo", world, settings, weights, SNAPSHOTS, n_envs)


def plain(lab: Lab) -> dict[str, Any]:
    """`PLAIN`, with standardised advantages where a framework has no others."""

    def choose() -> dict[str, Any]:
        standardised = PLAIN | {"normalize_advantage": True}
        return PLAIN if lab.accepts("ppo", PLAIN, ROLLOUT) else standardised

    return lab.once("ppo plain", choose)


def _terminating(lab: Lab, steps: int) -> Dictation:
    world = setups.dictation(lab, steps)
    world.ends[:] = np.where(world.ends > 0, TERMINATED, 0)
    return world
