"""Trainings that probes of TD3 and DDPG read: algorithms with a deterministic policy."""

import dataclasses
import functools
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.scripted_env import ScriptedData
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiment_setups import (
    BATCH_ROWS,
    HALF_RANGE,
    NARROW_HIGH,
    NARROW_LOW,
    REWARD_SCALE,
    WIDE_HIGH,
    WIDE_LOW,
    OffPolicyRuns,
)
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment, ProbeRun
from parallax.harness.probes.reference_networks import round_to_float32

TD3_PAPER = "Fujimoto et al. 2018 (arXiv:1802.09477)"
TD3_CODE = "the authors' code (sfujim/TD3)"
TARGET_NOISE, TARGET_NOISE_CLIP, EXPLORATION_NOISE = 0.2, 0.5, 0.1
"""The paper's values, as shares of half the action range."""
POLICY_DELAY = 2
LEARNING_SETTINGS: dict[str, Any] = {"policy_learning_rate": 1e-3, "critic_learning_rate": 1e-3}
FROZEN_SETTINGS: dict[str, Any] = dict.fromkeys(LEARNING_SETTINGS, experiment_setups.NO_LEARNING)
PAPER_SETTINGS: dict[str, dict[str, Any]] = {
    "td3": {
        "target_policy_noise": TARGET_NOISE,
        "target_noise_clip": TARGET_NOISE_CLIP,
        "policy_delay": POLICY_DELAY,
    },
    "ddpg": {"policy_weight_decay": 0.0, "critic_weight_decay": 0.0, "policy_delay": 1},
}
"""Settings with which all implementations of an algorithm are the same."""
BANDIT_SETTINGS: dict[str, dict[str, Any]] = {"td3": {}, "ddpg": {"gamma": 0.0}}
"""Settings with which the target of a single critic is known: it is the reward."""
NOISE_KIND_SETTINGS: dict[str, dict[str, Any]] = {
    "td3": {},
    "ddpg": {"exploration_noise_kind": "gaussian"},
}
"""Settings with which exploration noise is Gaussian."""
DRAWING_SETTINGS: dict[str, dict[str, Any]] = {
    algorithm: {
        "hidden_sizes": (256, 256),
        "exploration_noise": EXPLORATION_NOISE,
        **PAPER_SETTINGS[algorithm],
        **NOISE_KIND_SETTINGS[algorithm],
    }
    for algorithm in ("td3", "ddpg")
}
"""Settings with which implementations explore alike with their own random numbers."""

NEAR_THE_BOUND = np.array([3.0, 0.0])
"""Added to the output of the target policy."""
CENTER_OUTPUTS = np.repeat([0.0, 1.5, -1.5], BATCH_ROWS // 3)
"""Policy outputs before tanh: rows in the middle of the range, and rows near its ends."""
NOISE_GRID = np.tile(np.linspace(-4.0, 4.0, BATCH_ROWS // 3), 3)
OUTPUT_GRID = np.linspace(-3.0, 3.0, BATCH_ROWS)


def run_noisy_update(cache: ExperimentCache) -> ProbeRun:
    """Run some updates of TD3 with much exploration noise after the warm-up."""
    experiment = _build_update_experiment("td3", cache, "exploring update")
    changes = {**experiment.changes, "exploration_noise": 0.5}
    return cache.run(dataclasses.replace(experiment, changes=changes))


def run_huge_rewards(cache: ExperimentCache, algorithm: str = "td3") -> ProbeRun:
    """Run some updates with huge rewards and steep critics."""
    experiment = _build_update_experiment(algorithm, cache, "loud", 6)
    weights = dict(experiment.weights)
    experiment_setups.scale_critic_outputs(weights)
    experiment.scripted_data.rewards[:] *= REWARD_SCALE
    changes = {**experiment.changes, **BANDIT_SETTINGS[algorithm]}
    return cache.run(dataclasses.replace(experiment, changes=changes, weights=weights, snapshots=8))


def _build_update_experiment(
    algorithm: str, cache: ExperimentCache, name: str, more: int = 12
) -> ProbeExperiment:
    # The paper's noise, and actions from -1 to 1.
    weights = experiment_setups.make_weights(cache, algorithm)
    world = experiment_setups.make_continuous_data(cache, BATCH_ROWS + more)
    # Next actions are near a bound in one dimension, so that noise moves many beyond it.
    bias = weights["policy_target.out.bias"]
    weights["policy_target.out.bias"] = round_to_float32(bias + NEAR_THE_BOUND)
    world = dataclasses.replace(world, rotates_draws=True)
    settings = LEARNING_SETTINGS | PAPER_SETTINGS[algorithm]
    return experiment_setups.build_off_policy_experiment(
        f"{algorithm} {name}", algorithm, world, weights, 24, **settings
    )


def run_target_smoothing(cache: ExperimentCache, dimension: int = 0) -> ProbeRun:
    """Run target critics that output one dimension of the next action, with default noise."""
    weights = experiment_setups.make_weights(cache, "td3")
    for i in (1, 2):
        experiment_setups.set_pass_through_weights(weights, f"critic{i}_target", "out", shift=8.0)
        weights[f"critic{i}_target.0.weight"][0] = 0.0
        weights[f"critic{i}_target.0.weight"][0, experiment_setups.OBSERVATION_SIZE + dimension] = (
            1.0
        )
    experiment_setups.set_pass_through_weights(weights, "policy_target", "out", shift=8.0)
    world = experiment_setups.make_continuous_data(
        cache, BATCH_ROWS + 2, WIDE_LOW, WIDE_HIGH, ends=False
    )
    world.rewards[:] = 0.0
    world.observations[1 : BATCH_ROWS + 1, 0] = CENTER_OUTPUTS
    world.batch_noise[:BATCH_ROWS] = NOISE_GRID[:, None]
    name = f"td3 smoothing {dimension}"
    return cache.run(
        experiment_setups.build_off_policy_experiment(
            name, "td3", world, weights, 3, **LEARNING_SETTINGS
        )
    )


def run_frozen_policy(cache: ExperimentCache, algorithm: str = "td3") -> ProbeRun:
    """Run a frozen policy with scripted noise from the first step on."""
    return cache.run(
        _build_frozen_experiment(cache, algorithm, "acting", CENTER_OUTPUTS, NOISE_GRID)
    )


def run_out_of_bounds(
    cache: ExperimentCache, algorithm: str = "td3", name: str = "beyond", **bounds: Any
) -> ProbeRun:
    """Run noise of a given size that exceeds both bounds of a range, by default a wide one."""
    given = (CENTER_OUTPUTS, NOISE_GRID)
    settings = {"exploration_noise": EXPLORATION_NOISE, **bounds}
    return cache.run(_build_frozen_experiment(cache, algorithm, name, *given, **settings))


def run_narrow_bounds(cache: ExperimentCache, algorithm: str = "td3") -> ProbeRun:
    """Run the same on a narrow range."""
    return run_out_of_bounds(cache, algorithm, "narrow", low=NARROW_LOW, high=NARROW_HIGH)


def run_noiseless_policy(cache: ExperimentCache, algorithm: str = "td3") -> ProbeRun:
    """Run a frozen policy without noise."""
    return cache.run(
        _build_frozen_experiment(cache, algorithm, "still", OUTPUT_GRID, np.zeros(BATCH_ROWS))
    )


def run_noisy_warm_up(cache: ExperimentCache, algorithm: str = "td3") -> ProbeRun:
    """Run some updates after an odd number of random steps, with exploration noise."""
    return cache.run(
        _build_count_experiment(algorithm, cache, "warm-up", exploration_noise=EXPLORATION_NOISE)
    )


def compute_center_actions() -> Array:
    """Return the first dimension of the policy's actions without noise."""
    return np.asarray((WIDE_LOW[0] + WIDE_HIGH[0]) / 2 + HALF_RANGE * np.tanh(CENTER_OUTPUTS))


def _build_frozen_experiment(
    cache: ExperimentCache,
    algorithm: str,
    name: str,
    outputs: Array,
    noise: Array,
    low: tuple[float, ...] = WIDE_LOW,
    high: tuple[float, ...] = WIDE_HIGH,
    **changes: Any,
) -> ProbeExperiment:
    weights = experiment_setups.make_weights(cache, algorithm)
    experiment_setups.set_pass_through_weights(weights, "policy", "out", shift=8.0)
    world = experiment_setups.make_continuous_data(cache, BATCH_ROWS, low, high, ends=False)
    world.observations[:BATCH_ROWS, 0] = outputs
    world.acting_noise[:] = noise[:, None]
    rare = experiment_setups.choose_rare_update_settings(cache, algorithm, BATCH_ROWS)
    frozen = FROZEN_SETTINGS | {"batch_size": 2} | NOISE_KIND_SETTINGS[algorithm]
    settings = rare | frozen | changes
    return experiment_setups.build_off_policy_experiment(
        f"{algorithm} {name}", algorithm, world, weights, warm_up=0, **settings
    )


def _build_count_experiment(
    algorithm: str,
    cache: ExperimentCache,
    name: str,
    is_parallel: bool = False,
    exploration_noise: float = 0.0,
) -> ProbeExperiment:
    # Updates after random steps, an odd number of them with one environment.
    world: ScriptedData = experiment_setups.make_continuous_data(cache, 32)
    delay = PAPER_SETTINGS[algorithm]["policy_delay"]
    fixed = {"batch_size": 4, "policy_delay": delay, "tau": 0.05}
    settings = FROZEN_SETTINGS | NOISE_KIND_SETTINGS[algorithm] | fixed
    settings |= {"exploration_noise": exploration_noise}
    weights, warm_up = experiment_setups.make_weights(cache, algorithm), 12 if is_parallel else 11
    return experiment_setups.build_off_policy_experiment(
        f"{algorithm} {name}", algorithm, world, weights, warm_up=warm_up, **settings
    )


RUNS = {
    algorithm: OffPolicyRuns(
        algorithm,
        functools.partial(_build_update_experiment, algorithm),
        functools.partial(_build_count_experiment, algorithm),
        updates=12,
    )
    for algorithm in ("td3", "ddpg")
}
