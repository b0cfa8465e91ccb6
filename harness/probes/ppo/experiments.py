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
"""Standard normal numbers with which samples exceed all bounds."""
OBSERVATION_SHIFT = np.float32(5.0)
"""Shift of values in the long training."""
SNAPSHOTS = 40
"""Optimizer steps to save in full: two per minibatch if both networks have their own optimizer."""
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
    "target_kl": None,
}
"""Settings that frameworks accept, with large steps, so that the second one differs."""


def run_update(cache: ExperimentCache) -> ProbeRun:
    """Run two epochs of two minibatches; episodes terminate, none is truncated."""
    return cache.run(build_experiment(cache, "update"))


def run_wide_bounds(cache: ExperimentCache) -> ProbeRun:
    """Run a frozen policy with actions from -1 to 3 and from -2 to 2."""
    world = experiment_setups.make_continuous_data(
        cache, ROLLOUT_STEPS, WIDE_LOW, WIDE_HIGH, ends=False
    )
    return cache.run(
        build_experiment(cache, "wide", world, learning_rate=experiment_setups.NO_LEARNING)
    )


def run_out_of_bounds(cache: ExperimentCache, narrow: bool = False) -> ProbeRun:
    """Run a frozen policy with samples far beyond the bounds of a wide or a narrow range."""
    low, high = (NARROW_LOW, NARROW_HIGH) if narrow else (WIDE_LOW, WIDE_HIGH)
    world = experiment_setups.make_continuous_data(cache, ROLLOUT_STEPS, low, high, ends=False)
    spread = np.linspace(-MAX_NOISE, MAX_NOISE, ROLLOUT_STEPS)
    world.acting_noise[:] = round_to_float32(np.stack([spread, np.roll(spread, 5)], axis=1))
    name = "narrow" if narrow else "beyond"
    return cache.run(
        build_experiment(cache, name, world, learning_rate=experiment_setups.NO_LEARNING)
    )


def run_three_rollouts(cache: ExperimentCache) -> ProbeRun:
    """Run three rollouts of two minibatches with one epoch each."""
    world = _make_terminating_data(cache, 3 * ROLLOUT_STEPS)
    return cache.run(build_experiment(cache, "rollouts", world, epochs=1))


def run_truncated_episodes(cache: ExperimentCache) -> ProbeRun:
    """Run a training in which all episodes are truncated."""
    world = experiment_setups.make_continuous_data(cache, ROLLOUT_STEPS)
    world.ends[:] = np.where(world.ends > 0, TRUNCATED, 0)
    return cache.run(build_experiment(cache, "truncated", world))


def run_parallel_envs(cache: ExperimentCache) -> ProbeRun:
    """Run a training on parallel environments."""
    return cache.run(build_experiment(cache, "copies", n_envs=N_ENVS))


def run_parallel_time_limits(cache: ExperimentCache) -> ProbeRun:
    """Run parallel environments of which some terminate and some are truncated."""
    world = experiment_setups.make_continuous_data(cache, 2 * ROLLOUT_STEPS)
    settings: dict[str, Any] = {"rollout_steps": 2 * ROLLOUT_STEPS, "minibatch_size": ROLLOUT_STEPS}
    return cache.run(build_experiment(cache, "limited copies", world, n_envs=N_ENVS, **settings))


def run_normalized_advantages(cache: ExperimentCache) -> ProbeRun:
    """Run a training with normalized advantages."""
    return cache.run(build_experiment(cache, "normalising", normalize_advantage=True))


def run_equal_advantages(cache: ExperimentCache) -> ProbeRun:
    """Run one update whose advantages are all 0 and are normalized."""
    world = _make_terminating_data(cache, ROLLOUT_STEPS)
    world.rewards[:] = 0.0
    changes: dict[str, Any] = {
        "normalize_advantage": True,
        "epochs": 1,
        "minibatch_size": ROLLOUT_STEPS,
    }
    made = build_experiment(cache, "equal advantages", world, **changes)
    values = {name: 0 * array for name, array in made.weights.items() if name.startswith("value.")}
    return cache.run(dataclasses.replace(made, weights={**made.weights, **values}))


def run_many_minibatches(cache: ExperimentCache) -> ProbeRun:
    """Run many minibatches of one epoch, so that ratios of all sizes occur.

    Changes of values are clipped if the framework supports it.
    """
    takes = cache.accepts_settings(
        "ppo", {"value_clip_range": CLIP}, LONG_MINIBATCHES * LONG_MINIBATCH
    )
    return cache.run(_build_many_minibatches_experiment(cache, CLIP if takes else None))


def run_clipped_values(cache: ExperimentCache) -> ProbeRun:
    """Run the same with clipped changes of values.

    Raises:
        SpecError: The framework refuses value clipping.
    """
    return cache.run(_build_many_minibatches_experiment(cache, CLIP))


def _build_many_minibatches_experiment(
    cache: ExperimentCache, value_clip_range: float | None
) -> ProbeExperiment:
    # Values are so far from 0 that small relative errors move them across the bounds of clipping.
    # Rewards are shifted so that errors and advantages are the same as with values around 0.
    rollout = LONG_MINIBATCHES * LONG_MINIBATCH
    changes: dict[str, Any] = {
        "rollout_steps": rollout,
        "minibatch_size": LONG_MINIBATCH,
        "epochs": 1,
        "learning_rate": 0.006,
        "value_clip_range": value_clip_range,
    }
    world = _make_terminating_data(cache, rollout)
    world.rewards[:] += OBSERVATION_SHIFT * (1 - GAMMA * (world.ends == 0))
    name = "long" if value_clip_range else "long, values not clipped"
    made = build_experiment(cache, name, world, **changes)
    weights = {**made.weights, "value.out.bias": made.weights["value.out.bias"] + OBSERVATION_SHIFT}
    return dataclasses.replace(made, weights=weights)


def run_entropy_bonus(cache: ExperimentCache) -> ProbeRun:
    """Run a training with an entropy bonus."""
    return cache.run(build_experiment(cache, "entropy", ent_coef=ENTROPY_COEFFICIENT))


def run_huge_rewards(cache: ExperimentCache) -> ProbeRun:
    """Run a training with huge rewards and the framework's default gradient clipping."""
    world = _make_terminating_data(cache, ROLLOUT_STEPS)
    world.rewards[:] *= experiment_setups.REWARD_SCALE
    return cache.run(build_experiment(cache, "loud", world, library_defaults=("max_grad_norm",)))


def run_full_batches(cache: ExperimentCache, **changes: Any) -> ProbeRun:
    """Run four epochs of one minibatch; with `target_kl`, until the divergence exceeds it."""
    settings: dict[str, Any] = {"minibatch_size": ROLLOUT_STEPS, "epochs": 4, **changes}
    name = ", ".join(f"{field}={value}" for field, value in changes.items())
    return cache.run(build_experiment(cache, f"whole batches {name}", **settings))


def run_early_stopping(cache: ExperimentCache) -> ProbeRun:
    """Run several minibatches with a target KL that is exceeded at once."""
    return cache.run(build_experiment(cache, "early", epochs=4, target_kl=1e-4))


def run_minibatches(cache: ExperimentCache, rollout: int, size: int) -> ProbeRun:
    """Run a rollout split into minibatches of `size`; it ends together with an episode."""
    world = _make_terminating_data(cache, rollout)
    world.ends[-1] = TERMINATED
    changes: dict[str, Any] = {"rollout_steps": rollout, "minibatch_size": size}
    return cache.run(build_experiment(cache, f"minibatches {rollout} {size}", world, **changes))


def run_annealing(cache: ExperimentCache, field: str) -> ProbeRun:
    """Run four rollouts over which a field is annealed, with some epochs of one minibatch each."""
    rollout = 48
    world = _make_terminating_data(cache, 4 * rollout)
    changes: dict[str, Any] = {
        "rollout_steps": rollout,
        "minibatch_size": rollout,
        "epochs": ANNEALED_EPOCHS,
        "learning_rate": 0.006,
        field: "linear",
    }
    return cache.run(build_experiment(cache, f"annealing {field}", world, **changes))


def run_count_experiment(cache: ExperimentCache) -> ProbeRun:
    """Run as many steps as two and a half rollouts."""
    return cache.run(build_experiment(cache, "counts", _make_terminating_data(cache, 60)))


def run_library_defaults(cache: ExperimentCache, number: int = 0) -> ProbeRun:
    """Run a short training with library defaults and the framework's own initial weights."""
    rollout = experiment_setups.count_default_steps(number) // 2
    changes = {"rollout_steps": rollout, "minibatch_size": 4, "epochs": 1}
    return cache.run(experiment_setups.build_defaults_experiment(cache, "ppo", number, changes))


def build_option_experiment(cache: ExperimentCache, algorithm: str = "ppo") -> ProbeExperiment:
    """Return three rollouts with the framework's own networks, whose settings are changed."""
    data = experiment_setups.make_continuous_data(cache, 3 * ROLLOUT_STEPS)
    changes = {**choose_base_settings(cache), "value_clip_range": None}
    return ProbeExperiment(f"{algorithm} options", algorithm, data, changes)


def build_experiment(
    cache: ExperimentCache,
    name: str,
    world: ScriptedData | None = None,
    library_defaults: tuple[str, ...] = (),
    n_envs: int = 1,
    **changes: Any,
) -> ProbeExperiment:
    """Return a training of PPO from random weights.

    Args:
        cache: Provides the seed.
        name: Name of the experiment.
        world: Scripted data; one rollout by default.
        library_defaults: Hyperparameters with the framework's default.
        n_envs: Number of parallel environments.
        changes: Hyperparameters that differ from `BASE_SETTINGS`.
    """
    settings = choose_base_settings(cache) | changes
    settings = {name: v for name, v in settings.items() if name not in library_defaults}
    world = _make_terminating_data(cache, settings["rollout_steps"]) if world is None else world
    # Indices that are drawn with replacement occur twice, unlike those of permutations.
    world = dataclasses.replace(world, draw_repeats=2)
    weights = experiment_setups.make_weights(cache, "ppo")
    return ProbeExperiment(f"ppo {name}", "ppo", world, settings, weights, SNAPSHOTS, n_envs)


def choose_base_settings(cache: ExperimentCache) -> dict[str, Any]:
    """Return `BASE_SETTINGS`, with normalized advantages if the framework supports no others."""

    def choose() -> dict[str, Any]:
        # With a recipe everywhere, no answer may depend on its epsilon through the ratios' sizes.
        base = BASE_SETTINGS | ({"adam_eps": 1e-5} if cache.level.sets_all else {})
        plain = cache.accepts_settings("ppo", base, ROLLOUT_STEPS)
        return base if plain else base | {"normalize_advantage": True}

    return cache.get_or_compute("ppo plain", choose)


def _make_terminating_data(cache: ExperimentCache, steps: int) -> ScriptedData:
    world = experiment_setups.make_continuous_data(cache, steps)
    world.ends[:] = np.where(world.ends > 0, TERMINATED, 0)
    return world
