"""Trainings for lockstep comparisons: the same scripted data, weights and settings for all.

Each is a prefix of one long script, so that trainings of any length see the same numbers.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.data_files import load_yaml
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED, ScriptedData
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.dqn import experiments as dqn_experiments
from parallax.harness.probes.experiment_setups import (
    BATCH_ROWS,
    UNIT_HIGH,
    UNIT_LOW,
    WIDE_HIGH,
    WIDE_LOW,
)
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment, compute_once
from parallax.harness.probes.ppo import experiments as ppo_experiments
from parallax.harness.probes.sac.experiments import interpolate_std, set_policy_std

MAX_UPDATES = 2000
"""Largest number of updates of a comparison."""
_SHARED_STEPS = 64  # transitions of the shared stream
_ACTION_GRID = 256
_LEARNING_RATE = 1e-3
# Exact in float32, because sbx stores it in float32 and trainings in float64 are compared.
_DISCOUNT = 0.9921875
_TAU = 0.005
_UNMOVED_TARGET = {"tau": 1.0, "target_update_interval": 10**6}
_MAX_UPDATE_DELAY = 4  # steps after the warm-up within which the first update happens
_PPO_UPDATES = 4  # two minibatches in each of two epochs
_PPO_STEPS = (MAX_UPDATES // _PPO_UPDATES + 1) * ppo_experiments.ROLLOUT_STEPS

UPDATES_PER_CYCLE = {"ppo": _PPO_UPDATES}
"""Updates per update cycle of algorithms with more than one."""


def _build_td3_experiment(cache: ExperimentCache, updates: int, shared: bool) -> ProbeExperiment:
    changes = {
        **dict.fromkeys(("policy_learning_rate", "critic_learning_rate"), _LEARNING_RATE),
        **{"target_policy_noise": 0.2, "target_noise_clip": 0.5, "policy_delay": 2},
    }
    experiment = _build_off_policy_experiment(
        cache, "td3", updates, experiment_setups.make_weights(cache, "td3"), changes, shared
    )
    # Larger noise, so that some exceeds both clipping bounds, which are 2.5 deviations away.
    experiment.scripted_data.batch_noise[:] *= 2
    return experiment


def _build_sac_experiment(cache: ExperimentCache, updates: int, shared: bool) -> ProbeExperiment:
    rates = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
    changes = {**dict.fromkeys(rates, _LEARNING_RATE), "policy_delay": 1}
    weights = set_policy_std(cache, experiment_setups.make_weights(cache, "sac"))
    experiment = _build_off_policy_experiment(cache, "sac", updates, weights, changes, shared)
    return dataclasses.replace(experiment, std=interpolate_std(cache))


def _build_ddpg_experiment(cache: ExperimentCache, updates: int, shared: bool) -> ProbeExperiment:
    rates = dict.fromkeys(("policy_learning_rate", "critic_learning_rate"), _LEARNING_RATE)
    decays = dict.fromkeys(("policy_weight_decay", "critic_weight_decay"), 0.0)
    changes = {**rates, **decays, "policy_delay": 1}
    return _build_off_policy_experiment(
        cache, "ddpg", updates, experiment_setups.make_weights(cache, "ddpg"), changes, shared
    )


def _build_dqn_experiment(cache: ExperimentCache, updates: int, shared: bool) -> ProbeExperiment:
    """Return a training with random actions.

    Frameworks copy the target network at different steps. In the reference form it moves a little
    at each step instead, and not at all at other levels.
    """
    moves = cache.level.name == "lockstep"
    weights = experiment_setups.make_weights(cache, "dqn")
    weights |= {
        name.replace("critic1.", "critic1_target."): array
        for name, array in weights.items()
        if name.startswith("critic1.")
    }
    changes = {**dqn_experiments.BASE_SETTINGS, "learning_rate": _LEARNING_RATE}
    changes["hidden_sizes"] = experiment_setups.choose_hidden_sizes(cache, "dqn")
    changes |= {"tau": _TAU, "target_update_interval": 1} if moves else _UNMOVED_TARGET
    return _build_off_policy_experiment(cache, "dqn", updates, weights, changes, shared)


def _build_off_policy_experiment(
    cache: ExperimentCache,
    algorithm: str,
    updates: int,
    weights: dict[str, Any],
    changes: dict[str, Any],
    shared: bool,
) -> ProbeExperiment:
    # Some frameworks take their first update one step after learning_starts.
    delay = _find_first_update(cache, algorithm, weights, changes)
    warm_up = _SHARED_STEPS if shared else BATCH_ROWS
    all_data = _make_scripted_data(cache, algorithm, warm_up + _MAX_UPDATE_DELAY + MAX_UPDATES)
    # One more update: the targets of the last one are complete when it begins.
    steps = warm_up + delay + updates
    data = dataclasses.replace(
        all_data,
        rewards=all_data.rewards[:steps],
        ends=all_data.ends[:steps],
        minibatch_window=_SHARED_STEPS if shared else 0,
        permutes_as_draws=True,
    )
    settings: dict[str, Any] = {"tau": _TAU, "gamma": _DISCOUNT}
    settings |= _choose_adam_eps(cache, algorithm, 1e-8) | changes
    settings["buffer_size"] = 4 * MAX_UPDATES
    return experiment_setups.build_off_policy_experiment(
        f"lockstep {algorithm} {updates}", algorithm, data, weights, 0, warm_up, **settings
    )


def _make_scripted_data(cache: ExperimentCache, algorithm: str, steps: int) -> ScriptedData:
    if ALGORITHMS[algorithm].actions == "discrete":
        return experiment_setups.make_discrete_data(cache, steps)
    # At other levels the unit of the actions that critics see would hide all other differences.
    has_one_unit = cache.level.name == "lockstep"
    bounds = (WIDE_LOW, WIDE_HIGH) if has_one_unit else (UNIT_LOW, UNIT_HIGH)
    world = experiment_setups.make_continuous_data(cache, steps, *bounds)
    # Multiples of 1/256 stay exact if an action is rescaled to another range and back.
    world.random_actions[:] = np.floor(world.random_actions * _ACTION_GRID) / _ACTION_GRID
    return world


def _find_first_update(
    cache: ExperimentCache, algorithm: str, weights: Any, changes: dict[str, Any]
) -> int:
    """Return the steps between the end of the warm-up and the framework's first update."""
    world = _make_scripted_data(cache, algorithm, BATCH_ROWS + _MAX_UPDATE_DELAY)
    probe = experiment_setups.build_off_policy_experiment(
        f"lockstep {algorithm} first", algorithm, world, weights, 0, **changes
    )
    steps = cache.run(probe).record.steps
    if not steps:
        raise SpecError(f"framework={cache.adapter.name} made no update of {algorithm}.")
    return steps[0].env_steps - BATCH_ROWS


def _build_ppo_experiment(cache: ExperimentCache, updates: int, shared: bool) -> ProbeExperiment:
    """Return a training with four updates per rollout; no episode is truncated."""
    whole = experiment_setups.make_continuous_data(cache, _PPO_STEPS)
    steps = updates // _PPO_UPDATES * ppo_experiments.ROLLOUT_STEPS
    ends = np.where(whole.ends > 0, TERMINATED, 0)[:steps]
    world = dataclasses.replace(whole, rewards=whole.rewards[:steps], ends=ends)
    common = {"learning_rate": _LEARNING_RATE, **_choose_adam_eps(cache, "ppo", 1e-5)}
    experiment = ppo_experiments.build_experiment(cache, f"lockstep {updates}", world, **common)
    return dataclasses.replace(experiment, snapshots=0)


@compute_once
def _choose_adam_eps(cache: ExperimentCache, algorithm: str, eps: float) -> dict[str, Any]:
    # A framework with a fixed epsilon uses its own value: probes name it as a cause.
    settings = {"adam_eps": eps}
    return settings if cache.accepts_settings(algorithm, settings, BATCH_ROWS) else {}


def align_networks(caches: Sequence[ExperimentCache], algorithm: str) -> None:
    """Set hidden sizes and advantage normalization that every side supports."""
    if algorithm != "ppo":
        sizes = [experiment_setups.choose_hidden_sizes(cache, algorithm) for cache in caches]
        for cache in caches:
            cache.set_value(("sizes", algorithm), min(sizes, key=lambda size: size[0] != size[1]))
        return
    chosen = [ppo_experiments.choose_base_settings(cache) for cache in caches]
    for cache in caches:
        normalized = max(chosen, key=lambda settings: bool(settings["normalize_advantage"]))
        cache.set_value("ppo plain", normalized)


@dataclasses.dataclass(frozen=True)
class LockstepVariant:
    """A training to compare if all updates of the ordinary one are equal; see `variants.yaml`."""

    name: str
    changes: Sequence[Mapping[str, Any]]
    updates: int
    n_envs: int = 1
    has_own_rng: bool = False
    is_demanding: bool = False
    for_one_framework: bool = False

    def apply(
        self, experiment: ProbeExperiment, caches: Iterable[ExperimentCache]
    ) -> ProbeExperiment:
        """Return an experiment with the changes; `caches` are of all frameworks compared."""
        data = dataclasses.replace(experiment.scripted_data, own_rng=self.has_own_rng)
        changes, steps = dict(experiment.changes), len(data.ends)
        for change in self.changes:
            tried = {**changes, **change}
            takers = (c.accepts_settings(experiment.algorithm, tried, steps) for c in caches)
            changes = tried if not self.is_demanding or all(takers) else changes
        if self.is_demanding:
            ends = np.where(np.arange(len(data.ends)) % 10 == 9, TRUNCATED, data.ends)
            window = changes.get("buffer_size", 0)
            low, high = (WIDE_LOW, WIDE_HIGH) if data.low else ((), ())
            data = dataclasses.replace(data, ends=ends, minibatch_window=window, low=low, high=high)
        made = dataclasses.replace(experiment, changes=changes, scripted_data=data)
        if self.n_envs == 1:
            return made
        if "train_freq" in changes:
            return experiment_setups.parallelize_experiment(made, self.n_envs)
        return dataclasses.replace(made, n_envs=self.n_envs)


def load_variants(algorithm: str, one_framework: bool) -> list[LockstepVariant]:
    """Return the further trainings of an algorithm, for one or for two frameworks."""
    entries = load_yaml(Path(__file__).with_name("variants.yaml"), "list of lockstep variants")
    return [
        LockstepVariant(**{**entry, "changes": entry["changes"][algorithm]})
        for entry in entries
        if algorithm in entry["changes"] and (one_framework or "for_one_framework" not in entry)
    ]


def round_up_updates(algorithm: str, updates: int) -> int:
    """Round a number of updates up to whole update cycles."""
    unit = UPDATES_PER_CYCLE.get(algorithm, 1)
    return -(-updates // unit) * unit


EXPERIMENT_BUILDERS: dict[str, Callable[[ExperimentCache, int, bool], ProbeExperiment]] = {
    "ppo": _build_ppo_experiment,
    "td3": _build_td3_experiment,
    "sac": _build_sac_experiment,
    "ddpg": _build_ddpg_experiment,
    "dqn": _build_dqn_experiment,
}
