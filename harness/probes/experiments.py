"""Runs the trainings that probes read, each once per framework."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import numpy as np

from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import Adapter, Array, RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.probing.protocol import (
    Parameters,
    ProbeMonitor,
    ProbeRecord,
    ProbeScript,
)
from parallax.harness.contract.probing.scripted_env import (
    ENV_ID,
    IntegerDraw,
    ScriptedData,
    ScriptedTransition,
    ScriptedWorld,
)
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.translation import NativeConfig
from parallax.harness.contract.upstream_code import silence_output

CachedValue = TypeVar("CachedValue")
FALLBACK_EVENT = "loss of policy"
"""Where all of an algorithm's lines are known, its further trainings are not asked for them."""
UNIT_BOUNDS = ((-1.0,), (1.0,), 0, 0)
"""Bounds, time limit and choices of a task with continuous actions."""


@dataclasses.dataclass(frozen=True)
class ProbeExperiment:
    """One training that probes read.

    Attributes:
        name: Unique; results are kept by it.
        algorithm: `ppo`, `td3` or `sac`.
        dictation: World and random numbers; its rows are the steps of the training.
        changes: Unified hyperparameters that differ from the framework's own defaults.
        weights: What networks start from.
        snapshots: Optimiser steps of which gradients and parameters are kept.
        n_envs: Copies of the environment.
        seed: What the framework is told to seed its generators with.
        std: SAC: standard deviations for what the policy's network puts out, where known.
        squashed: SAC: whether tanh squashes what the policy draws.
        double: Whether to train in float64.
        kept: Rounds of updates behind which all networks are kept; see `ProbeScript`.
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
    double: bool = False
    kept: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True)
class ProbeRun:
    """An experiment that was carried out.

    Attributes:
        experiment: What was asked for.
        hyperparameters: All unified hyperparameters of the run.
        record: What the optimisers did.
        transitions: What the environment saw.
        watch: What the framework reported, and its greedy policy.
        draws: Random whole numbers it asked for; see `ScriptedWorld`.
        thresholds: Shares of random actions, with environment steps taken before; see `ScriptedWorld`.
        kept: What was made of it and is read again; see `once`.
    """

    experiment: ProbeExperiment
    hyperparameters: Any
    record: ProbeRecord
    transitions: tuple[ScriptedTransition, ...]
    watch: ProbeMonitor
    draws: tuple[IntegerDraw, ...] = ()
    thresholds: tuple[tuple[int, float], ...] = ()
    kept: dict[Hashable, Any] = dataclasses.field(default_factory=dict)

    def get_or_compute(self, key: Hashable, make: Callable[[], CachedValue]) -> CachedValue:
        """What `make` makes, made at the first call with this key and kept."""
        if key not in self.kept:
            self.kept[key] = make()
        found: CachedValue = self.kept[key]
        return found

    @property
    def weights(self) -> Parameters:
        """What networks started from."""
        return {**self.record.created, **self.experiment.weights}

    def actions(self) -> Array:
        """Actions that reached the environment, float[steps, actions]."""
        return np.array([transition.action.reshape(-1) for transition in self.transitions])


class ExperimentCache:
    """One framework, and what it has already done.

    Attributes:
        adapter: Of the framework.
        seed: Of all that is dictated.
    """

    def __init__(self, adapter: Adapter, seed: int = 0) -> None:
        self.adapter = adapter
        self.seed = seed
        self._runs: dict[str, ProbeRun] = {}
        self._places: dict[str, dict[str, str]] = {}
        self._cache: dict[Hashable, Any] = {}

    def place(self, algorithm: str, event: str) -> str:
        """Upstream's file and line at which something happens; empty where that is not known."""
        return self._places.get(algorithm, {}).get(event, "")

    def run(self, experiment: ProbeExperiment) -> ProbeRun:
        """Carries an experiment out, or finds it among those that have been.

        Raises:
            SpecError: The framework refuses a hyperparameter.
        """
        if experiment.name not in self._runs:
            self._runs[experiment.name] = self._run_experiment(experiment)
        return self._runs[experiment.name]

    def drop_other_algorithms(self, algorithm: str) -> None:
        """Gives up the trainings of all other algorithms."""
        self._runs = {n: r for n, r in self._runs.items() if r.experiment.algorithm == algorithm}

    def get_or_compute(self, key: Hashable, make: Callable[[], CachedValue]) -> CachedValue:
        """What `make` makes, made at the first call with this key and kept."""
        if key not in self._cache:
            self._cache[key] = make()
        found: CachedValue = self._cache[key]
        return found

    def accepts_settings(self, algorithm: str, changes: Mapping[str, Any], steps: int) -> bool:
        """Whether the framework takes settings for a training of so many steps."""
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
        own = load_recipe(algorithm, self.adapter.name)
        own = self.adapter.get_library_defaults(algorithm, own, context)
        hyperparameters = dataclasses.replace(own, **changes)
        return hyperparameters, self.adapter.translate(algorithm, hyperparameters, context)

    def _run_experiment(self, experiment: ProbeExperiment) -> ProbeRun:
        algorithm, steps = experiment.algorithm, len(experiment.scripted_data.rewards)
        task, seed = experiment.scripted_data.task, experiment.seed
        context = RunContext(task, steps, seed, experiment.n_envs)
        hyperparameters, native = self._translate_settings(algorithm, context, experiment.changes)
        world, watch = ScriptedWorld(experiment.scripted_data), ProbeMonitor()
        places = self._places.setdefault(algorithm, {})
        script = ProbeScript(
            world,
            experiment.weights,
            experiment.snapshots,
            places=FALLBACK_EVENT not in places and not experiment.kept,
            double=experiment.double,
            kept=experiment.kept,
        )
        with silence_output():
            record = self.adapter.probe(algorithm, native, context, script, watch)
        places.update(record.places)
        return ProbeRun(
            experiment,
            hyperparameters,
            record,
            tuple(world.transitions),
            watch,
            tuple(world.draws),
            tuple(world.thresholds),
        )
