"""Trainings that SAC's probes read."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.probes import setups
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.networks import single
from harness.probes.results import Array
from harness.probes.sac.std import STD, same_policy, squashes, std_near
from harness.probes.setups import HIGH, LOW, NARROW_HIGH, NARROW_LOW, ROWS
from harness.probes.world import Dictation

PAPER = "Haarnoja et al. 2018b (arXiv:1812.05905)"
FIRST_PAPER = "Haarnoja et al. 2018 (arXiv:1801.01290)"
CODE = "the authors' code (rail-berkeley/softlearning)"
RATES = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
RATE = 1e-3
LEARNING: dict[str, Any] = dict.fromkeys(RATES, RATE)
FROZEN: dict[str, Any] = dict.fromkeys(RATES, setups.NO_LEARNING)
FULL = 36
"""Warm-up steps of a training whose buffer holds fewer transitions."""
LOUD = 1e3
"""What rewards and critics are multiplied by to see whether gradients are clipped."""

OUTPUTS = np.linspace(-3.0, 3.0, ROWS)


def update(lab: Lab) -> Run:
    """Some updates from weights with which every implementation is the same policy."""
    return lab.run(_update(lab, "sac update"))


def loud(lab: Lab) -> Run:
    """The same with huge rewards, steep critics and another temperature."""
    experiment = _update(lab, "sac loud", 5)
    weights = dict(experiment.weights)
    setups.steepen(weights, LOUD)
    weights["temperature.log"] = single(np.log([0.2]))
    experiment.dictation.rewards[:] *= LOUD
    return lab.run(dataclasses.replace(experiment, weights=weights, snapshots=8))


def learning_copies(lab: Lab) -> Run:
    """Several copies of the environment, and networks that stay as they are."""
    return lab.run(setups.with_copies(_update(lab, "sac learning copies", 12, FROZEN), 4))


def full(lab: Lab) -> Run:
    """A buffer that is full before the first update."""
    experiment = _update(lab, "sac full", FULL + 8 - ROWS)
    changes = {**experiment.changes, "learning_starts": FULL, "buffer_size": FULL - 9}
    return lab.run(dataclasses.replace(experiment, changes=changes))


def _update(lab: Lab, name: str, more: int = 9, rates: Mapping[str, Any] = LEARNING) -> Experiment:
    weights, world = (
        same_policy(lab, setups.weights(lab, "sac")),
        setups.dictation(lab, ROWS + more),
    )
    world = dataclasses.replace(world, turning=True)
    changes = {**rates, "policy_delay": 1}
    experiment = setups.off_policy(name, "sac", world, weights, 24, **changes)
    return dataclasses.replace(experiment, std=std_near(lab), squashed=squashes(lab))


def wide(lab: Lab) -> Run:
    """Target critics that are 0, so that targets show log-probabilities; wide bounds."""
    world = setups.dictation(lab, ROWS + 2, LOW, HIGH, ends=False)
    return lab.run(_entropy_only(lab, "sac wide", world))


def squash(lab: Lab) -> Run:
    """The same with actions from -1 to 1 and noise far into the tails."""
    world = setups.dictation(lab, ROWS + 2, ends=False)
    world.batch_noise[:ROWS] = (tails() / STD)[:, None]
    return lab.run(_entropy_only(lab, "sac squash", world))


def tails() -> Array:
    """Distances from the mean before squashing."""
    return np.linspace(-11.0, 11.0, ROWS)


def acting(lab: Lab) -> Run:
    """The policy acts with dictated noise from the first step on and does not learn."""
    weights = setups.weights(lab, "sac")
    setups.pass_through(weights, "policy", "mean", shift=8.0)
    world = setups.dictation(lab, ROWS, LOW, HIGH, ends=False)
    world.observations[:ROWS, 0] = OUTPUTS
    changes = setups.seldom(lab, "sac", ROWS) | FROZEN | {"batch_size": 2}
    weights = same_policy(lab, weights)
    return lab.run(setups.off_policy("sac acting", "sac", world, weights, warm_up=0, **changes))


def beyond(lab: Lab, narrow: bool = False) -> Run:
    """Outputs far beyond what squashing leaves, on a wide or a narrow range."""
    low, high = (NARROW_LOW, NARROW_HIGH) if narrow else (LOW, HIGH)
    weights = setups.weights(lab, "sac")
    setups.pass_through(weights, "policy", "mean", shift=16.0)
    world = setups.dictation(lab, ROWS, low, high, ends=False)
    world.observations[:ROWS, 0] = 4 * OUTPUTS
    changes = setups.seldom(lab, "sac", ROWS) | FROZEN | {"batch_size": 2}
    name = "sac narrow" if narrow else "sac beyond"
    return lab.run(setups.off_policy(name, "sac", world, weights, warm_up=0, **changes))


def counting(lab: Lab) -> Run:
    """Some updates after an odd number of random steps, as often as the framework has it."""
    return lab.run(_counting(lab, "sac counts", 11))


def copies(lab: Lab) -> Run:
    """Four copies of the environment and an update per transition."""
    return lab.run(setups.with_copies(_counting(lab, "sac copies", 12), 4))


def own(lab: Lab, number: int = 0) -> Run:
    """A short training with the framework's own settings and networks."""
    return lab.run(setups.own(lab, "sac", number))


def quiet_and_noisy(lab: Lab) -> list[Run]:
    """Two trainings that move no weight, one with little and one with much noise."""
    runs = []
    for spread in (0.5, 1.5):
        world = setups.dictation(lab, ROWS + 2)
        world.batch_noise[:] *= spread
        weights = same_policy(lab, setups.weights(lab, "sac"))
        changes = {**FROZEN, "policy_delay": 1}
        name = f"sac noise {spread}"
        experiment = setups.off_policy(name, "sac", world, weights, 4, **changes)
        runs.append(lab.run(dataclasses.replace(experiment, squashed=squashes(lab))))
    return runs


def _entropy_only(lab: Lab, name: str, world: Dictation) -> Experiment:
    weights = same_policy(lab, setups.weights(lab, "sac"))
    for key, array in weights.items():
        if "_target" in key or key.startswith("policy.mean"):
            weights[key] = np.zeros_like(array)
    world.rewards[:] = 0.0
    changes = {**LEARNING, "policy_delay": 1}
    return setups.off_policy(name, "sac", world, weights, 3, **changes)


def _counting(lab: Lab, name: str, warm_up: int) -> Experiment:
    weights, world = setups.weights(lab, "sac"), setups.dictation(lab, 32)
    settings = {**FROZEN, "batch_size": 4, "tau": 0.05}
    return setups.off_policy(name, "sac", world, weights, warm_up=warm_up, **settings)
