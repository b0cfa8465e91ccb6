"""Trainings that TD3's probes read."""

import dataclasses
from typing import Any

import numpy as np

from harness.probes import setups
from harness.probes.lab import Experiment, Lab, Run
from harness.probes.networks import single
from harness.probes.results import Array
from harness.probes.setups import HALF, HIGH, LOW, NARROW_HIGH, NARROW_LOW, ROWS
from harness.probes.world import Dictation

PAPER = "Fujimoto et al. 2018 (arXiv:1802.09477)"
CODE = "the authors' code (sfujim/TD3)"
NOISE, CLIP, EXPLORATION = 0.2, 0.5, 0.1
"""The paper's values, as shares of half the action range."""
DELAY = 2
RATES: dict[str, Any] = {"policy_learning_rate": 1e-3, "critic_learning_rate": 1e-3}
FROZEN: dict[str, Any] = dict.fromkeys(RATES, setups.NO_LEARNING)
SAME: dict[str, Any] = {**RATES, "target_policy_noise": NOISE, "target_noise_clip": CLIP}
FULL = 36
"""Warm-up steps of a training whose buffer holds fewer transitions."""
LOUD = 1e3
"""What rewards and critics are multiplied by to see whether gradients are clipped."""

NEAR_THE_BOUND = np.array([3.0, 0.0])
"""Added to the output of the target policy."""
CENTRES = np.repeat([0.0, 1.5, -1.5], ROWS // 3)
"""Policy before tanh: rows in the middle of the range, and rows near its ends."""
NOISES = np.tile(np.linspace(-4.0, 4.0, ROWS // 3), 3)
OUTPUTS = np.linspace(-3.0, 3.0, ROWS)


def update(lab: Lab) -> Run:
    """Some updates with the paper's noise on actions from -1 to 1, each on another minibatch."""
    return lab.run(_update(lab, "td3 update"))


def exploring_update(lab: Lab) -> Run:
    """The same with much noise on actions that are taken, from after the warm-up on."""
    experiment = _update(lab, "td3 exploring update")
    changes = {**experiment.changes, "exploration_noise": 0.5}
    return lab.run(dataclasses.replace(experiment, changes=changes))


def loud(lab: Lab) -> Run:
    """The same with huge rewards and steep critics."""
    experiment = _update(lab, "td3 loud", 6)
    weights = dict(experiment.weights)
    setups.steepen(weights, LOUD)
    experiment.dictation.rewards[:] *= LOUD
    return lab.run(dataclasses.replace(experiment, weights=weights, snapshots=8))


def learning_copies(lab: Lab) -> Run:
    """The same on several copies of the environment."""
    return lab.run(setups.with_copies(_update(lab, "td3 learning copies", 12), 4))


def full(lab: Lab) -> Run:
    """A buffer that is full before the first update."""
    experiment = _update(lab, "td3 full", FULL + 8 - ROWS)
    changes = {**experiment.changes, "learning_starts": FULL, "buffer_size": FULL - 9}
    return lab.run(dataclasses.replace(experiment, changes=changes))


def _update(lab: Lab, name: str, more: int = 12) -> Experiment:
    weights, world = setups.weights(lab, "td3"), setups.dictation(lab, ROWS + more)
    # Next actions are near a bound in one dimension, so that noise takes many beyond it.
    bias = weights["policy_target.out.bias"]
    weights["policy_target.out.bias"] = single(bias + NEAR_THE_BOUND)
    world = dataclasses.replace(world, turning=True)
    changes = {**SAME, "policy_delay": DELAY}
    return setups.off_policy(name, "td3", world, weights, 24, **changes)


def smoothing(lab: Lab, dimension: int = 0) -> Run:
    """Target critics that pass on one dimension of the next action; the framework's own noise."""
    weights = setups.weights(lab, "td3")
    for i in (1, 2):
        setups.pass_through(weights, f"critic{i}_target", "out", shift=8.0)
        weights[f"critic{i}_target.0.weight"][0] = 0.0
        weights[f"critic{i}_target.0.weight"][0, setups.OBSERVATIONS + dimension] = 1.0
    setups.pass_through(weights, "policy_target", "out", shift=8.0)
    world = setups.dictation(lab, ROWS + 2, LOW, HIGH, ends=False)
    world.rewards[:] = 0.0
    world.observations[1 : ROWS + 1, 0] = CENTRES
    world.batch_noise[:ROWS] = NOISES[:, None]
    name = f"td3 smoothing {dimension}"
    return lab.run(setups.off_policy(name, "td3", world, weights, 3, **RATES))


def acting(lab: Lab) -> Run:
    """The policy acts with dictated noise from the first step on and does not learn."""
    return lab.run(_acting(lab, "td3 acting", CENTRES, NOISES))


def beyond(lab: Lab) -> Run:
    """Noise of a given size takes actions beyond both bounds of a wide range."""
    return lab.run(_acting(lab, "td3 beyond", CENTRES, NOISES, exploration_noise=EXPLORATION))


def narrow(lab: Lab) -> Run:
    """The same on a narrow range."""
    noise = {"exploration_noise": EXPLORATION}
    return lab.run(_acting(lab, "td3 narrow", CENTRES, NOISES, NARROW_LOW, NARROW_HIGH, **noise))


def still(lab: Lab) -> Run:
    """The policy acts without noise."""
    return lab.run(_acting(lab, "td3 still", OUTPUTS, np.zeros(ROWS)))


def counting(lab: Lab) -> Run:
    """Some updates after an odd number of random steps, without exploration noise."""
    return lab.run(_counting(lab, "td3 counts", exploration_noise=0.0))


def warming(lab: Lab) -> Run:
    """The same with exploration noise."""
    return lab.run(_counting(lab, "td3 warm-up", exploration_noise=EXPLORATION))


def copies(lab: Lab) -> Run:
    """Four copies of the environment and an update per transition."""
    experiment = _counting(lab, "td3 copies", exploration_noise=0.0, learning_starts=12)
    return lab.run(setups.with_copies(experiment, 4))


def own(lab: Lab, number: int = 0) -> Run:
    """A short training with the framework's own settings and networks."""
    return lab.run(setups.own(lab, "td3", number))


def centres() -> Array:
    """Actions of the policy without noise in the first dimension."""
    return np.asarray((LOW[0] + HIGH[0]) / 2 + HALF * np.tanh(CENTRES))


def _acting(
    lab: Lab,
    name: str,
    outputs: Array,
    noise: Array,
    low: tuple[float, ...] = LOW,
    high: tuple[float, ...] = HIGH,
    **changes: Any,
) -> Experiment:
    weights = setups.weights(lab, "td3")
    setups.pass_through(weights, "policy", "out", shift=8.0)
    world = setups.dictation(lab, ROWS, low, high, ends=False)
    world.observations[:ROWS, 0] = outputs
    world.acting_noise[:] = noise[:, None]
    settings = setups.seldom(lab, "td3", ROWS) | FROZEN | {"batch_size": 2} | changes
    return setups.off_policy(name, "td3", world, weights, warm_up=0, **settings)


def _counting(lab: Lab, name: str, **changes: Any) -> Experiment:
    world: Dictation = setups.dictation(lab, 32)
    settings = {**FROZEN, "batch_size": 4, "policy_delay": DELAY, "tau": 0.05, **changes}
    return setups.off_policy(name, "td3", world, setups.weights(lab, "td3"), warm_up=11, **settings)
