"""The optional part of the adapter contract: letting probes watch a training."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import (
    Array,
    Checkpointable,
    Policy,
    PolicyIO,
    Weights,
)
from parallax.harness.contract.probing.scripted_env import ScriptedWorld

Parameters = Mapping[str, Array]
"""Weights or gradients in the canonical layout.

`<network>.<layer>.weight` float[outputs, inputs] and `.bias` float[outputs]. Networks are
`policy`, `value` (PPO), `critic1`, `critic2` (TD3, SAC: inputs are observation, then action),
and `policy_target`, `critic1_target`, `critic2_target`. Layers are 0, 1, ... for the hidden
ones and `out`; SAC's policy has `mean` and `std` instead of `out`. Besides, `policy.log_std`
(PPO) float[actions] and `temperature.log` (SAC) float[1]. R2D2's networks are `critic1`,
`critic1_target` and `actor`, and have `lstm_input` and `lstm_state` behind layer 0: see
`parallax.harness.probes.r2d2.sequences`.
"""


@dataclasses.dataclass(frozen=True)
class ProbeScript:
    """What a probe asks of one training.

    Attributes:
        world: The environment and its clock.
        weights: What networks start from; names that are not there stay as upstream made them.
        snapshots: Optimiser steps of which gradients and parameters are kept, from the first.
        places: Whether upstream's lines are told, which takes time.
        double: Whether to train in float64.
        kept: Rounds of updates behind which all networks are kept, from 1. A round is all
            optimiser steps between two steps of the environment.
    """

    world: ScriptedWorld
    weights: Parameters
    snapshots: int = 0
    places: bool = True
    double: bool = False
    kept: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True)
class OptimizerStepRecord:
    """One step of one optimiser.

    Attributes:
        env_steps: Environment steps taken before it.
        networks: Which networks it moves, by canonical name.
        optimizer: Name of its class.
        settings: Numbers in the parameter group of each network: lr, eps, betas, ....
        observations: What the policy saw last, float[rows, observations]: the minibatch.
        pairs: What critics saw since the step before, each float[rows, observations + actions];
            kept for the first steps only.
        gradients: As the optimiser found them; kept for the first steps only.
        before: All networks before the step; kept for the first steps only.
        after: All networks after the step; kept for the first steps only.
    """

    env_steps: int
    networks: tuple[str, ...]
    optimizer: str
    settings: Mapping[str, Mapping[str, float]]
    observations: Array
    gradients: Parameters
    before: Parameters
    after: Parameters
    pairs: tuple[Array, ...] = ()


@dataclasses.dataclass(frozen=True)
class LossRecord:
    """A scalar that was differentiated.

    Attributes:
        value: Of the loss.
        steps: Optimiser steps taken before.
    """

    value: float
    steps: int


@dataclasses.dataclass(frozen=True)
class ProbeRecord:
    """What a probe gets to see of one training.

    Attributes:
        created: All networks as upstream made them.
        steps: All optimiser steps, in order.
        losses: All backward passes, in order.
        target_moves: Environment steps at which targets had moved: one entry per move and
            network, `(env_steps, optimiser steps, network)`.
        stored: What the framework stored, by canonical name: `observations`, `actions`,
            `rewards`, and what there is of `next_observations`, `terminated`, `log_probs`,
            `values`, `advantages`, `returns`; one row per transition. Where advantages are
            standardised before minibatches are cut, what they are then is `get_advantage_weights`.
            R2D2 has one row per sequence: `begins` and `lengths` in their episode, `burned` steps
            before them, and `probabilities` of being drawn.
        final: All networks at the end.
        metrics: What upstream reported, in order.
        rollouts: The same as `stored` for each rollout of PPO, before it was learned from.
        told: Settings that upstream's own objects hold at the end, by unified name.
        places: Upstream's files and lines, by event: `action`, `action drawn`, `minibatch drawn`,
            `loss of <network>`, `step of <network>`.
        lent: Networks in the shape that probes know, in the place of the recipe's own: a framework
            that takes any network is asked about its updates with these.
        kept: All networks behind the rounds that `ProbeScript.kept` names, as far as there were so many.
    """

    created: Parameters
    steps: tuple[OptimizerStepRecord, ...]
    losses: tuple[LossRecord, ...]
    target_moves: tuple[tuple[int, int, str], ...]
    stored: Mapping[str, NDArray[Any]]
    final: Parameters
    metrics: tuple[Mapping[str, float], ...]
    rollouts: tuple[Mapping[str, NDArray[Any]], ...] = ()
    told: Mapping[str, float] = dataclasses.field(default_factory=dict)
    places: Mapping[str, str] = dataclasses.field(default_factory=dict)
    substitute_networks: tuple[str, ...] = ()
    kept: Mapping[int, Parameters] = dataclasses.field(default_factory=dict)


class ProbeMonitor:
    """The monitor of a probed training: keeps what upstream reports and the greedy policy."""

    def __init__(self) -> None:
        self.metrics: list[Mapping[str, float]] = []
        self.policy: Policy | None = None

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        policy_io: PolicyIO | None = None,
        checkpointable: Checkpointable | None = None,
    ) -> None:
        """Keeps the policy."""
        self.policy = policy

    def safe_point(self) -> None:
        """Takes no notice."""

    def record(self, metrics: Mapping[str, float]) -> None:
        """Keeps the metrics."""
        self.metrics.append(dict(metrics))

    def greedy(self, observations: Array) -> Array:
        """The framework's greedy actions, float[rows, actions]."""
        assert self.policy is not None
        return np.asarray(self.policy(observations.astype(np.float32)), dtype=float)
