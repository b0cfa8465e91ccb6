"""Outcome of a mutant: equivalent weights, a training that breaks, found or missed by probes."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from parallax.envs.make import make_training_env
from parallax.envs.scripted import DISCRETE_ENV_ID, ENV_ID
from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import (
    Adapter,
    Checkpointable,
    Policy,
    PolicyIO,
    RunContext,
    Weights,
)
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.upstream_code import silence_output
from parallax.harness.interventions.mutants import CodeMutant
from parallax.harness.interventions.source import SourceReplacement
from parallax.harness.probes.catalogue import PROBES, measure_answer, sort_probes
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import Probe, is_same_answer
from parallax.harness.probes.results import ProbeAnswer
from parallax.harness.record.provenance import hash_weights

TRAINING_STEPS = 128
"""Environment steps of a training: two small rollouts, or some hundred updates."""


def hash_trained_weights(adapter: Adapter, algorithm: str) -> tuple[str, ...]:
    """Return hashes of all weights after two short trainings with different settings.

    Args:
        adapter: Adapter of the framework.
        algorithm: Name of the algorithm.

    Raises:
        Exception: Whatever ends a training.
    """
    base = _make_small_hyperparameters(adapter, algorithm)
    more = _apply_values(adapter, algorithm, base, type(base).conformance_variation)
    return tuple(hash_weights(train_briefly(adapter, algorithm, used)) for used in (base, more))


def train_briefly(adapter: Adapter, algorithm: str, hyperparameters: Hyperparameters) -> Weights:
    """Return the weights at the end of a short training on a scripted task.

    Args:
        adapter: Adapter of the framework.
        algorithm: Name of the algorithm.
        hyperparameters: In unified units.
    """
    monitor, context = _WeightsMonitor(), _make_context(algorithm)
    native = adapter.translate(algorithm, hyperparameters, context)
    gamma = float(getattr(hyperparameters, "gamma", 0.99))

    def make_env() -> gymnasium.Env[Any, Any]:
        return make_training_env(
            context.task.env_id, wrappers="none", gamma=gamma, before_step=lambda: None
        )

    adapter.train(algorithm, native, context, make_env, monitor)
    assert monitor.weights is not None, "nothing was attached"
    return monitor.weights()


class _WeightsMonitor:
    """Monitor that stores how to read the weights."""

    def __init__(self) -> None:
        self.weights: Callable[[], Weights] | None = None

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        policy_io: PolicyIO | None = None,
        checkpointable: Checkpointable | None = None,
    ) -> None:
        self.weights = weights

    def record(self, metrics: Mapping[str, float]) -> None:
        pass

    def safe_point(self) -> None:
        pass


def _make_context(algorithm: str) -> RunContext:
    discrete = ALGORITHMS[algorithm].actions == "discrete"
    return RunContext(load_task(DISCRETE_ENV_ID if discrete else ENV_ID), TRAINING_STEPS, 0, 1)


def _make_small_hyperparameters(adapter: Adapter, algorithm: str) -> Hyperparameters:
    recipe = load_recipe(algorithm, adapter.name)
    return _apply_values(adapter, algorithm, recipe, type(recipe).conformance_values)


def _apply_values(
    adapter: Adapter, algorithm: str, base: Hyperparameters, values: Mapping[str, Any]
) -> Hyperparameters:
    """Return `base` with each value that the framework accepts; learning rates are set together."""
    fields = {field.name for field in dataclasses.fields(base)}
    rates = [name for name in fields if name.endswith("learning_rate")]
    for field, value in values.items():
        if field not in fields:
            continue
        group = rates if field in rates else [field]
        changed = dataclasses.replace(base, **dict.fromkeys(group, value))
        try:
            adapter.translate(algorithm, changed, _make_context(algorithm))
        except SpecError:
            continue
        base = changed
    return base


EQUIVALENT, BREAKS, FOUND, MISSED = "equivalent", "breaks", "found", "missed"


@dataclasses.dataclass(frozen=True)
class MutantOutcome:
    """Outcome of a mutant.

    Attributes:
        mutant: Full name, with framework and algorithm.
        operator: Mutation operator.
        place: Upstream's module or function, and the line.
        outcome: `equivalent`, `breaks` (the short training ends with an error or does not end),
            `found` or `missed`.
        by: The first probe whose answer changed; how the training broke; else empty.
        asked: Number of probes that were run.
        seconds: CPU seconds.
        text: Description of the change.
    """

    mutant: str
    operator: str
    place: str
    outcome: str
    by: str
    asked: int
    seconds: float
    text: str


@dataclasses.dataclass(frozen=True)
class UnmutatedBaseline:
    """Weights and answers of the unchanged code, to compare mutants with.

    Attributes:
        digests: Weights after the short trainings.
        answers: By probe, in the order in which probes are run.
    """

    digests: tuple[str, ...]
    answers: Mapping[str, ProbeAnswer]


def measure_baseline(adapter: Adapter, algorithm: str) -> UnmutatedBaseline:
    """Train and measure all probes without a mutant."""
    with silence_output():
        found = hash_trained_weights(adapter, algorithm)
    cache = ExperimentCache(adapter)
    answers = {p.name: measure_answer(cache, p) for p in sort_probes(algorithm)}
    return UnmutatedBaseline(
        found, {name: answer for name, answer in answers.items() if answer is not None}
    )


def classify_mutant(
    mutant: CodeMutant, adapter: Adapter, known: UnmutatedBaseline
) -> MutantOutcome:
    """Apply a mutant in this process, train, and run probes until one finds it.

    Args:
        mutant: The mutant; upstream's own code is restored afterwards.
        adapter: Adapter of its framework.
        known: Baseline of the unchanged code.
    """
    started = time.process_time()
    outcome, by, asked = _determine_outcome(mutant, adapter, known)
    return make_mutant_outcome(mutant, outcome, by, asked, time.process_time() - started)


def make_mutant_outcome(
    mutant: CodeMutant, outcome: str, by: str, asked: int, seconds: float
) -> MutantOutcome:
    """Return the outcome of a mutant with its description."""
    return MutantOutcome(
        mutant.qualified_name,
        mutant.operator,
        f"{mutant.piece.where}:{mutant.line}",
        outcome,
        by,
        asked,
        seconds,
        mutant.does,
    )


def _determine_outcome(
    mutant: CodeMutant, adapter: Adapter, known: UnmutatedBaseline
) -> tuple[str, str, int]:
    with SourceReplacement([mutant.piece]).apply_replacement():
        try:
            with silence_output():
                found = hash_trained_weights(adapter, mutant.algorithm)
        except Exception as error:
            return BREAKS, type(error).__name__, 0
        if found == known.digests:
            return EQUIVALENT, "", 0
        cache = ExperimentCache(adapter)
        probes = {probe.name: probe for probe in PROBES}
        for number, (name, before) in enumerate(known.answers.items(), 1):
            after = measure_answer(cache, probes[name])
            if not is_unchanged(probes[name], before, after):
                return FOUND, name, number
    return MISSED, "", len(known.answers)


def is_unchanged(probe: Probe, before: ProbeAnswer, after: ProbeAnswer | None) -> bool:
    """Return whether two answers of one implementation are the same; None stands for an error."""
    if after is None:
        return False
    if before.unmeasured or after.unmeasured:
        return bool(before.unmeasured) == bool(after.unmeasured)
    return is_same_answer(probe, before, after)
