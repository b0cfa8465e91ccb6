"""Types of the optional part of the adapter contract that lets probes watch a training.

A probe hands an adapter a `ProbeScript`; the adapter trains with upstream's code and returns a
`ProbeRecord` of what the optimizers did.
"""

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array, Checkpointable, Policy, PolicyIO, Weights
from parallax.harness.contract.probing.scripted_env import ScriptedWorld

Parameters = Mapping[str, Array]
"""Weights or gradients in the canonical layout.

`<network>.<layer>.weight` float[outputs, inputs] and `.bias` float[outputs]. Networks are
`policy`, `value` (PPO), `critic1`, `critic2` (TD3, SAC: inputs are observation, then action),
and `policy_target`, `critic1_target`, `critic2_target`. Layers are 0, 1, ... for the hidden
ones and `out`; SAC's policy has `mean` and `std` instead of `out`. In addition there are
`policy.log_std` (PPO) float[actions] and `temperature.log` (SAC) float[1]. R2D2's networks are
`critic1`, `critic1_target` and `actor`, with `lstm_input` and `lstm_state` after layer 0: see
`parallax.harness.probes.r2d2.sequences`.
"""

PROBED_SOURCE = "PARALLAX_PROBED_SOURCE"
"""Variable with the folder that a worker imports a framework from, if it is not installed."""
ACTION, ACTION_DRAWN, MINIBATCH_DRAWN = "action", "action drawn", "minibatch drawn"
"""Events whose source lines are recorded: an action is taken; its noise or a minibatch is drawn."""
CRITIC_LOSS, POLICY_LOSS = "loss of critic1", "loss of policy"
TEMPERATURE_LOSS, POLICY_STEP = "loss of temperature", "step of policy"
"""Events of one network: a loss is differentiated, or its optimizer takes a step."""


STATE_STEPS = "state steps"
"""Key of `OptimizerStepRecord.settings`: steps that the optimizer's state remembers."""


@dataclasses.dataclass(frozen=True)
class ProbeScript:
    """Instructions of a probe for one training.

    Attributes:
        world: The environment and its clock.
        weights: Initial weights of the networks; upstream's own initialisation stays for names
            that are missing here.
        snapshots: Number of first optimizer steps whose gradients and parameters are saved.
        traces_lines: Whether upstream's source lines are recorded, which takes time.
        float64: Whether to train in float64.
        saved_cycles: Update cycles after which all networks are saved, counted from 1. A cycle is
            all optimizer steps between two steps of the environment.
        reads_actions_only: Whether only the environment's record is read, so that updates need not
            be watched and the model need not be saved and loaded.
    """

    world: ScriptedWorld
    weights: Parameters
    snapshots: int = 0
    traces_lines: bool = True
    float64: bool = False
    saved_cycles: frozenset[int] = frozenset()
    reads_actions_only: bool = False

    @property
    def reloads_model(self) -> bool:
        """Return whether the trained model is saved and loaded, to compare its settings."""
        return self.world.scripted_data.own_rng and not self.reads_actions_only


@dataclasses.dataclass(frozen=True, eq=False)
class OptimizerStepRecord:
    """One step of one optimizer; compared by identity.

    Attributes:
        env_steps: Environment steps taken before it.
        networks: Canonical names of the networks that it moves.
        optimizer: Name of its class.
        settings: Numbers in the parameter group of each network: lr, eps, beta1, beta2, all other
            options of the library's by their own names, and `STATE_STEPS`.
        observations: Last input of the policy, float[rows, observations]: the minibatch.
        gradients: As passed to the optimizer; saved for the first steps only.
        before: All networks before the step; saved for the first steps only.
        after: All networks after the step; saved for the first steps only.
        critic_inputs: Inputs of critics since the step before, each float[rows, observations +
            actions]; saved for the first steps only.
        assigned: Canonical names of the networks whose weights it has, also of those without a
            gradient, which it does not move.
    """

    env_steps: int
    networks: tuple[str, ...]
    optimizer: str
    settings: Mapping[str, Mapping[str, float]]
    observations: Array
    gradients: Parameters
    before: Parameters
    after: Parameters
    critic_inputs: tuple[Array, ...] = ()
    assigned: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class LossRecord:
    """A scalar that was differentiated."""

    value: float
    steps: int


@dataclasses.dataclass(frozen=True)
class GeneratorEvent:
    """A random generator that was seeded, made or set back once training had begun.

    Attributes:
        description: What happened, such as `torch.manual_seed`.
        source_line: Upstream's file and line; empty if unknown.
    """

    env_steps: int
    updates: int
    description: str
    source_line: str = ""


@dataclasses.dataclass(frozen=True)
class ProbeRecord:
    """Recording of one training.

    Attributes:
        created: All networks as upstream initialised them.
        steps: All optimizer steps, in order.
        losses: All backward passes, in order.
        target_moves: One entry per network and update of its target,
            `(env_steps, optimizer steps, network)`: the steps taken when it had moved.
        stored: Arrays in the framework's buffer, by canonical name: `observations`, `actions`,
            `rewards`, and those available of `next_observations`, `terminated`, `log_probs`,
            `values`, `advantages`, `returns`; one row per transition. Where advantages are
            normalized over the rollout before it is split, `advantage_weights` are the result.
            R2D2 has one row per sequence: `begins` and `lengths` in their episode, `burned`
            burn-in steps, and `probabilities` of being drawn.
        final: All networks at the end.
        metrics: Metrics that upstream reported, in order.
        rollouts: The same as `stored` for each rollout of PPO, read before its updates.
        upstream_settings: Settings in upstream's own objects at the end, by unified name.
        reloaded_settings: Numbers of a model before and after upstream's own functions saved and
            loaded it, by upstream's name; only of trainings with the framework's random numbers.
        source_lines: Upstream's files and lines, by event: `action`, `action drawn`,
            `minibatch drawn`, `loss of <network>`, `step of <network>`.
        substitute_networks: Networks of the shape that probes know which replace the recipe's
            own. Frameworks whose agents take any network are probed with them.
        saved_weights: All networks after each cycle of `ProbeScript.saved_cycles` that was
            reached.
        generator_events: Random generators that were seeded, made or set back during training.
    """

    created: Parameters
    steps: tuple[OptimizerStepRecord, ...]
    losses: tuple[LossRecord, ...]
    target_moves: tuple[tuple[int, int, str], ...]
    stored: Mapping[str, NDArray[Any]]
    final: Parameters
    metrics: tuple[Mapping[str, float], ...]
    rollouts: tuple[Mapping[str, NDArray[Any]], ...] = ()
    upstream_settings: Mapping[str, float] = dataclasses.field(default_factory=dict)
    reloaded_settings: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    source_lines: Mapping[str, str] = dataclasses.field(default_factory=dict)
    substitute_networks: tuple[str, ...] = ()
    saved_weights: Mapping[int, Parameters] = dataclasses.field(default_factory=dict)
    generator_events: tuple[GeneratorEvent, ...] = ()


class ProbeMonitor:
    """Monitor of a probed training: saves the reported metrics and the greedy policy."""

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
        """Save the policy."""
        self.policy = policy

    def safe_point(self) -> None:
        """Do nothing: probed trainings are not interrupted."""

    def record(self, metrics: Mapping[str, float]) -> None:
        """Save the metrics."""
        self.metrics.append(dict(metrics))

    def wrap_policy(self, apply_changes: Callable[[], AbstractContextManager[object]]) -> None:
        """Let the policy act with the same changed code after the training as during it."""
        policy = self.policy
        if policy is None:
            return

        def act(observations: NDArray[np.float32]) -> NDArray[Any]:
            with apply_changes():
                return policy(observations)

        self.policy = act

    def predict_greedy(self, observations: Array) -> Array:
        """Return the framework's greedy actions, float[rows, actions]."""
        assert self.policy is not None
        return np.asarray(self.policy(observations.astype(np.float32)), dtype=float)
