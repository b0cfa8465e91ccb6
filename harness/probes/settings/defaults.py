"""Probes of defaults: what upstream itself declares, against the papers' values."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from envs.tasks import Task
from harness.contract.adapter import Adapter, Context, Setting
from harness.contract.algorithms import PROBED as ALGORITHMS
from harness.contract.recipes import load_recipe
from harness.probes import setups
from harness.probes.ddpg import trainings as ddpg_runs
from harness.probes.lab import Lab, Run
from harness.probes.probe import Measurement, Probe, Unmeasured, listed
from harness.probes.sac import trainings as sac_runs
from harness.probes.td3 import trainings as td3_runs
from harness.probes.world import ENV_ID

TASK = Task(ENV_ID, setups.OBSERVATIONS, setups.MINUS_UNIT, setups.UNIT, 0)
CHOOSING = Task(ENV_ID, setups.OBSERVATIONS, (), (), 0, setups.CHOICES)
STEPS = 10**6
TRAININGS: dict[str, Callable[[Lab], Run]] = {
    "td3": td3_runs.counting,
    "sac": sac_runs.counting,
    "ddpg": ddpg_runs.counting,
}
"""Those of algorithms whose targets move by tau."""
ELSEWHERE = ("hidden_sizes", "conv_filters", "adam_eps", "clip_range_schedule", "target_entropy")
"""Fields that other probes measure, and convolutions, which none does."""
FIELDS = {
    algorithm: tuple(f.name for f in dataclasses.fields(cls) if f.name not in ELSEWHERE)
    for algorithm, cls in ALGORITHMS.items()
}


@runtime_checkable
class DeclaresDefaults(Protocol):
    """An adapter that can tell what upstream's code has as defaults."""

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """Native names of settings to what upstream takes when they are not given."""


def _settings(lab: Lab, algorithm: str) -> dict[str, Setting]:
    task = CHOOSING if ALGORITHMS[algorithm].actions == "discrete" else TASK
    context = Context(task, STEPS, 0)
    recipe = load_recipe(algorithm, lab.adapter.name)
    own = lab.adapter.own_defaults(algorithm, recipe, context)
    native = lab.adapter.translate(algorithm, own, context)
    return {setting.field: setting for setting in native.alignment}


def _defaults(algorithm: str, lab: Lab) -> Measurement:
    adapter: Adapter = lab.adapter
    if not isinstance(adapter, DeclaresDefaults):
        raise Unmeasured("its package has no command line or class that declares defaults")
    declared, settings = adapter.upstream_defaults(algorithm), _settings(lab, algorithm)
    if not declared:
        raise Unmeasured("its package ships no such algorithm that declares defaults")
    value = [_default(settings[field], declared) for field in FIELDS[algorithm]]
    papers = load_recipe(algorithm, "original")
    expected = [number(getattr(papers, field)) for field in FIELDS[algorithm]]
    return Measurement(np.array(value), np.array(expected))


def _default(setting: Setting, declared: Mapping[str, Any]) -> float:
    # What upstream does not declare is not measured: the recipe's value would be ours.
    if setting.native_name not in declared:
        return np.nan
    # Where upstream declares what the recipe holds, the recipe has it in the unified unit.
    if declared[setting.native_name] != setting.native_value:
        return number(declared[setting.native_name])
    return number(setting.value)


def number(value: Any) -> float:
    """A setting as a number: off and constant are 0, on and linear 1, other texts not a number."""
    named = {None: 0.0, "constant": 0.0, "linear": 1.0}
    if isinstance(value, str | None):
        return named.get(value, np.nan)
    return float(value) if isinstance(value, int | float) else np.nan


def _tau(algorithm: str, lab: Lab) -> Measurement:
    run = TRAININGS[algorithm](lab)
    told = run.record.told.get("tau", np.nan)
    if np.isnan(told):
        raise Unmeasured("which object holds it was not told")
    return Measurement(np.array([told]), np.array([run.hyperparameters.tau]))


def _probes(algorithm: str) -> Sequence[Probe]:
    names = ", ".join(FIELDS[algorithm])
    defaults = Probe(
        f"{algorithm}.default_settings",
        "Which settings has upstream by default?",
        f"hp_configs/{algorithm}/original.yaml",
        f"in unified units, off is 0: {names}",
        lambda lab: _defaults(algorithm, lab),
        listed(FIELDS[algorithm]),
        each=True,
    )
    if algorithm not in TRAININGS:
        return (defaults,)
    tau = Probe(
        f"{algorithm}.tau_as_told",
        "Which number is the framework told for targets to move by 0.005?",
        f"{algorithm.upper()}'s paper: tau, the weight of the online network",
        "what the framework's own object holds",
        lambda lab: _tau(algorithm, lab),
        lambda comparison, m: f"it is told {m.value[0]:g}, the weight of the old target",
    )
    return defaults, tau


PROBES: Sequence[Probe] = tuple(p for algorithm in ALGORITHMS for p in _probes(algorithm))
