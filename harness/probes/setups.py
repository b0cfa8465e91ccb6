"""Experiments that several probes read."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.contract.algorithms import ALGORITHMS
from harness.contract.algorithms.base import field_names
from harness.probes.lab import Experiment, Lab
from harness.probes.networks import HIDDEN, draw_weights, single
from harness.probes.results import Array
from harness.probes.world import TERMINATED, TRUNCATED, Dictation

OBSERVATIONS, ACTIONS = 16, 2
CHOICES = 4
"""Discrete actions."""
ROWS = 24
"""Transitions in a minibatch, fewer than any network's hidden units."""

UNIT, MINUS_UNIT = (1.0,) * ACTIONS, (-1.0,) * ACTIONS
LOW, HIGH = (-1.0, -2.0), (3.0, 2.0)
"""Bounds that tell units and dimensions apart; one half range, as TorchRL needs."""
HALF = 2.0
NARROW_LOW, NARROW_HIGH = (-0.1, -0.5), (0.5, 0.1)
"""Bounds that are near each other, and of which neither lies around 0."""
EDGES = tuple(
    f"{edge} bound {dimension} of the {kind} range"
    for kind in ("wide", "narrow")
    for dimension in (1, 2)
    for edge in ("lower", "upper")
)
"""Names of both ranges' bounds."""
OWN_OFF_POLICY: dict[str, Any] = {
    "learning_starts": 8,
    "batch_size": 4,
    "buffer_size": 1000,
    "env_steps_per_round": 1,
    "gradient_steps_per_round": 1,
}
OWN_STEPS = 100
"""Steps of a training that is long enough for every framework's own settings."""
NO_LEARNING = 1e-30
"""A learning rate that leaves float32 weights as they are."""


def dictation(
    lab: Lab,
    steps: int,
    low: tuple[float, ...] = MINUS_UNIT,
    high: tuple[float, ...] = UNIT,
    ends: bool = True,
    **replaced: Array,
) -> Dictation:
    """A random world; with `ends`, every fifth step ends an episode, one way or the other.

    Args:
        lab: Has the seed of all numbers.
        steps: Environment steps.
        low: Smallest action per dimension.
        high: Largest action per dimension.
        ends: Whether episodes end.
        replaced: Fields of the dictation to use instead.
    """
    generator = np.random.default_rng(lab.seed)
    actions = len(low)
    turn = np.arange(steps)
    ending = np.where(turn % 10 == 4, TERMINATED, np.where(turn % 10 == 9, TRUNCATED, 0))
    fields: dict[str, Any] = {
        "observations": single(generator.normal(size=(steps + 1, OBSERVATIONS))),
        "resets": single(generator.normal(size=(steps + 1, OBSERVATIONS))),
        "rewards": single(generator.normal(size=steps)),
        "ends": ending if ends else np.zeros(steps, dtype=int),
        "random_actions": generator.uniform(size=(steps, actions)),
        "acting_noise": single(generator.normal(size=(steps, actions))),
        "batch_noise": single(generator.normal(size=(4 * ROWS, actions))),
    }
    return Dictation(**(fields | replaced), low=low, high=high)


def choosing(lab: Lab, steps: int, ends: bool = True, **replaced: Any) -> Dictation:
    """The same with choices in the place of actions.

    Args:
        lab: Has the seed of all numbers.
        steps: Environment steps.
        ends: Whether episodes end.
        replaced: Fields of the dictation to use instead.
    """
    picks = np.random.default_rng([lab.seed, 2]).uniform(size=(steps, 1))
    world = dictation(lab, steps, (), (), ends)
    fields: dict[str, Any] = {"random_actions": picks, "choices": CHOICES} | replaced
    return dataclasses.replace(world, **fields)


def weights(lab: Lab, algorithm: str) -> dict[str, Array]:
    """Random weights of all networks; the arrays are everybody's and cannot be written to."""

    def draw() -> dict[str, Array]:
        generator = np.random.default_rng([lab.seed, 1])
        size = CHOICES if ALGORITHMS[algorithm].actions == "discrete" else ACTIONS
        found = draw_weights(generator, algorithm, OBSERVATIONS, size, sizes(lab, algorithm))
        for array in found.values():
            array.flags.writeable = False
        return found

    return dict(lab.once(("weights", algorithm), draw))


def sizes(lab: Lab, algorithm: str) -> tuple[int, int]:
    """Units of both hidden layers: those of `HIDDEN`, or as many in both where these must be so."""
    first, second = HIDDEN[algorithm][0]

    def choose() -> tuple[int, int]:
        taken = first == second or lab.accepts(
            algorithm, {"hidden_sizes": (first, second)}, OWN_STEPS
        )
        return (first, second) if taken else (first, first)

    return lab.once(("sizes", algorithm), choose)


def pass_through(weights: dict[str, Array], network: str, head: str, shift: float = 40.0) -> None:
    """Makes a head of a ReLU network put out the first observation, and its other heads 0.

    Args:
        weights: Changed in place.
        network: Canonical name.
        head: Its output layer.
        shift: Keeps the hidden unit that passes the observation on above 0.
    """
    for name, array in weights.items():
        if name.startswith(f"{network}."):
            weights[name] = np.zeros_like(array)
    weights[f"{network}.0.weight"][0, 0] = weights[f"{network}.1.weight"][0, 0] = 1.0
    weights[f"{network}.0.bias"][0] = shift
    weights[f"{network}.{head}.weight"][:, 0] = 1.0
    weights[f"{network}.{head}.bias"][:] = -shift


def off_policy(
    name: str,
    algorithm: str,
    world: Dictation,
    networks: Mapping[str, Array],
    snapshots: int = 0,
    warm_up: int = ROWS,
    **changes: Any,
) -> Experiment:
    """Random actions for a while, then an update per step on the first transitions.

    Args:
        name: Of the experiment.
        algorithm: `td3` or `sac`.
        world: What is dictated.
        networks: Weights to start from.
        snapshots: Optimiser steps to keep in full.
        warm_up: Steps with random actions.
        changes: Further hyperparameters.
    """
    changes = {
        "learning_starts": warm_up,
        "batch_size": ROWS,
        "buffer_size": 1000,
        "env_steps_per_round": 1,
        "gradient_steps_per_round": 1,
        "hidden_sizes": (256, 256),
    } | changes
    return Experiment(name, algorithm, world, changes, networks, snapshots)


def seldom(lab: Lab, algorithm: str, steps: int) -> dict[str, Any]:
    """Settings with which there is one update after all steps, or at least few of the policy.

    What the framework has of it: as little as possible, for nothing is read of these updates.
    """
    rare: dict[str, Any] = {"env_steps_per_round": steps, "gradient_steps_per_round": 1}
    late: dict[str, Any] = {"policy_delay": steps + 1}
    known = set(field_names(ALGORITHMS[algorithm]))

    def choose() -> dict[str, Any]:
        possible = (s for s in (rare, late) if s.keys() <= known)
        return next((s for s in possible if lab.accepts(algorithm, s, steps)), {})

    return lab.once(("seldom", algorithm, steps), choose)


def steepen(weights: dict[str, Array], factor: float) -> None:
    """Multiplies the outputs of all critics but the targets, in place."""
    for name in ("critic1.out.weight", "critic2.out.weight"):
        if name in weights:
            weights[name] = single(weights[name] * factor)


def with_copies(experiment: Experiment, copies: int) -> Experiment:
    """The same on several copies of the environment, with a round per step of all of them."""
    rounds = {"env_steps_per_round": copies, "gradient_steps_per_round": copies}
    steps = len(experiment.dictation.rewards) // copies * copies
    d = experiment.dictation
    world = dataclasses.replace(d, rewards=d.rewards[:steps], ends=d.ends[:steps])
    changes = {**experiment.changes, **rounds}
    return dataclasses.replace(experiment, changes=changes, dictation=world, n_envs=copies)


def own(lab: Lab, algorithm: str, number: int) -> Experiment:
    """A short training with the framework's own settings and networks.

    Args:
        lab: Has the seed.
        algorithm: Name.
        number: Each has weights of its own; the first lasts for some updates.
    """
    discrete = ALGORITHMS[algorithm].actions == "discrete"
    world = (choosing if discrete else dictation)(lab, 8 if number else 16)
    short: dict[str, dict[str, Any]] = {
        "ppo": {"rollout_steps": len(world.rewards) // 2, "minibatch_size": 4, "epochs": 1},
        "td3": OWN_OFF_POLICY,
        "sac": OWN_OFF_POLICY,
        "ddpg": OWN_OFF_POLICY,
        "dqn": OWN_OFF_POLICY,
    }
    name, seed = f"{algorithm} own {number}", lab.seed * 100 + number
    return Experiment(name, algorithm, world, short[algorithm], snapshots=4, seed=seed)
