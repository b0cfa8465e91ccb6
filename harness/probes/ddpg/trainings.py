"""Trainings that DDPG's probes read: those of TD3 where they apply, and its own."""

import dataclasses
import functools
from typing import Any

import numpy as np

from harness.probes import setups
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.setups import HIGH, LOW, ROWS
from harness.probes.td3 import trainings as td3
from harness.probes.world import TERMINATED

PAPER = "Lillicrap et al. 2016 (arXiv:1509.02971)"
ALGORITHM = f"{PAPER}, algorithm 1"
THETA, SIGMA = 0.15, 0.2
"""The paper's process of exploration noise."""
DECAY = 0.1
"""A weight decay that shows in a step."""

update = functools.partial(td3.update, algorithm="ddpg")
loud = functools.partial(td3.loud, algorithm="ddpg")
learning_copies = functools.partial(td3.learning_copies, algorithm="ddpg")
full = functools.partial(td3.full, algorithm="ddpg")
beyond = functools.partial(td3.beyond, algorithm="ddpg")
narrow = functools.partial(td3.narrow, algorithm="ddpg")
counting = functools.partial(td3.counting, algorithm="ddpg")
copies = functools.partial(td3.copies, algorithm="ddpg")
own = functools.partial(td3.own, algorithm="ddpg")


def bandit(lab: Lab) -> Run:
    """Some updates without a future: the target of the critic is the reward."""
    return lab.run(_changed(lab, "bandit", gamma=0.0))


def decaying(lab: Lab) -> Run:
    """Some updates with a large weight decay of policy and critic."""
    both = dict.fromkeys(("policy_weight_decay", "critic_weight_decay"), DECAY)
    return lab.run(_changed(lab, "decaying", **both))


def noisy(lab: Lab) -> Run:
    """A policy that puts out the middle of the range, with the framework's own noise."""
    return lab.run(_noisy(lab, "own noise", {}))


def process(lab: Lab) -> Run:
    """The same with an Ornstein-Uhlenbeck process of the paper's size."""
    kind: dict[str, Any] = {
        "exploration_noise_kind": "ornstein-uhlenbeck",
        "exploration_noise": SIGMA,
    }
    return lab.run(_noisy(lab, "process", kind))


def _changed(lab: Lab, name: str, **changes: float) -> Experiment:
    experiment = update(lab).experiment
    changed = {**experiment.changes, **changes}
    return dataclasses.replace(experiment, name=f"ddpg {name}", changes=changed)


def _noisy(lab: Lab, name: str, changes: dict[str, Any]) -> Experiment:
    weights = setups.weights(lab, "ddpg")
    setups.pass_through(weights, "policy", "out", shift=8.0)
    world = setups.dictation(lab, ROWS, LOW, HIGH)
    world.observations[:, 0] = world.resets[:, 0] = 0.0
    world.ends[:] = np.where(np.arange(ROWS) == ROWS // 2, TERMINATED, 0)
    settings = setups.seldom(lab, "ddpg", ROWS) | td3.FROZEN | {"batch_size": 2} | changes
    return setups.off_policy(f"ddpg {name}", "ddpg", world, weights, warm_up=0, **settings)
