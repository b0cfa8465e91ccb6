"""Trainings that two implementations are compared by: the same world, weights and settings.

Each is cut from one long world, so that trainings of any length have the same numbers.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.contract.algorithms import ALGORITHMS
from harness.contract.fields import SpecError
from harness.probes import setups
from harness.probes.dqn import trainings as dqn
from harness.probes.lab import Experiment, Lab
from harness.probes.ppo import trainings as ppo
from harness.probes.sac.std import same_policy, std_near
from harness.probes.setups import ROWS
from harness.probes.world import TERMINATED, Dictation

MOST = 2000
"""Updates that two can be followed for."""
_AMONG = 64  # transitions of a shared stream
_GRAINS = 256
_RATE = 1e-3
_NEVER = 10**6  # steps between two moves of DQN's target
_LATEST = 4  # steps behind the warm-up at which a first update may come


def _td3(lab: Lab, updates: int, shared: bool) -> Experiment:
    changes = {
        **dict.fromkeys(("policy_learning_rate", "critic_learning_rate"), _RATE),
        **{"target_policy_noise": 0.2, "target_noise_clip": 0.5, "policy_delay": 2},
    }
    return _off_policy(lab, "td3", updates, setups.weights(lab, "td3"), changes, shared)


def _sac(lab: Lab, updates: int, shared: bool) -> Experiment:
    rates = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
    changes = {**dict.fromkeys(rates, _RATE), "policy_delay": 1}
    weights = same_policy(lab, setups.weights(lab, "sac"))
    experiment = _off_policy(lab, "sac", updates, weights, changes, shared)
    return dataclasses.replace(experiment, std=std_near(lab))


def _ddpg(lab: Lab, updates: int, shared: bool) -> Experiment:
    rates = dict.fromkeys(("policy_learning_rate", "critic_learning_rate"), _RATE)
    decays = dict.fromkeys(("policy_weight_decay", "critic_weight_decay"), 0.0)
    changes = {**rates, **decays, "policy_delay": 1}
    return _off_policy(lab, "ddpg", updates, setups.weights(lab, "ddpg"), changes, shared)


def _dqn(lab: Lab, updates: int, shared: bool) -> Experiment:
    """All actions are random, and the target stays the copy that all begin with.

    When it moves is not compared; some copy it before the first update.
    """
    weights = setups.weights(lab, "dqn")
    weights |= {
        name.replace("critic1.", "critic1_target."): array
        for name, array in weights.items()
        if name.startswith("critic1.")
    }
    changes = {**dqn.PLAIN, "learning_rate": _RATE, "tau": 1.0}
    changes["hidden_sizes"] = setups.sizes(lab, "dqn")
    changes["target_update_interval"] = _NEVER
    return _off_policy(lab, "dqn", updates, weights, changes, shared)


def _off_policy(
    lab: Lab,
    algorithm: str,
    updates: int,
    weights: dict[str, Any],
    changes: dict[str, Any],
    shared: bool,
) -> Experiment:
    # One more step where a framework learns from the step behind learning_starts on.
    late = _first_update(lab, algorithm, weights, changes)
    warm_up = _AMONG if shared else ROWS
    # Cut from one world, so that both have the same numbers.
    whole, steps = _world(lab, algorithm, warm_up + _LATEST + MOST), warm_up + late + updates - 1
    ends, among = whole.ends[:steps], _AMONG if shared else 0
    world = dataclasses.replace(whole, rewards=whole.rewards[:steps], ends=ends, among=among)
    common: dict[str, Any] = {"adam_eps": 1e-8, "tau": 0.005, "gamma": 0.99}
    name = f"twins {algorithm} {updates}"
    settings = {**common, **changes, "buffer_size": 4 * MOST}
    return setups.off_policy(name, algorithm, world, weights, 0, warm_up, **settings)


def _world(lab: Lab, algorithm: str, steps: int) -> Dictation:
    if ALGORITHMS[algorithm].actions == "discrete":
        return setups.choosing(lab, steps)
    world = setups.dictation(lab, steps)
    # Numbers that stay the same where an action is brought to another range and back.
    world.random_actions[:] = np.floor(world.random_actions * _GRAINS) / _GRAINS
    return world


def _first_update(lab: Lab, algorithm: str, weights: Any, changes: dict[str, Any]) -> int:
    """How many steps behind the warm-up a framework's first update comes."""
    world = _world(lab, algorithm, ROWS + _LATEST)
    probe = setups.off_policy(f"twins {algorithm} first", algorithm, world, weights, 0, **changes)
    steps = lab.run(probe).record.steps
    if not steps:
        raise SpecError(f"framework={lab.adapter.name} made no update of {algorithm}.")
    return steps[0].env_steps - ROWS


def _ppo(lab: Lab, updates: int, shared: bool) -> Experiment:
    """Each rollout is learned from in four updates; no episode ends by a time limit."""
    whole = setups.dictation(lab, _PPO_STEPS)
    steps = updates // _PPO_UPDATES * ppo.ROLLOUT
    ends = np.where(whole.ends > 0, TERMINATED, 0)[:steps]
    world = dataclasses.replace(whole, rewards=whole.rewards[:steps], ends=ends)
    common: dict[str, Any] = {"learning_rate": _RATE, "adam_eps": 1e-5}
    experiment = ppo.experiment(lab, f"twins {updates}", world, **common)
    return dataclasses.replace(experiment, snapshots=0)


_PPO_UPDATES = 4  # two minibatches in each of two epochs
_PPO_STEPS = (MOST // _PPO_UPDATES + 1) * ppo.ROLLOUT

UNITS = {"ppo": _PPO_UPDATES}
"""Updates that come together, where it is not one."""
EXPERIMENTS: dict[str, Callable[[Lab, int, bool], Experiment]] = {
    "ppo": _ppo,
    "td3": _td3,
    "sac": _sac,
}
EXPERIMENTS |= {"ddpg": _ddpg, "dqn": _dqn}
