"""Probes of settings: upstream's declared defaults, compared with the papers', and options.

A default is read from upstream's own signature or command line. An option works if it can be
changed alone and changes the weights at the end of a short training.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import field_names
from parallax.harness.contract.probing.protocol import Parameters
from parallax.harness.contract.probing.scripted_env import ENV_ID
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.translation import TranslatedSetting
from parallax.harness.probes import experiment_setups
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment
from parallax.harness.probes.probe import (
    UPDATE,
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_entry_description,
)

CONTINUOUS_TASK = Task(
    ENV_ID,
    experiment_setups.OBSERVATION_SIZE,
    experiment_setups.UNIT_LOW,
    experiment_setups.UNIT_HIGH,
    0,
)
DISCRETE_TASK = Task(
    ENV_ID, experiment_setups.OBSERVATION_SIZE, (), (), 0, experiment_setups.N_DISCRETE_ACTIONS
)
TRAINING_STEPS = 10**6
EXCLUDED_FIELDS = (
    "hidden_sizes",
    "conv_filters",
    "adam_eps",
    "clip_range_schedule",
    "target_entropy",
)
"""Fields that other probes measure, and convolutions, which no probe measures."""
OPTION_SOURCE = "none in the paper; here: every setting can be set, and does something"


def make_default_settings_probe(algorithm: str) -> Probe:
    """Return the probe of upstream's default hyperparameters."""
    fields = tuple(f for f in field_names(ALGORITHMS[algorithm]) if f not in EXCLUDED_FIELDS)
    return Probe(
        f"{algorithm}.default_settings",
        "What are upstream's default settings?",
        f"hp_configs/{algorithm}/original.yaml",
        f"in unified units, off is 0: {', '.join(fields)}",
        lambda cache: _measure_defaults(cache, algorithm, fields),
        make_entry_description(fields),
        has_own_units=True,
    )


def _measure_defaults(
    cache: ExperimentCache, algorithm: str, fields: tuple[str, ...]
) -> ProbeMeasurement:
    declared = cache.adapter.upstream_defaults(algorithm)
    settings = _translate_defaults(cache, algorithm)
    if declared is None:
        raise UnmeasuredError("its package has no command line or class that declares defaults")
    if not declared:
        raise UnmeasuredError("its package ships no such algorithm that declares defaults")
    value = [_get_upstream_default(settings[field], declared) for field in fields]
    original = load_recipe(algorithm, "original")
    expected = [setting_to_number(getattr(original, field)) for field in fields]
    return ProbeMeasurement(np.array(value), np.array(expected))


def _translate_defaults(cache: ExperimentCache, algorithm: str) -> dict[str, TranslatedSetting]:
    task = DISCRETE_TASK if ALGORITHMS[algorithm].actions == "discrete" else CONTINUOUS_TASK
    context = RunContext(task, TRAINING_STEPS, 0)
    recipe = load_recipe(algorithm, cache.adapter.name)
    defaults = cache.adapter.get_library_defaults(algorithm, recipe, context)
    native = cache.adapter.translate(algorithm, defaults, context)
    return {setting.field: setting for setting in native.alignment}


def _get_upstream_default(setting: TranslatedSetting, declared: Mapping[str, Any]) -> float:
    # A setting that upstream does not declare is not measured: the recipe's value is our own.
    if setting.native_name not in declared:
        return np.nan
    # If upstream declares the recipe's native value, the recipe has it in the unified unit.
    if declared[setting.native_name] != setting.native_value:
        return setting_to_number(declared[setting.native_name])
    return setting_to_number(setting.value)


def setting_to_number(value: Any) -> float:
    """Return a setting as a number: off and constant are 0, on and linear 1, other texts NaN."""
    named = {None: 0.0, "constant": 0.0, "linear": 1.0}
    if isinstance(value, str | None):
        return named.get(value, np.nan)
    return float(value) if isinstance(value, int | float) else np.nan


def make_tau_probe(runs: experiment_setups.OffPolicyRuns) -> Probe:
    """Return the probe of the number as which the framework's own object stores tau.

    Args:
        runs: Trainings of an algorithm whose target networks move by tau.
    """

    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        done = runs.run_count_experiment(cache)
        tau = done.record.upstream_settings.get("tau", np.nan)
        if np.isnan(tau):
            raise UnmeasuredError("it is unknown which of its objects stores tau")
        return ProbeMeasurement(np.array([tau]), np.array([done.hyperparameters.tau]))

    return Probe(
        f"{runs.algorithm}.tau_unit",
        "Which number must the framework receive so that targets move by 0.005?",
        f"{runs.algorithm.upper()}'s paper: tau, the weight of the online network",
        "number in the framework's own object",
        measure,
        lambda comparison, m: f"it receives {m.value[0]:g}, the weight of the old target",
    )


def build_off_policy_option_experiment(cache: ExperimentCache, algorithm: str) -> ProbeExperiment:
    """Return a short off-policy training with the framework's own networks.

    They are not replaced by scripted weights, so that their sizes can be set.
    """
    data = experiment_setups.make_continuous_data(cache, experiment_setups.BATCH_ROWS + 6)
    return experiment_setups.build_off_policy_experiment(
        f"{algorithm} options", algorithm, data, {}
    )


def make_option_probe(
    algorithm: str,
    changes: Mapping[str, Any],
    name: str,
    setting: str,
    build: Callable[[ExperimentCache, str], ProbeExperiment] = build_off_policy_option_experiment,
    part: str = UPDATE,
) -> Probe:
    """Return the probe of whether settings can be changed alone and change the weights.

    Args:
        algorithm: Name of the algorithm.
        changes: Unified hyperparameters and their new values.
        name: Short name of the probe.
        setting: The setting in words, for the question.
        build: Builds the training whose settings are changed.
        part: See `Probe`.
    """

    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        base = build(cache, algorithm)
        # Try the new value first: if it is refused, nothing is trained.
        changed = compute_final_weights(cache, base, changes)
        effect = not has_same_weights(changed, compute_final_weights(cache, base, {}))
        return ProbeMeasurement(np.array([float(effect)]), np.ones(1))

    return Probe(
        f"{algorithm}.{name}",
        f"Can {setting} be set by itself?",
        OPTION_SOURCE,
        "0 without effect, 1 with",
        measure,
        lambda comparison, measurement: "the setting has no effect",
        counts=True,
        part=part,
    )


def compute_final_weights(
    cache: ExperimentCache, base: ProbeExperiment, changes: Mapping[str, Any]
) -> Parameters:
    """Return the weights at the end of a training with some settings changed.

    Raises:
        SpecError: The framework refuses one of them.
    """
    name = ", ".join([base.name, *(f"{field}={value}" for field, value in changes.items())])
    changed = dataclasses.replace(base, name=name, changes={**base.changes, **changes})
    return cache.run(changed).record.final


def has_same_weights(one: Parameters, other: Parameters) -> bool:
    """Return whether all weights are equal, sizes included."""
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)
