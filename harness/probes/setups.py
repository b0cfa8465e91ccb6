"""Experiments that several probes read."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.probes.lab import Experiment
from harness.probes.networks import draw_weights, single
from harness.probes.results import Array
from harness.probes.world import TERMINATED, TRUNCATED, Dictation

OBSERVATIONS, ACTIONS = 16, 2
ROWS = 24
"""Transitions in a minibatch, fewer than any network's hidden units."""

UNIT, MINUS_UNIT = (1.0,) * ACTIONS, (-1.0,) * ACTIONS
NO_LEARNING = 1e-30
"""A learning rate that leaves float32 weights as they are."""


def dictation(
    steps: int,
    seed: int = 0,
    low: tuple[float, ...] = MINUS_UNIT,
    high: tuple[float, ...] = UNIT,
    ends: bool = True,
    **replaced: Array,
) -> Dictation:
    """A random world; with `ends`, every seventh step ends an episode, one way or the other.

    Args:
        steps: Environment steps.
        seed: Of all numbers.
        low: Smallest action per dimension.
        high: Largest action per dimension.
        ends: Whether episodes end.
        replaced: Fields of the dictation to use instead.
    """
    generator = np.random.default_rng(seed)
    actions = len(low)
    turn = np.arange(steps)
    ending = np.where(turn % 14 == 6, TERMINATED, np.where(turn % 14 == 13, TRUNCATED, 0))
    fields: dict[str, Any] = {
        "observations": single(generator.normal(size=(steps + 1, OBSERVATIONS))),
        "resets": single(generator.normal(size=(steps + 1, OBSERVATIONS))),
        "rewards": single(generator.normal(size=steps)),
        "ends": ending if ends else np.zeros(steps, dtype=int),
        "random_actions": generator.uniform(0.05, 0.95, size=(steps, actions)),
        "acting_noise": single(generator.normal(size=(steps, actions))),
        "batch_noise": single(generator.normal(size=(4 * ROWS, actions))),
    }
    return Dictation(**(fields | replaced), low=low, high=high)


def weights(algorithm: str, seed: int = 1) -> dict[str, Array]:
    """Random weights of all networks."""
    return draw_weights(np.random.default_rng(seed), algorithm, OBSERVATIONS, ACTIONS)


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
    updates: int,
    networks: Mapping[str, Array],
    snapshots: int = 0,
    warm_up: int = ROWS,
    world: Dictation | None = None,
    **changes: Any,
) -> Experiment:
    """Random actions for a while, then an update per step on the first transitions.

    Args:
        name: Of the experiment.
        algorithm: `td3` or `sac`.
        updates: Environment steps after the warm-up.
        networks: Weights to start from.
        snapshots: Optimiser steps to keep in full.
        warm_up: Steps with random actions.
        world: What is dictated; random unless given.
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
    world = dictation(warm_up + updates) if world is None else world
    return Experiment(name, algorithm, world, changes, networks, snapshots)
