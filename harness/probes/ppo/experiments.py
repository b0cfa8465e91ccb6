"""Trainings that PPO's probes read."""

import dataclasses
from typing import Any

import numpy as np

from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED, ScriptedData
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiment_setups import NARROW_HIGH, NARROW_LOW, WIDE_HIGH, WIDE_LOW
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment, ProbeRun
from parallax.harness.probes.reference_networks import round_to_float32

PPO_PAPER = "Schulman et al. 2017 (arXiv:1707.06347)"
GAE_PAPER = "Schulman et al. 2016 (arXiv:1506.02438), eq. 16"
PPO_CODE = "code of PPO's authors (openai/baselines, ppo2)"
ROLLOUT_STEPS, MINIBATCH_SIZE = 24, 12
GAMMA, LAMBDA, CLIP, VALUE_COEFFICIENT, ENTROPY_COEFFICIENT = 0.99, 0.95, 0.2, 0.5, 0.1
N_ENVS = 4
ANNEALED_EPOCHS = 5
LONG_MINIBATCH, LONG_MINIBATCHES = 36, 6
MAX_NOISE = 10.0
"""Standard normal numbers that take samples beyond all bounds."""
OBSERVATION_SHIFT = np.float32(5.0)
"""Where values lie in the long training."""
REWARD_SCALE = 1e3
"""What rewards are multiplied by to see whether gradients are clipped."""
SNAPSHOTS = 40
"""Optimiser steps to keep in full: two per minibatch where both networks have their own."""
BASE_SETTINGS: dict[str, Any] = {
    "rollout_steps": ROLLOUT_STEPS,
    "minibatch_size": MINIBATCH_SIZE,
    "epochs": 2,
    "learning_rate": 0.02,
    "learning_rate_schedule": "constant",
    "gamma": GAMMA,
    "gae_lambda": LAMBDA,
    "clip_range": CLIP,
    "value_clip_range": None,
    "normalize_advantage": False,
    "ent_coef": 0.0,
    "vf_coef": VALUE_COEFFICIENT,
    "max_grad_norm": None,
}
"""Settings that frameworks take, with large steps, so that the second differs."""


def run_update(lab: ExperimentCache) -> ProbeRun:
    """Two epochs of two minibatches; episodes end, but not by time limits."""
    return lab.run(build_experiment(lab, "update"))


def run_wide_bounds(lab: ExperimentCache) -> ProbeRun:
    """Actions from -1 to 3 and from -2 to 2; the policy does not learn."""
    world = experiment_setups.make_continuous_data(
        lab, ROLLOUT_STEPS, WIDE_LOW, WIDE_HIGH, ends=False
    )
    return lab.run(
        build_experiment(lab, "wide", world, learning_rate=experiment_setups.NO_LEARNING)
    )


def run_out_of_bounds(lab: ExperimentCache, narrow: bool = False) -> ProbeRun:
    """Samples far beyond every bound, of a wide or of a narrow range; no learning."""
    low, high = (NARROW_LOW, NARROW_HIGH) if narrow else (WIDE_LOW, WIDE_HIGH)
    world = experiment_setups.make_continuous_data(lab, ROLLOUT_STEPS, low, high, ends=False)
    spread = np.linspace(-MAX_NOISE, MAX_NOISE, ROLLOUT_STEPS)
    world.acting_noise[:] = round_to_float32(np.stack([spread, np.roll(spread, 5)], axis=1))
    name = "narrow" if narrow else "beyond"
    return lab.run(build_experiment(lab, name, world, learning_rate=experiment_setups.NO_LEARNING))


def run_three_rollouts(lab: ExperimentCache) -> ProbeRun:
    """Three rollouts of two minibatches, each learned from once."""
    world = _make_terminating_data(lab, 3 * ROLLOUT_STEPS)
    return lab.run(build_experiment(lab, "rollouts", world, epochs=1))


def run_truncated_episodes(lab: ExperimentCache) -> ProbeRun:
    """All episodes end by time limits."""
    world = experiment_setups.make_continuous_data(lab, ROLLOUT_STEPS)
    world.ends[:] = np.where(world.ends > 0, TRUNCATED, 0)
    return lab.run(build_experiment(lab, "truncated", world))


def run_parallel_envs(lab: ExperimentCache) -> ProbeRun:
    """Some copies of the environment."""
    return lab.run(build_experiment(lab, "copies", n_envs=N_ENVS))


def run_normalized_advantages(lab: ExperimentCache) -> ProbeRun:
    """Advantages are standardised."""
    return lab.run(build_experiment(lab, "normalising", normalize_advantage=True))


def run_many_minibatches(lab: ExperimentCache) -> ProbeRun:
    """Many minibatches of one epoch, so that there are ratios of all sizes.

    Changes of values are clipped where the framework takes that.
    """
    takes = lab.accepts_settings(
        "ppo", {"value_clip_range": CLIP}, LONG_MINIBATCHES * LONG_MINIBATCH
    )
    return lab.run(_build_many_minibatches_experiment(lab, CLIP if takes else None))


def run_clipped_values(lab: ExperimentCache) -> ProbeRun:
    """The same with clipped changes of values.

    Raises:
        SpecError: The framework refuses that.
    """
    return lab.run(_build_many_minibatches_experiment(lab, CLIP))


def _build_many_minibatches_experiment(
    lab: ExperimentCache, value_clip_range: float | None
) -> ProbeExperiment:
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
    world = _make_terminating_data(lab, rollout)
    world.rewards[:] += OBSERVATION_SHIFT * (1 - GAMMA * (world.ends == 0))
    name = "long" if value_clip_range else "long, values not clipped"
    made = build_experiment(lab, name, world, **changes)
    weights = {**made.weights, "value.out.bias": made.weights["value.out.bias"] + OBSERVATION_SHIFT}
    return dataclasses.replace(made, weights=weights)


def run_entropy_bonus(lab: ExperimentCache) -> ProbeRun:
    """With an entropy bonus."""
    return lab.run(build_experiment(lab, "entropy", ent_coef=ENTROPY_COEFFICIENT))


def run_huge_rewards(lab: ExperimentCache) -> ProbeRun:
    """Huge rewards, and the framework's own clipping of gradients."""
    world = _make_terminating_data(lab, ROLLOUT_STEPS)
    world.rewards[:] *= REWARD_SCALE
    return lab.run(build_experiment(lab, "loud", world, library_defaults=("max_grad_norm",)))


def run_full_batches(lab: ExperimentCache, **changes: Any) -> ProbeRun:
    """Four passes over one minibatch; with `target_kl`, until the divergence is too large."""
    settings: dict[str, Any] = {"minibatch_size": ROLLOUT_STEPS, "epochs": 4, **changes}
    name = ", ".join(f"{field}={value}" for field, value in changes.items())
    return lab.run(build_experiment(lab, f"whole batches {name}", **settings))


def run_early_stopping(lab: ExperimentCache) -> ProbeRun:
    """Several minibatches, and a limit of the divergence that is exceeded at once."""
    return lab.run(build_experiment(lab, "early", epochs=4, target_kl=1e-4))


def run_minibatches(lab: ExperimentCache, rollout: int, size: int) -> ProbeRun:
    """A rollout that is cut into minibatches of some size; it ends together with an episode."""
    world = _make_terminating_data(lab, rollout)
    world.ends[-1] = TERMINATED
    changes: dict[str, Any] = {"rollout_steps": rollout, "minibatch_size": size}
    return lab.run(build_experiment(lab, f"minibatches {rollout} {size}", world, **changes))


def run_annealing(lab: ExperimentCache, field: str) -> ProbeRun:
    """Four rollouts over which something is annealed; some passes over each, as one minibatch."""
    rollout = 48
    world = _make_terminating_data(lab, 4 * rollout)
    changes: dict[str, Any] = {
        "rollout_steps": rollout,
        "minibatch_size": rollout,
        "epochs": ANNEALED_EPOCHS,
        "learning_rate": 0.006,
        field: "linear",
    }
    return lab.run(build_experiment(lab, f"annealing {field}", world, **changes))


def run_count_experiment(lab: ExperimentCache) -> ProbeRun:
    """As many steps as two and a half rollouts."""
    return lab.run(build_experiment(lab, "counts", _make_terminating_data(lab, 60)))


def run_library_defaults(lab: ExperimentCache, number: int = 0) -> ProbeRun:
    """A short training with the framework's own settings and networks."""
    return lab.run(experiment_setups.build_defaults_experiment(lab, "ppo", number))


def build_experiment(
    lab: ExperimentCache,
    name: str,
    world: ScriptedData | None = None,
    library_defaults: tuple[str, ...] = (),
    n_envs: int = 1,
    **changes: Any,
) -> ProbeExperiment:
    """PPO from random weights.

    Args:
        lab: Has the seed.
        name: Of the experiment.
        world: What is dictated; one rollout unless given.
        library_defaults: Hyperparameters that stay as the framework has them.
        n_envs: Copies of the environment.
        changes: Hyperparameters that differ from `BASE_SETTINGS`.
    """
    settings = {
        k: v for k, v in (choose_base_settings(lab) | changes).items() if k not in library_defaults
    }
    world = _make_terminating_data(lab, settings["rollout_steps"]) if world is None else world
    # Numbers that are drawn with replacement come twice, as permutations' do not.
    world = dataclasses.replace(world, draw_repeats=2)
    weights = experiment_setups.make_weights(lab, "ppo")
    return ProbeExperiment(f"ppo {name}", "ppo", world, settings, weights, SNAPSHOTS, n_envs)


def choose_base_settings(lab: ExperimentCache) -> dict[str, Any]:
    """`BASE_SETTINGS`, with standardised advantages where a framework has no others."""

    def choose() -> dict[str, Any]:
        standardised = BASE_SETTINGS | {"normalize_advantage": True}
        return (
            BASE_SETTINGS
            if lab.accepts_settings("ppo", BASE_SETTINGS, ROLLOUT_STEPS)
            else standardised
        )

    return lab.get_or_compute("ppo plain", choose)


def _make_terminating_data(lab: ExperimentCache, steps: int) -> ScriptedData:
    world = experiment_setups.make_continuous_data(lab, steps)
    world.ends[:] = np.where(world.ends > 0, TERMINATED, 0)
    return world
