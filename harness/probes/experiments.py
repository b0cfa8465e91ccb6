"""Scripted trainings that probes read, each run once per framework."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from parallax.envs.tasks import Task
from parallax.harness.contract.acceleration import NO_ACCELERATION, split_device
from parallax.harness.contract.adapter import Adapter, Array, RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import field_names
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.own_script import OwnScript
from parallax.harness.contract.probing.protocol import (
    POLICY_LOSS,
    Parameters,
    ProbeMonitor,
    ProbeRecord,
    ProbeScript,
)
from parallax.harness.contract.probing.scripted_env import (
    ENV_ID,
    TRUNCATED,
    IntegerDraw,
    ScriptedData,
    ScriptedTransition,
    ScriptedWorld,
)
from parallax.harness.contract.recipes import load_recipe, set_common_fields
from parallax.harness.contract.translation import NativeConfig
from parallax.harness.contract.upstream_code import silence_output
from parallax.harness.interventions.catalogue import (
    Intervention,
    check_segments_in_script,
    list_conversions,
    make_patches,
    make_replacement,
)
from parallax.harness.probes.reference_networks import HIDDEN_LAYERS

CachedValue = TypeVar("CachedValue")
Arguments = ParamSpec("Arguments")
UNIT_BOUNDS = ((-1.0,), (1.0,), 0, 0)
"""Bounds, time limit and number of discrete actions of a task with continuous actions."""


@dataclasses.dataclass(frozen=True)
class ProbeExperiment:
    """One training that probes read.

    Attributes:
        name: Unique; runs are cached by it.
        algorithm: Name of the algorithm.
        scripted_data: Environment and random numbers; one row per environment step.
        changes: Unified hyperparameters that differ from the library defaults.
        weights: Initial weights of the networks.
        snapshots: Number of optimizer steps whose gradients and parameters are saved.
        n_envs: Number of parallel environments.
        seed: Seed that the framework receives.
        std: SAC: maps the policy network's output to a standard deviation, where known.
        squashed: SAC: whether samples of the policy are squashed by tanh.
        float64: Whether to train in float64.
        saved_cycles: Update cycles after which all networks are saved; see `ProbeScript`.
        reads_actions_only: Whether updates are not watched; see `ProbeScript`.
    """

    name: str
    algorithm: str
    scripted_data: ScriptedData
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    weights: Parameters = dataclasses.field(default_factory=dict)
    snapshots: int = 0
    n_envs: int = 1
    seed: int = 0
    std: Callable[[Array], Array] | None = None
    squashed: bool = True
    float64: bool = False
    saved_cycles: frozenset[int] = frozenset()
    reads_actions_only: bool = False


@dataclasses.dataclass(frozen=True)
class ProbeRun:
    """An experiment with its recording.

    Attributes:
        experiment: The experiment.
        hyperparameters: All unified hyperparameters of the run.
        record: Recording of the optimizers.
        transitions: Steps of the environment, in order.
        monitor: Reported metrics and the greedy policy.
        draws: Calls that drew random integers; see `ScriptedWorld`.
        thresholds: Environment steps taken before, and epsilon; see `ScriptedWorld`.
        patched_fields: Hyperparameters that patches of upstream's code set.
        cached_values: Values that `get_or_compute` has computed.
    """

    experiment: ProbeExperiment
    hyperparameters: Any
    record: ProbeRecord
    transitions: tuple[ScriptedTransition, ...]
    monitor: ProbeMonitor
    draws: tuple[IntegerDraw, ...] = ()
    thresholds: tuple[tuple[int, float], ...] = ()
    patched_fields: tuple[str, ...] = ()
    cached_values: dict[Hashable, Any] = dataclasses.field(default_factory=dict)

    def get_or_compute(self, key: Hashable, compute: Callable[[], CachedValue]) -> CachedValue:
        """Return the cached value of `key`, computed at the first call."""
        if key not in self.cached_values:
            self.cached_values[key] = compute()
        found: CachedValue = self.cached_values[key]
        return found

    @property
    def weights(self) -> Parameters:
        """Initial weights of the networks."""
        return {**self.record.created, **self.experiment.weights}

    def get_actions(self) -> Array:
        """Return the actions that reached the environment, float[steps, actions]."""
        return np.array([transition.action.reshape(-1) for transition in self.transitions])


UPSTREAM_LEVEL = "upstream"


@dataclasses.dataclass(frozen=True)
class AlignmentLevel:
    """Hyperparameters of a probed implementation that the experiments do not set.

    Attributes:
        name: `upstream`: the framework's own, and its own values for options that no
            hyperparameter covers; `defaults`: the framework's own; `common`: the same but for
            what every framework exposes, which is a recipe's; `exact`: those of a recipe, by
            patches where upstream fixes them; `lockstep`: the same in the reference form of each
            algorithm.
        hps: Name of the recipe.
    """

    name: str = "defaults"
    hps: str = "original"

    @property
    def uses_recipe(self) -> bool:
        """Return whether any hyperparameters are those of a recipe."""
        return self.name not in ("defaults", UPSTREAM_LEVEL)

    @property
    def sets_all(self) -> bool:
        """Return whether all hyperparameters are those of a recipe."""
        return self.name in ("exact", "lockstep")


OWN_DEFAULTS = AlignmentLevel()


class ExperimentCache:
    """Cache of one framework's runs of experiments, each executed once.

    Attributes:
        adapter: The framework's adapter.
        seed: Seed of all scripted numbers.
        interventions: Changes that are made in each run of one of their algorithms.
        level: Alignment of the hyperparameters.
        script: The user's own copy of the framework's script, which is run instead of it.
        acceleration: How each run is accelerated, or `none`.
        fixed: Hyperparameters that override those of every experiment.
    """

    def __init__(
        self,
        adapter: Adapter,
        seed: int = 0,
        interventions: Sequence[Intervention] = (),
        level: AlignmentLevel = OWN_DEFAULTS,
        script: OwnScript | None = None,
        acceleration: str = NO_ACCELERATION,
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        self.adapter = adapter
        self.seed = seed
        self.interventions = tuple(interventions)
        self.level = level
        self.script = script
        self.acceleration = acceleration
        self.fixed = fixed or {}
        self._runs: dict[str, ProbeRun] = {}
        self._source_lines: dict[str, dict[str, str]] = {}
        self._cache: dict[Hashable, Any] = {}
        self._not_finite: dict[str, str] = {}
        self._missing_resets: dict[str, str] = {}

    def get_source_line(self, algorithm: str, event: str) -> str:
        """Return upstream's file and line at which `event` happens; empty if unknown."""
        return self._source_lines.get(algorithm, {}).get(event, "")

    def describe_infinite_actions(self, algorithm: str) -> str:
        """Describe an action of any training that was not finite; empty if all were finite."""
        return self._not_finite.get(algorithm, "")

    def describe_missing_reset(self, algorithm: str) -> str:
        """Describe a step of an episode that had ended, of any training; empty if there is none."""
        return self._missing_resets.get(algorithm, "")

    def run(self, experiment: ProbeExperiment) -> ProbeRun:
        """Return the run of an experiment, which is executed at the first call.

        Raises:
            SpecError: The framework refuses a hyperparameter.
        """
        if experiment.name not in self._runs:
            self._runs[experiment.name] = self._run_experiment(experiment)
        return self._runs[experiment.name]

    def list_runs(self) -> list[ProbeRun]:
        """Return all runs so far."""
        return list(self._runs.values())

    def drop_other_algorithms(self, algorithm: str) -> None:
        """Drop the runs of all other algorithms, to free memory."""
        self._runs = {n: r for n, r in self._runs.items() if r.experiment.algorithm == algorithm}

    def get_or_compute(self, key: Hashable, compute: Callable[[], CachedValue]) -> CachedValue:
        """Return the cached value of `key`, computed at the first call."""
        if key not in self._cache:
            self._cache[key] = compute()
        found: CachedValue = self._cache[key]
        return found

    def set_value(self, key: Hashable, value: Any) -> None:
        """Set the value that `get_or_compute` returns for `key`."""
        self._cache[key] = value

    def accepts_settings(self, algorithm: str, changes: Mapping[str, Any], steps: int) -> bool:
        """Return whether the framework accepts settings for a training of `steps` steps."""
        bounds = ((), (), 0, 2) if ALGORITHMS[algorithm].actions == "discrete" else UNIT_BOUNDS
        task = Task(ENV_ID, 1, *bounds)
        try:
            self._translate_settings(algorithm, RunContext(task, steps, 0), changes)
        except SpecError:
            return False
        return True

    def _translate_settings(
        self, algorithm: str, context: RunContext, changes: Mapping[str, Any]
    ) -> tuple[Any, NativeConfig]:
        if self.level.sets_all:
            context = dataclasses.replace(context, patch_constants=True, converts_meanings=True)
            base = load_recipe(algorithm, self.level.hps)
            # Scripted weights fit only the networks that probes use.
            shape: dict[str, Any] = {"conv_filters": None, "dueling": False}
            shape |= {"hidden_sizes": HIDDEN_LAYERS.get(algorithm, (None,))[0]}
            names = shape.keys() & field_names(type(base))
            changes = {name: shape[name] for name in names} | dict(changes)
        elif self.level.uses_recipe:
            requested = load_recipe(algorithm, self.level.hps)
            base = set_common_fields(self.adapter, algorithm, requested, context)
        else:
            recipe = load_recipe(algorithm, self.adapter.name)
            base = self.adapter.get_library_defaults(algorithm, recipe, context)
        hyperparameters = dataclasses.replace(base, **{**changes, **self.fixed})
        native = self.adapter.translate(algorithm, hyperparameters, context)
        if self.level.name == UPSTREAM_LEVEL:
            native = native.restore_upstream_options(self.adapter.upstream_defaults(algorithm))
        return hyperparameters, native

    def _run_experiment(self, experiment: ProbeExperiment) -> ProbeRun:
        algorithm, data = experiment.algorithm, experiment.scripted_data
        device, acceleration = split_device(self.acceleration)
        context = RunContext(
            data.task,
            len(data.rewards),
            experiment.seed,
            experiment.n_envs,
            device=device,
            script=self.script,
            acceleration=acceleration,
        )
        hyperparameters, native = self._translate_settings(algorithm, context, experiment.changes)
        changes = self._list_code_changes(algorithm, hyperparameters, native)
        if self.script:
            self.adapter.check_script(algorithm, native, context)
            check_segments_in_script(changes, self.script)
        changed = make_replacement(changes)
        world, monitor = ScriptedWorld(data), ProbeMonitor()
        lines = self._source_lines.setdefault(algorithm, {})
        script = ProbeScript(
            world,
            experiment.weights,
            experiment.snapshots,
            # Tracing is slow: once the policy's loss is located, other events are as well.
            traces_lines=POLICY_LOSS not in lines and not experiment.saved_cycles,
            float64=experiment.float64,
            saved_cycles=experiment.saved_cycles,
            reads_actions_only=experiment.reads_actions_only,
        )
        try:
            with silence_output(), changed.apply_replacement():
                record = self.adapter.probe(algorithm, native, context, script, monitor)
        finally:  # such actions may be why the training failed
            self._note_infinite_actions(algorithm, world)
        lines.update(record.source_lines)
        self._note_missing_resets(experiment, world)
        monitor.wrap_policy(changed.apply_replacement)
        return ProbeRun(
            experiment,
            hyperparameters,
            record,
            tuple(world.transitions),
            monitor,
            draws=tuple(world.draws),
            thresholds=tuple(world.thresholds),
            patched_fields=tuple(native.patched_fields),
        )

    def _list_code_changes(
        self, algorithm: str, hyperparameters: Any, native: NativeConfig
    ) -> list[Intervention]:
        changes = [item for item in self.interventions if algorithm in item.algorithms]
        if self.level.name == "exact":
            names = [item.name for item in changes]
            changes += list_conversions(names, native, self.adapter, algorithm)
        changes += make_patches(self.adapter, algorithm, hyperparameters, native.patched_fields)
        return changes

    def _note_infinite_actions(self, algorithm: str, world: ScriptedWorld) -> None:
        for step, transition in enumerate(world.transitions, 1):
            if not np.isfinite(transition.action).all():
                words = f"its training takes an action that is not finite, at step {step}"
                self._not_finite.setdefault(algorithm, words)

    def _note_missing_resets(self, experiment: ProbeExperiment, world: ScriptedWorld) -> None:
        # The next step of the same environment is `n_envs` transitions later.
        pairs = zip(world.transitions, world.transitions[experiment.n_envs :], strict=False)
        for step, (ended, following) in enumerate(pairs, 1):
            if ended.end and np.array_equal(following.observation, ended.next_observation):
                end = "a time limit" if ended.end == TRUNCATED else "the end of the task"
                words = f"its environment is not reset after {end}, at step {step}: it goes on"
                self._missing_resets.setdefault(experiment.algorithm, words)


CacheOwner = TypeVar("CacheOwner", ProbeRun, ExperimentCache)


def compute_once(
    compute: Callable[Concatenate[CacheOwner, Arguments], CachedValue],
) -> Callable[Concatenate[CacheOwner, Arguments], CachedValue]:
    """Decorate a function of a run or of a cache, which stores its results by further arguments."""

    @functools.wraps(compute)
    def read(
        owner: CacheOwner, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> CachedValue:
        key = compute, args, tuple(kwargs.items())
        return owner.get_or_compute(key, lambda: compute(owner, *args, **kwargs))

    return read
