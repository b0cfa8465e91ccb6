"""Probes of defaults: what upstream itself declares, against the papers' values."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import Adapter, RunContext
from parallax.harness.contract.algorithms import PROBED_ALGORITHMS as ALGORITHMS
from parallax.harness.contract.probing.protocol import Parameters
from parallax.harness.contract.probing.scripted_env import ENV_ID
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.translation import TranslatedSetting
from parallax.harness.probes import ddpg, experiment_setups
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment, ProbeRun
from parallax.harness.probes.ppo import experiments as ppo_experiments
from parallax.harness.probes.probe import (
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    make_entry_description,
)
from parallax.harness.probes.sac import experiments as sac_experiments
from parallax.harness.probes.td3 import experiments as td3_experiments

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
TAU_EXPERIMENTS: dict[str, Callable[[ExperimentCache], ProbeRun]] = {
    "td3": td3_experiments.run_count_experiment,
    "sac": sac_experiments.run_count_experiment,
    "ddpg": ddpg.run_count_experiment,
}
"""Those of algorithms whose targets move by tau."""
EXCLUDED_FIELDS = (
    "hidden_sizes",
    "conv_filters",
    "adam_eps",
    "clip_range_schedule",
    "target_entropy",
)
"""Fields that other probes measure, and convolutions, which none does."""
FIELDS_BY_ALGORITHM = {
    algorithm: tuple(f.name for f in dataclasses.fields(cls) if f.name not in EXCLUDED_FIELDS)
    for algorithm, cls in ALGORITHMS.items()
}


def _translate_defaults(lab: ExperimentCache, algorithm: str) -> dict[str, TranslatedSetting]:
    task = DISCRETE_TASK if ALGORITHMS[algorithm].actions == "discrete" else CONTINUOUS_TASK
    context = RunContext(task, TRAINING_STEPS, 0)
    recipe = load_recipe(algorithm, lab.adapter.name)
    own = lab.adapter.get_library_defaults(algorithm, recipe, context)
    native = lab.adapter.translate(algorithm, own, context)
    return {setting.field: setting for setting in native.alignment}


def _measure_defaults(algorithm: str, lab: ExperimentCache) -> ProbeMeasurement:
    adapter: Adapter = lab.adapter
    declared, settings = adapter.upstream_defaults(algorithm), _translate_defaults(lab, algorithm)
    if declared is None:
        raise UnmeasuredError("its package has no command line or class that declares defaults")
    if not declared:
        raise UnmeasuredError("its package ships no such algorithm that declares defaults")
    value = [
        _get_upstream_default(settings[field], declared) for field in FIELDS_BY_ALGORITHM[algorithm]
    ]
    papers = load_recipe(algorithm, "original")
    expected = [
        setting_to_number(getattr(papers, field)) for field in FIELDS_BY_ALGORITHM[algorithm]
    ]
    return ProbeMeasurement(np.array(value), np.array(expected))


def _get_upstream_default(setting: TranslatedSetting, declared: Mapping[str, Any]) -> float:
    # What upstream does not declare is not measured: the recipe's value would be ours.
    if setting.native_name not in declared:
        return np.nan
    # Where upstream declares what the recipe holds, the recipe has it in the unified unit.
    if declared[setting.native_name] != setting.native_value:
        return setting_to_number(declared[setting.native_name])
    return setting_to_number(setting.value)


def setting_to_number(value: Any) -> float:
    """A setting as a number: off and constant are 0, on and linear 1, other texts not a number."""
    named = {None: 0.0, "constant": 0.0, "linear": 1.0}
    if isinstance(value, str | None):
        return named.get(value, np.nan)
    return float(value) if isinstance(value, int | float) else np.nan


def _measure_tau(algorithm: str, lab: ExperimentCache) -> ProbeMeasurement:
    run = TAU_EXPERIMENTS[algorithm](lab)
    told = run.record.told.get("tau", np.nan)
    if np.isnan(told):
        raise UnmeasuredError("which object holds it was not told")
    return ProbeMeasurement(np.array([told]), np.array([run.hyperparameters.tau]))


def _build_default_probes(algorithm: str) -> Sequence[Probe]:
    names = ", ".join(FIELDS_BY_ALGORITHM[algorithm])
    defaults = Probe(
        f"{algorithm}.default_settings",
        "Which settings has upstream by default?",
        f"hp_configs/{algorithm}/original.yaml",
        f"in unified units, off is 0: {names}",
        lambda lab: _measure_defaults(algorithm, lab),
        make_entry_description(FIELDS_BY_ALGORITHM[algorithm]),
        has_own_units=True,
    )
    if algorithm not in TAU_EXPERIMENTS:
        return (defaults,)
    tau = Probe(
        f"{algorithm}.tau_as_told",
        "Which number is the framework told for targets to move by 0.005?",
        f"{algorithm.upper()}'s paper: tau, the weight of the online network",
        "what the framework's own object holds",
        lambda lab: _measure_tau(algorithm, lab),
        lambda comparison, m: f"it is told {m.value[0]:g}, the weight of the old target",
    )
    return defaults, tau


DEFAULT_PROBES: Sequence[Probe] = tuple(
    p for algorithm in ALGORITHMS for p in _build_default_probes(algorithm)
)

OPTION_SOURCE = "none in the paper; here: every setting can be set, and does something"
N_ROLLOUTS = 3


def _build_base_experiment(lab: ExperimentCache, algorithm: str) -> ProbeExperiment:
    # Networks are the framework's own, so that their sizes can be set.
    name = f"{algorithm} options"
    if algorithm == "ppo":
        world = experiment_setups.make_continuous_data(
            lab, N_ROLLOUTS * ppo_experiments.ROLLOUT_STEPS
        )
        changes = {**ppo_experiments.choose_base_settings(lab), "value_clip_range": None}
        return ProbeExperiment(name, algorithm, world, changes)
    world = experiment_setups.make_continuous_data(lab, experiment_setups.BATCH_ROWS + 6)
    return experiment_setups.build_off_policy_experiment(name, algorithm, world, {})


def compute_final_weights(
    lab: ExperimentCache, base: ProbeExperiment, changes: Mapping[str, Any]
) -> Parameters:
    """Weights at the end of a training with some settings changed.

    Raises:
        SpecError: The framework refuses one.
    """
    name = ", ".join([base.name, *(f"{field}={value}" for field, value in changes.items())])
    changed = dataclasses.replace(base, name=name, changes={**base.changes, **changes})
    return lab.run(changed).record.final


def has_same_weights(one: Parameters, other: Parameters) -> bool:
    """Whether weights are the same, sizes included."""
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


def make_option_probe(algorithm: str, changes: Mapping[str, Any], name: str, what: str) -> Probe:
    """A probe of whether settings can be changed by themselves, and change what is learned.

    Args:
        algorithm: Name.
        changes: Unified hyperparameters and their new values.
        name: Of the probe.
        what: The setting, for the question.
    """

    def measure(lab: ExperimentCache) -> ProbeMeasurement:
        base = _build_base_experiment(lab, algorithm)
        # The new value first: where it is refused, nothing is run.
        changed = compute_final_weights(lab, base, changes)
        effect = not has_same_weights(changed, compute_final_weights(lab, base, {}))
        return ProbeMeasurement(np.array([float(effect)]), np.ones(1))

    return Probe(
        f"{algorithm}.{name}",
        f"Can {what} be set by itself?",
        OPTION_SOURCE,
        "0 without effect, 1 with",
        measure,
        lambda comparison, measurement: "the setting has no effect",
        counts=True,
    )


def _measure_default_clip_range(lab: ExperimentCache) -> ProbeMeasurement:
    base = _build_base_experiment(lab, "ppo")
    kept = {k: v for k, v in base.changes.items() if k != "clip_range_schedule"}
    base = dataclasses.replace(base, name="ppo own schedule", changes=kept)
    constant = compute_final_weights(lab, base, {"clip_range_schedule": "constant"})
    return ProbeMeasurement(
        np.array([float(has_same_weights(constant, compute_final_weights(lab, base, {})))]),
        np.ones(1),
    )


OPTION_PROBES: Sequence[Probe] = (
    make_option_probe(
        "ppo",
        {"value_clip_range": ppo_experiments.CLIP / 10},
        "value_clip_range",
        "the range of value clipping",
    ),
    Probe(
        "ppo.clip_range_by_default",
        "Is the clip range constant over a run, by default?",
        f"{ppo_experiments.PPO_PAPER}, table 3: yes",
        "0 no, 1 yes",
        _measure_default_clip_range,
        lambda comparison, measurement: "the clip range changes over a run",
        counts=True,
    ),
    make_option_probe(
        "td3", {"hidden_sizes": (48, 32)}, "hidden_sizes", "the size of the hidden layers"
    ),
    make_option_probe(
        "td3", {"target_policy_noise": 0.15}, "target_policy_noise", "the noise in targets"
    ),
    make_option_probe("td3", {"gradient_steps": 2}, "update_ratio", "gradient steps per round"),
    make_option_probe("sac", {"gradient_steps": 2}, "update_ratio", "gradient steps per round"),
    make_option_probe(
        "sac",
        {"critic_learning_rate": 2e-3, "temperature_learning_rate": 2e-3},
        "critic_learning_rate",
        "the learning rate of critics and temperature, apart from the policy's,",
    ),
)
