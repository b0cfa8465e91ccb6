"""Runs the trainings that probes read, each once per framework."""

import contextlib
import dataclasses
import io
import logging
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from envs.tasks import Task
from harness.contract.adapter import Adapter, Context, Native
from harness.contract.algorithms import ALGORITHMS
from harness.contract.fields import SpecError
from harness.contract.recipes import load_recipe
from harness.probes.contract import Parameters, Probeable, Record, Script, Watch
from harness.probes.results import Array
from harness.probes.world import ENV_ID, Dictation, Draw, Transition, World

T = TypeVar("T")
LAST_PLACE = "loss of policy"
"""Where all of an algorithm's lines are known, its further trainings are not asked for them."""
TO_ONE = ((-1.0,), (1.0,), 0, 0)
"""Bounds, time limit and choices of a task with continuous actions."""


@dataclasses.dataclass(frozen=True)
class Experiment:
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
        kept: Rounds of updates behind which all networks are kept; see `Script`.
    """

    name: str
    algorithm: str
    dictation: Dictation
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
class Run:
    """An experiment that was carried out.

    Attributes:
        experiment: What was asked for.
        hyperparameters: All unified hyperparameters of the run.
        record: What the optimisers did.
        transitions: What the environment saw.
        watch: What the framework reported, and its greedy policy.
        draws: Random whole numbers it asked for; see `World`.
        thresholds: Shares of random actions, with environment steps taken before; see `World`.
        kept: What was made of it and is read again; see `once`.
    """

    experiment: Experiment
    hyperparameters: Any
    record: Record
    transitions: tuple[Transition, ...]
    watch: Watch
    draws: tuple[Draw, ...] = ()
    thresholds: tuple[tuple[int, float], ...] = ()
    kept: dict[Hashable, Any] = dataclasses.field(default_factory=dict)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` makes, made at the first call with this key and kept."""
        if key not in self.kept:
            self.kept[key] = make()
        found: T = self.kept[key]
        return found

    @property
    def weights(self) -> Parameters:
        """What networks started from."""
        return {**self.record.created, **self.experiment.weights}

    def actions(self) -> Array:
        """Actions that reached the environment, float[steps, actions]."""
        return np.array([transition.action.reshape(-1) for transition in self.transitions])


class Lab:
    """One framework, and what it has already done.

    Attributes:
        adapter: Of the framework.
        seed: Of all that is dictated.
    """

    def __init__(self, adapter: Adapter, seed: int = 0) -> None:
        self.adapter = adapter
        self.seed = seed
        self._runs: dict[str, Run] = {}
        self._places: dict[str, dict[str, str]] = {}
        self._kept: dict[Hashable, Any] = {}

    def place(self, algorithm: str, event: str) -> str:
        """Upstream's file and line at which something happens; empty where that is not known."""
        return self._places.get(algorithm, {}).get(event, "")

    def run(self, experiment: Experiment) -> Run:
        """Carries an experiment out, or finds it among those that have been.

        Raises:
            SpecError: The framework refuses a hyperparameter.
        """
        if experiment.name not in self._runs:
            self._runs[experiment.name] = self._carry_out(experiment)
        return self._runs[experiment.name]

    def forget_others(self, algorithm: str) -> None:
        """Gives up the trainings of all other algorithms."""
        self._runs = {n: r for n, r in self._runs.items() if r.experiment.algorithm == algorithm}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` makes, made at the first call with this key and kept."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def accepts(self, algorithm: str, changes: Mapping[str, Any], steps: int) -> bool:
        """Whether the framework takes settings for a training of so many steps."""
        bounds = ((), (), 0, 2) if ALGORITHMS[algorithm].actions == "discrete" else TO_ONE
        task = Task(ENV_ID, 1, *bounds)
        try:
            self._translated(algorithm, Context(task, steps, 0), changes)
        except SpecError:
            return False
        return True

    def _translated(
        self, algorithm: str, context: Context, changes: Mapping[str, Any]
    ) -> tuple[Any, Native]:
        own = load_recipe(algorithm, self.adapter.name)
        own = self.adapter.own_defaults(algorithm, own, context)
        hyperparameters = dataclasses.replace(own, **changes)
        return hyperparameters, self.adapter.translate(algorithm, hyperparameters, context)

    def _carry_out(self, experiment: Experiment) -> Run:
        assert isinstance(self.adapter, Probeable)
        algorithm, steps = experiment.algorithm, len(experiment.dictation.rewards)
        task, seed = experiment.dictation.task, experiment.seed
        context = Context(task, steps, seed, experiment.n_envs)
        hyperparameters, native = self._translated(algorithm, context, experiment.changes)
        world, watch = World(experiment.dictation), Watch()
        places = self._places.setdefault(algorithm, {})
        script = Script(
            world,
            experiment.weights,
            experiment.snapshots,
            places=LAST_PLACE not in places and not experiment.kept,
            double=experiment.double,
            kept=experiment.kept,
        )
        with quiet():
            record = self.adapter.probe(algorithm, native, context, script, watch)
        places.update(record.places)
        return Run(
            experiment,
            hyperparameters,
            record,
            tuple(world.transitions),
            watch,
            tuple(world.draws),
            tuple(world.thresholds),
        )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the frameworks' progress messages off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
