"""Data, weights, settings and experiments that several probes share."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import field_names
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED, ScriptedData
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.probes.experiments import (
    ExperimentCache,
    ProbeExperiment,
    ProbeRun,
    compute_once,
)
from parallax.harness.probes.reference_networks import HIDDEN_LAYERS, draw_weights, round_to_float32

OBSERVATION_SIZE, ACTION_SIZE = 16, 2
N_DISCRETE_ACTIONS = 4
BATCH_ROWS = 24
"""Transitions in a minibatch, fewer than any network's hidden units."""

UNIT_HIGH, UNIT_LOW = (1.0,) * ACTION_SIZE, (-1.0,) * ACTION_SIZE
WIDE_LOW, WIDE_HIGH = (-1.0, -2.0), (3.0, 2.0)
"""Bounds that distinguish units and dimensions; one half range, as TorchRL needs."""
HALF_RANGE = 2.0
NARROW_LOW, NARROW_HIGH = (-0.1, -0.5), (0.5, 0.1)
"""Narrow bounds whose range is not centred at 0 in any dimension."""
BOUND_NAMES = tuple(
    f"{edge} bound {dimension} of the {kind} range"
    for kind in ("wide", "narrow")
    for dimension in (1, 2)
    for edge in ("lower", "upper")
)
"""Names of both ranges' bounds."""
SHORT_OFF_POLICY_SETTINGS: dict[str, Any] = {
    "learning_starts": 8,
    "batch_size": 4,
    "buffer_size": 1000,
    "train_freq": 1,
    "gradient_steps": 1,
}
SHORT_STEPS = 100
"""Steps of a training that is long enough for every framework's own settings."""
NO_LEARNING = 1e-30
"""A learning rate that is too small to change float32 weights."""
REWARD_SCALE = 1e3
"""Factor of rewards and critics that shows whether gradients are clipped."""
FULL_BUFFER_STEPS = 36
"""Warm-up steps of a training whose buffer holds fewer transitions."""
FULL_BUFFER_SETTINGS = {"learning_starts": FULL_BUFFER_STEPS, "buffer_size": FULL_BUFFER_STEPS - 9}
FULL_BUFFER_ROWS = FULL_BUFFER_STEPS + 8 - BATCH_ROWS
"""Rows of scripted data beyond a minibatch's in such a training."""


def make_continuous_data(
    cache: ExperimentCache,
    steps: int,
    low: tuple[float, ...] = UNIT_LOW,
    high: tuple[float, ...] = UNIT_HIGH,
    ends: bool = True,
    **replaced: Array,
) -> ScriptedData:
    """Return random data; with `ends`, every fifth step terminates or truncates an episode.

    Args:
        cache: Provides the seed of all numbers.
        steps: Environment steps.
        low: Smallest action per dimension.
        high: Largest action per dimension.
        ends: Whether episodes end.
        replaced: Fields of the scripted data to replace.
    """
    generator = np.random.default_rng(cache.seed)
    actions = len(low)
    turn = np.arange(steps)
    ending = np.where(turn % 10 == 4, TERMINATED, np.where(turn % 10 == 9, TRUNCATED, 0))
    fields: dict[str, Any] = {
        "observations": round_to_float32(generator.normal(size=(steps + 1, OBSERVATION_SIZE))),
        "resets": round_to_float32(generator.normal(size=(steps + 1, OBSERVATION_SIZE))),
        "rewards": round_to_float32(generator.normal(size=steps)),
        "ends": ending if ends else np.zeros(steps, dtype=int),
        "random_actions": generator.uniform(size=(steps, actions)),
        "acting_noise": round_to_float32(generator.normal(size=(steps, actions))),
        "batch_noise": round_to_float32(generator.normal(size=(4 * BATCH_ROWS, actions))),
    }
    return ScriptedData(**(fields | replaced), low=low, high=high)


def make_discrete_data(
    cache: ExperimentCache, steps: int, ends: bool = True, **replaced: Any
) -> ScriptedData:
    """Return the same with discrete actions.

    Args:
        cache: Provides the seed of all numbers.
        steps: Environment steps.
        ends: Whether episodes end.
        replaced: Fields of the scripted data to replace.
    """
    picks = np.random.default_rng([cache.seed, 2]).uniform(size=(steps, 1))
    world = make_continuous_data(cache, steps, (), (), ends)
    fields: dict[str, Any] = {
        "random_actions": picks,
        "n_discrete_actions": N_DISCRETE_ACTIONS,
    } | replaced
    return dataclasses.replace(world, **fields)


def make_weights(cache: ExperimentCache, algorithm: str) -> dict[str, Array]:
    """Return random weights of all networks; the shared arrays are read-only."""
    return dict(_draw_shared_weights(cache, algorithm))


@compute_once
def _draw_shared_weights(cache: ExperimentCache, algorithm: str) -> dict[str, Array]:
    generator = np.random.default_rng([cache.seed, 1])
    size = N_DISCRETE_ACTIONS if ALGORITHMS[algorithm].actions == "discrete" else ACTION_SIZE
    sizes = choose_hidden_sizes(cache, algorithm)
    found = draw_weights(generator, algorithm, OBSERVATION_SIZE, size, sizes)
    for array in found.values():
        array.flags.writeable = False
    return found


def choose_hidden_sizes(cache: ExperimentCache, algorithm: str) -> tuple[int, int]:
    """Return the hidden sizes of `HIDDEN_LAYERS`, made equal if the framework needs equal ones."""
    first, second = HIDDEN_LAYERS[algorithm][0]

    def choose() -> tuple[int, int]:
        taken = first == second or cache.accepts_settings(
            algorithm, {"hidden_sizes": (first, second)}, SHORT_STEPS
        )
        return (first, second) if taken else (first, first)

    return cache.get_or_compute(("sizes", algorithm), choose)


def set_pass_through_weights(
    weights: dict[str, Array], network: str, head: str, shift: float = 40.0
) -> None:
    """Make a head of a ReLU network output the first observation, and its other heads 0.

    Args:
        weights: Changed in place.
        network: Canonical name.
        head: The head's output layer.
        shift: Bias that keeps the pass-through hidden unit above 0.
    """
    for name, array in weights.items():
        if name.startswith(f"{network}."):
            weights[name] = np.zeros_like(array)
    weights[f"{network}.0.weight"][0, 0] = weights[f"{network}.1.weight"][0, 0] = 1.0
    weights[f"{network}.0.bias"][0] = shift
    weights[f"{network}.{head}.weight"][:, 0] = 1.0
    weights[f"{network}.{head}.bias"][:] = -shift


def build_off_policy_experiment(
    name: str,
    algorithm: str,
    world: ScriptedData,
    networks: Mapping[str, Array],
    snapshots: int = 0,
    warm_up: int = BATCH_ROWS,
    **changes: Any,
) -> ProbeExperiment:
    """Return a training with random actions, then an update per step on the first transitions.

    Args:
        name: Name of the experiment.
        algorithm: `td3` or `sac`.
        world: Scripted data.
        networks: Initial weights.
        snapshots: Number of optimizer steps to save in full.
        warm_up: Steps with random actions.
        changes: Further hyperparameters.
    """
    changes = {
        "learning_starts": warm_up,
        "batch_size": BATCH_ROWS,
        "buffer_size": 1000,
        "train_freq": 1,
        "gradient_steps": 1,
        "hidden_sizes": (256, 256),
    } | changes
    return ProbeExperiment(name, algorithm, world, changes, networks, snapshots)


@compute_once
def choose_rare_update_settings(
    cache: ExperimentCache, algorithm: str, steps: int
) -> dict[str, Any]:
    """Return settings with one update after all steps, or at least few updates of the policy.

    The updates are as few as the framework supports, because no probe reads them.
    """
    rare: dict[str, Any] = {"train_freq": steps, "gradient_steps": 1}
    late: dict[str, Any] = {"policy_delay": steps + 1}
    known = set(field_names(ALGORITHMS[algorithm]))
    possible = (s for s in (rare, late) if s.keys() <= known)
    return next((s for s in possible if cache.accepts_settings(algorithm, s, steps)), {})


def scale_critic_outputs(weights: dict[str, Array]) -> None:
    """Multiply the outputs of critics, not of target critics, by `REWARD_SCALE`, in place."""
    for name in ("critic1.out.weight", "critic2.out.weight"):
        if name in weights:
            weights[name] = round_to_float32(weights[name] * REWARD_SCALE)


def parallelize_experiment(experiment: ProbeExperiment, copies: int) -> ProbeExperiment:
    """Return the same experiment on parallel environments, with one cycle per step of all."""
    rounds = {"train_freq": copies, "gradient_steps": copies}
    steps = len(experiment.scripted_data.rewards) // copies * copies
    d = experiment.scripted_data
    world = dataclasses.replace(d, rewards=d.rewards[:steps], ends=d.ends[:steps])
    changes = {**experiment.changes, **rounds}
    return dataclasses.replace(experiment, changes=changes, scripted_data=world, n_envs=copies)


def count_default_steps(number: int) -> int:
    """Return the steps of a training with library defaults; the first has several updates."""
    return 8 if number else 16


def build_defaults_experiment(
    cache: ExperimentCache,
    algorithm: str,
    number: int,
    changes: Mapping[str, Any] = SHORT_OFF_POLICY_SETTINGS,
) -> ProbeExperiment:
    """Return a short training with library defaults and the framework's own initial weights.

    Args:
        cache: Provides the seed.
        algorithm: Name of the algorithm.
        number: Number of the training; each has its own seed.
        changes: Settings that shorten it.
    """
    discrete = ALGORITHMS[algorithm].actions == "discrete"
    make_data = make_discrete_data if discrete else make_continuous_data
    data = make_data(cache, count_default_steps(number))
    if cache.level.sets_all:
        layers = HIDDEN_LAYERS[algorithm][0]
        sizes = getattr(load_recipe(algorithm, cache.level.hps), "hidden_sizes", layers)
        if len(sizes) != len(layers):  # for images: DQN's layers after the convolutions
            changes = {**changes, "hidden_sizes": choose_hidden_sizes(cache, algorithm)}
    name, seed = f"{algorithm} own {number}", cache.seed * 100 + number
    # With an optimizer for each critic, the second update ends with step 5 or 6.
    return ProbeExperiment(name, algorithm, data, changes, snapshots=6, seed=seed)


FULL_PARALLEL_BUFFER = 28
"""Transitions in a buffer that four environments fill before the first update."""


@dataclasses.dataclass(frozen=True)
class OffPolicyRuns:
    """Trainings that probes of all off-policy algorithms read.

    Attributes:
        algorithm: Name of the algorithm.
        build_update: Builds a training with updates on changing minibatches. Takes its name and
            the number of updates.
        build_counts: Builds a training whose events are counted, with one environment or several.
        updates: Number of updates of `run_update`.
        parallel_settings: Hyperparameters that differ on parallel environments.
    """

    algorithm: str
    build_update: Callable[[ExperimentCache, str, int], ProbeExperiment]
    build_counts: Callable[[ExperimentCache, str, bool], ProbeExperiment]
    updates: int
    parallel_settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def run_update(self, cache: ExperimentCache) -> ProbeRun:
        """Run some updates, each on another minibatch."""
        return cache.run(self.build_update(cache, "update", self.updates))

    def run_parallel_update(self, cache: ExperimentCache) -> ProbeRun:
        """Run the same on parallel environments."""
        return cache.run(self._build_parallel_update(cache, "learning copies", 12))

    def run_full_buffer(self, cache: ExperimentCache) -> ProbeRun:
        """Run updates with a buffer that is full before the first of them."""
        experiment = self.build_update(cache, "full", FULL_BUFFER_ROWS)
        changes = {**experiment.changes, **FULL_BUFFER_SETTINGS}
        return cache.run(dataclasses.replace(experiment, changes=changes))

    def run_full_parallel_buffer(self, cache: ExperimentCache) -> ProbeRun:
        """Run the same on parallel environments."""
        starts = BATCH_ROWS + 24 - 4
        sizes = {"learning_starts": starts, "buffer_size": FULL_PARALLEL_BUFFER}
        return cache.run(self._build_parallel_update(cache, "full copies", 24, **sizes))

    def _build_parallel_update(
        self, cache: ExperimentCache, name: str, updates: int, **sizes: int
    ) -> ProbeExperiment:
        experiment = self.build_update(cache, name, updates)
        changes = {**experiment.changes, **self.parallel_settings, **sizes}
        return parallelize_experiment(dataclasses.replace(experiment, changes=changes), 4)

    def run_count_experiment(self, cache: ExperimentCache) -> ProbeRun:
        """Run a training whose events are counted."""
        return cache.run(self.build_counts(cache, "counts", False))

    def run_parallel_envs(self, cache: ExperimentCache) -> ProbeRun:
        """Run the same on four parallel environments with an update per transition."""
        return cache.run(parallelize_experiment(self.build_counts(cache, "copies", True), 4))

    def run_library_defaults(self, cache: ExperimentCache, number: int = 0) -> ProbeRun:
        """Run a short training with library defaults and the framework's own initial weights."""
        return cache.run(build_defaults_experiment(cache, self.algorithm, number))
