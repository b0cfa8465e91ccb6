"""Trainings that SAC's probes read."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import interpolate

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.probing.scripted_env import ScriptedData
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiment_setups import (
    BATCH_ROWS,
    NARROW_HIGH,
    NARROW_LOW,
    REWARD_SCALE,
    WIDE_HIGH,
    WIDE_LOW,
    OffPolicyRuns,
)
from parallax.harness.probes.experiments import (
    ExperimentCache,
    ProbeExperiment,
    ProbeRun,
    compute_once,
)
from parallax.harness.probes.probe import UnmeasuredError
from parallax.harness.probes.reference_networks import round_to_float32

STD_NOISE = 0.02
SEARCH_GRIDS = ((3.0, 13), (0.3, 7), (0.02, 5), (0.001, 3))
"""Half widths and numbers of points; each grid covers the interpolation error of the previous."""
SEARCH_START, SEARCH_NOISE = -1.0, 0.3
"""Start of the search, and the standard normal number in its actions."""
POLICY_STD = 0.6
"""Standard deviation of all implementations in probes of other quantities."""


def measure_std(cache: ExperimentCache, raw: Array, name: str) -> Array:
    """Return the policy's standard deviation for network outputs `raw`.

    The policy acts with mean 0 and scripted noise e, so the action is tanh(std e), or std e if it
    is not squashed. If that is too small for float32, the noise is enlarged and the training is
    repeated.
    """
    noise = np.full_like(raw, STD_NOISE)
    for repeat in range(5):
        actions = np.abs(_measure_std_actions(cache, raw, noise, f"{name} {repeat}"))
        small = actions < 0.01
        if not small.any():
            break
        # Actions below 1e-6 are too inexact for computing the factor.
        noise[small] *= np.where(actions < 1e-6, 1e4, 0.2 / np.maximum(actions, 1e-6))[small]
    if not actions.all():
        raise UnmeasuredError("the policy's actions have no noise")
    return _invert_squashing(cache, actions) / noise


@compute_once
def is_squashed(cache: ExperimentCache) -> bool:
    """Return whether the policy squashes samples by tanh: then no action exceeds 1."""
    return bool(_run_search(cache, SEARCH_START, *SEARCH_GRIDS[0])[1].max() <= 1)


def _invert_squashing(cache: ExperimentCache, actions: Array) -> Array:
    return np.arctanh(np.minimum(actions, 1 - 1e-7)) if is_squashed(cache) else actions


@compute_once
def find_std_output(cache: ExperimentCache, std: float) -> float:
    """Return the network output that gives a standard deviation in this implementation."""
    raw = SEARCH_START
    for width, points in SEARCH_GRIDS:
        grid, actions = _run_search(cache, raw, width, points)
        raw = float(
            np.interp(np.log(std), np.log(_invert_squashing(cache, actions) / SEARCH_NOISE), grid)
        )
    return raw


def _run_search(
    cache: ExperimentCache, raw: float, width: float, points: int
) -> tuple[Array, Array]:
    # Outputs of the network, and absolute values of the actions for them.
    grid = round_to_float32(np.linspace(raw - width, raw + width, points))
    name = f"sac std within {width}"
    return grid, np.abs(_measure_std_actions(cache, grid, np.full_like(grid, SEARCH_NOISE), name))


INTERPOLATION_WIDTH, INTERPOLATION_POINTS = 1.5, 31
"""Half width of the map's known range around `POLICY_STD`, and number of points in it."""


@compute_once
def interpolate_std(cache: ExperimentCache) -> Callable[[Array], Array]:
    """Return the map from network output to standard deviation, near `POLICY_STD`."""
    middle = find_std_output(cache, POLICY_STD)
    bounds = middle - INTERPOLATION_WIDTH, middle + INTERPOLATION_WIDTH
    grid = round_to_float32(np.linspace(*bounds, INTERPOLATION_POINTS))
    actions = np.abs(
        _measure_std_actions(cache, grid, np.full_like(grid, SEARCH_NOISE), "sac std around")
    )
    if not actions.all():
        raise UnmeasuredError("the policy's actions have no noise")
    known = interpolate.CubicSpline(grid, np.log(_invert_squashing(cache, actions) / SEARCH_NOISE))
    return lambda raw: np.exp(known(raw))


def set_policy_std(
    cache: ExperimentCache, weights: dict[str, Array], std: float = POLICY_STD
) -> dict[str, Array]:
    """Set weights with which the policy's standard deviation is `std` everywhere."""
    weights["policy.std.weight"] = np.zeros_like(weights["policy.std.weight"])
    weights["policy.std.bias"] = np.full_like(
        weights["policy.std.bias"], find_std_output(cache, std)
    )
    return weights


def _measure_std_actions(cache: ExperimentCache, raw: Array, noise: Array, name: str) -> Array:
    # Actions of a policy whose network outputs the mean 0 and `raw`.
    weights = experiment_setups.make_weights(cache, "sac")
    experiment_setups.set_pass_through_weights(weights, "policy", "std")
    world = experiment_setups.make_continuous_data(cache, len(raw), ends=False)
    world.observations[:-1, 0] = raw
    world.acting_noise[:] = noise[:, None]
    rates = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
    frozen: dict[str, Any] = dict.fromkeys(rates, experiment_setups.NO_LEARNING)
    frozen |= experiment_setups.choose_rare_update_settings(cache, "sac", len(raw))
    experiment = experiment_setups.build_off_policy_experiment(
        name, "sac", world, weights, warm_up=0, batch_size=2, **frozen
    )
    return cache.run(experiment).record.stored["actions"][:, 0]


SAC_PAPER = "Haarnoja et al. 2018b (arXiv:1812.05905)"
SAC_FIRST_PAPER = "Haarnoja et al. 2018 (arXiv:1801.01290)"
SAC_CODE = "the authors' code (rail-berkeley/softlearning)"
LEARNING_RATE_NAMES = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
LEARNING_RATE = 1e-3
LEARNING_SETTINGS: dict[str, Any] = dict.fromkeys(LEARNING_RATE_NAMES, LEARNING_RATE)
FROZEN_SETTINGS: dict[str, Any] = dict.fromkeys(LEARNING_RATE_NAMES, experiment_setups.NO_LEARNING)

OUTPUTS = np.linspace(-3.0, 3.0, BATCH_ROWS)


def run_huge_rewards(cache: ExperimentCache) -> ProbeRun:
    """Run some updates with huge rewards, steep critics and another temperature."""
    experiment = _build_update_experiment(cache, "loud", 5)
    weights = dict(experiment.weights)
    experiment_setups.scale_critic_outputs(weights)
    weights["temperature.log"] = round_to_float32(np.log([0.2]))
    experiment.scripted_data.rewards[:] *= REWARD_SCALE
    return cache.run(dataclasses.replace(experiment, weights=weights, snapshots=8))


def _build_update_experiment(cache: ExperimentCache, name: str, more: int) -> ProbeExperiment:
    # Every implementation has the same policy at the start.
    weights = set_policy_std(cache, experiment_setups.make_weights(cache, "sac"))
    world = experiment_setups.make_continuous_data(cache, BATCH_ROWS + more)
    world = dataclasses.replace(world, rotates_draws=True)
    changes = {**LEARNING_SETTINGS, "policy_delay": 1}
    experiment = experiment_setups.build_off_policy_experiment(
        f"sac {name}", "sac", world, weights, 24, **changes
    )
    return dataclasses.replace(experiment, std=interpolate_std(cache), squashed=is_squashed(cache))


def run_wide_bounds(cache: ExperimentCache) -> ProbeRun:
    """Run target critics of 0, so that targets show log-probabilities, with wide bounds."""
    world = experiment_setups.make_continuous_data(
        cache, BATCH_ROWS + 2, WIDE_LOW, WIDE_HIGH, ends=False
    )
    return cache.run(_build_entropy_experiment(cache, "sac wide", world))


def run_tanh_tails(cache: ExperimentCache) -> ProbeRun:
    """Run the same with actions from -1 to 1 and noise far into the tails."""
    world = experiment_setups.make_continuous_data(cache, BATCH_ROWS + 2, ends=False)
    world.batch_noise[:BATCH_ROWS] = (compute_tail_distances() / POLICY_STD)[:, None]
    return cache.run(_build_entropy_experiment(cache, "sac squash", world))


def compute_tail_distances() -> Array:
    """Return distances from the mean before squashing."""
    return np.linspace(-11.0, 11.0, BATCH_ROWS)


def run_frozen_policy(cache: ExperimentCache) -> ProbeRun:
    """Run a frozen policy with scripted noise from the first step on."""
    return _run_frozen_outputs(cache, "sac acting", OUTPUTS, 8.0, POLICY_STD)


def run_out_of_bounds(cache: ExperimentCache, narrow: bool = False) -> ProbeRun:
    """Run outputs far into the tails of tanh, on a wide or a narrow range."""
    bounds = (NARROW_LOW, NARROW_HIGH) if narrow else (WIDE_LOW, WIDE_HIGH)
    name = "sac narrow" if narrow else "sac beyond"
    return _run_frozen_outputs(cache, name, 4 * OUTPUTS, 16.0, None, *bounds)


def _run_frozen_outputs(
    cache: ExperimentCache,
    name: str,
    outputs: Array,
    shift: float,
    std: float | None,
    low: tuple[float, ...] = WIDE_LOW,
    high: tuple[float, ...] = WIDE_HIGH,
) -> ProbeRun:
    weights = experiment_setups.make_weights(cache, "sac")
    experiment_setups.set_pass_through_weights(weights, "policy", "mean", shift=shift)
    if std is not None:
        set_policy_std(cache, weights, std)
    world = experiment_setups.make_continuous_data(cache, BATCH_ROWS, low, high, ends=False)
    world.observations[:BATCH_ROWS, 0] = outputs
    rare = experiment_setups.choose_rare_update_settings(cache, "sac", BATCH_ROWS)
    changes = rare | FROZEN_SETTINGS | {"batch_size": 2}
    experiment = experiment_setups.build_off_policy_experiment(
        name, "sac", world, weights, warm_up=0, **changes
    )
    return cache.run(experiment)


def run_two_noise_levels(cache: ExperimentCache) -> list[ProbeRun]:
    """Run two frozen trainings, one with little and one with much noise."""
    runs = []
    for spread in (0.5, 1.5):
        world = experiment_setups.make_continuous_data(cache, BATCH_ROWS + 2)
        world.batch_noise[:] *= spread
        weights = set_policy_std(cache, experiment_setups.make_weights(cache, "sac"))
        changes = {**FROZEN_SETTINGS, "policy_delay": 1}
        name = f"sac noise {spread}"
        experiment = experiment_setups.build_off_policy_experiment(
            name, "sac", world, weights, 4, **changes
        )
        runs.append(cache.run(dataclasses.replace(experiment, squashed=is_squashed(cache))))
    return runs


def _build_entropy_experiment(
    cache: ExperimentCache, name: str, world: ScriptedData
) -> ProbeExperiment:
    weights = set_policy_std(cache, experiment_setups.make_weights(cache, "sac"))
    for key, array in weights.items():
        if "_target" in key or key.startswith("policy.mean"):
            weights[key] = np.zeros_like(array)
    world.rewards[:] = 0.0
    changes = {**LEARNING_SETTINGS, "policy_delay": 1}
    return experiment_setups.build_off_policy_experiment(name, "sac", world, weights, 3, **changes)


def _build_count_experiment(
    cache: ExperimentCache, name: str, is_parallel: bool
) -> ProbeExperiment:
    # Updates after random steps, an odd number of them with one environment.
    weights = experiment_setups.make_weights(cache, "sac")
    world = experiment_setups.make_continuous_data(cache, 32)
    settings = {**FROZEN_SETTINGS, "batch_size": 4, "tau": 0.05}
    warm_up = 12 if is_parallel else 11
    return experiment_setups.build_off_policy_experiment(
        f"sac {name}", "sac", world, weights, warm_up=warm_up, **settings
    )


RUNS = OffPolicyRuns(
    "sac", _build_update_experiment, _build_count_experiment, 9, parallel_settings=FROZEN_SETTINGS
)
