"""Trainings that two implementations are compared by: the same world, weights and settings.

Each is cut from one long world, so that trainings of any length have the same numbers.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.probing.scripted_env import TERMINATED, ScriptedData
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.dqn import experiments as dqn_experiments
from parallax.harness.probes.experiment_setups import BATCH_ROWS
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment
from parallax.harness.probes.ppo import experiments as ppo_experiments
from parallax.harness.probes.sac.experiments import interpolate_std, set_policy_std

MAX_UPDATES = 2000
"""Updates that two can be followed for."""
_SHARED_STEPS = 64  # transitions of a shared stream
_ACTION_GRID = 256
_LEARNING_RATE = 1e-3
_NEVER_INTERVAL = 10**6  # steps between two moves of DQN's target
_MAX_UPDATE_DELAY = 4  # steps behind the warm-up at which a first update may come


def _build_td3_experiment(lab: ExperimentCache, updates: int, shared: bool) -> ProbeExperiment:
    changes = {
        **dict.fromkeys(("policy_learning_rate", "critic_learning_rate"), _LEARNING_RATE),
        **{"target_policy_noise": 0.2, "target_noise_clip": 0.5, "policy_delay": 2},
    }
    return _build_off_policy_experiment(
        lab, "td3", updates, experiment_setups.make_weights(lab, "td3"), changes, shared
    )


def _build_sac_experiment(lab: ExperimentCache, updates: int, shared: bool) -> ProbeExperiment:
    rates = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
    changes = {**dict.fromkeys(rates, _LEARNING_RATE), "policy_delay": 1}
    weights = set_policy_std(lab, experiment_setups.make_weights(lab, "sac"))
    experiment = _build_off_policy_experiment(lab, "sac", updates, weights, changes, shared)
    return dataclasses.replace(experiment, std=interpolate_std(lab))


def _build_ddpg_experiment(lab: ExperimentCache, updates: int, shared: bool) -> ProbeExperiment:
    rates = dict.fromkeys(("policy_learning_rate", "critic_learning_rate"), _LEARNING_RATE)
    decays = dict.fromkeys(("policy_weight_decay", "critic_weight_decay"), 0.0)
    changes = {**rates, **decays, "policy_delay": 1}
    return _build_off_policy_experiment(
        lab, "ddpg", updates, experiment_setups.make_weights(lab, "ddpg"), changes, shared
    )


def _build_dqn_experiment(lab: ExperimentCache, updates: int, shared: bool) -> ProbeExperiment:
    """All actions are random, and the target stays the copy that all begin with.

    When it moves is not compared; some copy it before the first update.
    """
    weights = experiment_setups.make_weights(lab, "dqn")
    weights |= {
        name.replace("critic1.", "critic1_target."): array
        for name, array in weights.items()
        if name.startswith("critic1.")
    }
    changes = {**dqn_experiments.BASE_SETTINGS, "learning_rate": _LEARNING_RATE, "tau": 1.0}
    changes["hidden_sizes"] = experiment_setups.choose_hidden_sizes(lab, "dqn")
    changes["target_update_interval"] = _NEVER_INTERVAL
    return _build_off_policy_experiment(lab, "dqn", updates, weights, changes, shared)


def _build_off_policy_experiment(
    lab: ExperimentCache,
    algorithm: str,
    updates: int,
    weights: dict[str, Any],
    changes: dict[str, Any],
    shared: bool,
) -> ProbeExperiment:
    # One more step where a framework learns from the step behind learning_starts on.
    late = _find_first_update(lab, algorithm, weights, changes)
    warm_up = _SHARED_STEPS if shared else BATCH_ROWS
    # Cut from one world, so that both have the same numbers.
    whole, steps = (
        _make_scripted_data(lab, algorithm, warm_up + _MAX_UPDATE_DELAY + MAX_UPDATES),
        warm_up + late + updates - 1,
    )
    ends, among = whole.ends[:steps], _SHARED_STEPS if shared else 0
    world = dataclasses.replace(
        whole, rewards=whole.rewards[:steps], ends=ends, minibatch_window=among
    )
    common: dict[str, Any] = {"adam_eps": 1e-8, "tau": 0.005, "gamma": 0.99}
    name = f"twins {algorithm} {updates}"
    settings = {**common, **changes, "buffer_size": 4 * MAX_UPDATES}
    return experiment_setups.build_off_policy_experiment(
        name, algorithm, world, weights, 0, warm_up, **settings
    )


def _make_scripted_data(lab: ExperimentCache, algorithm: str, steps: int) -> ScriptedData:
    if ALGORITHMS[algorithm].actions == "discrete":
        return experiment_setups.make_discrete_data(lab, steps)
    world = experiment_setups.make_continuous_data(lab, steps)
    # Numbers that stay the same where an action is brought to another range and back.
    world.random_actions[:] = np.floor(world.random_actions * _ACTION_GRID) / _ACTION_GRID
    return world


def _find_first_update(
    lab: ExperimentCache, algorithm: str, weights: Any, changes: dict[str, Any]
) -> int:
    """How many steps behind the warm-up a framework's first update comes."""
    world = _make_scripted_data(lab, algorithm, BATCH_ROWS + _MAX_UPDATE_DELAY)
    probe = experiment_setups.build_off_policy_experiment(
        f"twins {algorithm} first", algorithm, world, weights, 0, **changes
    )
    steps = lab.run(probe).record.steps
    if not steps:
        raise SpecError(f"framework={lab.adapter.name} made no update of {algorithm}.")
    return steps[0].env_steps - BATCH_ROWS


def _build_ppo_experiment(lab: ExperimentCache, updates: int, shared: bool) -> ProbeExperiment:
    """Each rollout is learned from in four updates; no episode ends by a time limit."""
    whole = experiment_setups.make_continuous_data(lab, _PPO_STEPS)
    steps = updates // _PPO_UPDATES * ppo_experiments.ROLLOUT_STEPS
    ends = np.where(whole.ends > 0, TERMINATED, 0)[:steps]
    world = dataclasses.replace(whole, rewards=whole.rewards[:steps], ends=ends)
    common: dict[str, Any] = {"learning_rate": _LEARNING_RATE, "adam_eps": 1e-5}
    experiment = ppo_experiments.build_experiment(lab, f"twins {updates}", world, **common)
    return dataclasses.replace(experiment, snapshots=0)


_PPO_UPDATES = 4  # two minibatches in each of two epochs
_PPO_STEPS = (MAX_UPDATES // _PPO_UPDATES + 1) * ppo_experiments.ROLLOUT_STEPS

UPDATES_PER_CYCLE = {"ppo": _PPO_UPDATES}
"""Updates that come together, where it is not one."""
EXPERIMENT_BUILDERS: dict[str, Callable[[ExperimentCache, int, bool], ProbeExperiment]] = {
    "ppo": _build_ppo_experiment,
    "td3": _build_td3_experiment,
    "sac": _build_sac_experiment,
}
EXPERIMENT_BUILDERS |= {"ddpg": _build_ddpg_experiment, "dqn": _build_dqn_experiment}
