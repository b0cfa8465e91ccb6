"""Settings of runs that must be equal for their scores to be compared."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from parallax.analysis.data.runs import CompletedRun
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.run_json import collect_versions, describe_differing_versions

# Compared besides hyperparameters. A setting that is missing in an old record never conflicts.
COMPARED_SETTINGS = (
    *("alignment", "steps", "wrappers", "n_envs", "threads", "device"),
    *("eval_every", "evaluation_seed", "intervention", "acceleration", "actors"),
    "replay",
)
EVAL_EPISODES = "eval_episodes"
_MAX_SETTING_LENGTH = 1000  # characters of a value; those of replay strategies take some hundred
# Fields of a specification that change no result, or follow from the others.
_WITHOUT_EFFECT = (
    *("diagnosis", "logger", "checkpoint_every", "endpoint", "evaluate_untrained"),
    *("python", "overridden"),
)
# Recorded packages that are listed, besides those named after a run's framework: their versions
# matter to results. All others are in each run.json.
REPORTED_PACKAGES = (
    *("stable_baselines3", "cleanrl", "torchrl", "tensordict", "tianshou", "skrl"),
    *("sbx", "jax", "flax", "optax"),
    *("torch", "gymnasium", "mujoco", "numpy"),
)
RequestedSettings = Mapping[str, str]  # name of a setting and its value as JSON


def get_requested_settings(run: CompletedRun) -> RequestedSettings:
    """Return the settings that must be equal in a whole study for runs to be compared."""
    found = {
        name: setting_to_text(run.spec[name]) for name in COMPARED_SETTINGS if name in run.spec
    }
    if run.imported is not None and run.imported.are_means:
        return found  # the number of episodes of each mean is not known
    stated = run.spec.get(EVAL_EPISODES) if run.imported is not None else None
    return {**found, EVAL_EPISODES: str(stated or run.results.shape[1])}


def get_requested_hyperparameters(run: CompletedRun) -> RequestedSettings:
    """Return the configured hyperparameters, before a framework's defaults are filled in.

    Under `alignment=defaults` each framework has its own, which do not have to agree.
    """
    if run.spec.get("alignment") == "defaults":
        return {}
    values = run.spec.get("hyperparameters")
    return {setting_to_text(name): setting_to_text(of) for name, of in (values or {}).items()}


def find_differing_settings(runs: Sequence[CompletedRun]) -> list[str]:
    """Return the requested settings and hyperparameters that differ between runs."""
    return find_differing_values([get_requested_values(run) for run in runs])


def get_requested_values(run: CompletedRun) -> RequestedSettings:
    """Return the requested hyperparameters and settings of a run."""
    return {**get_requested_hyperparameters(run), **get_requested_settings(run)}


def find_differing_values(values: Sequence[RequestedSettings]) -> list[str]:
    """Return the settings with several values, sorted; missing settings are ignored."""
    found: dict[str, str] = {}
    different = set()
    for item in values:
        for name, value in item.items():
            if found.setdefault(name, value) != value:
                different.add(name)
    return sorted(different)


def setting_to_text(value: Any) -> str:
    """Return a setting's value as text of a bounded length, equal for 1 and 1.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    shown = escape_unprintable(text[:_MAX_SETTING_LENGTH])
    if max(len(text), len(shown)) <= _MAX_SETTING_LENGTH:
        return shown
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{shown[:_MAX_SETTING_LENGTH]}... ({len(text):,} characters, {digest})"


def serialize_settings(spec: Mapping[str, Any], *, without: Collection[str]) -> str:
    """Return a specification's fields and hyperparameters that change results, as JSON.

    Args:
        spec: Specification of a run, as `run.json` has it.
        without: Fields and hyperparameters that are compared, and so may differ.
    """
    left_out = {*without, *_WITHOUT_EFFECT}
    shared = {name: value for name, value in spec.items() if name not in left_out}
    values = shared.get("hyperparameters")
    if isinstance(values, Mapping):
        shared["hyperparameters"] = {n: v for n, v in values.items() if n not in without}
    return json.dumps(shared, sort_keys=True, default=str)


def collect_run_versions(runs: Iterable[CompletedRun]) -> dict[str, set[str]]:
    """Return the known versions of Python and of each package that runs had, by name."""
    return collect_versions(run.provenance for run in runs if run.provenance is not None)


def describe_result_versions(runs: Iterable[CompletedRun]) -> str:
    """Return a sentence on versions that matter to results and that differ between runs."""
    provenances = (run.provenance for run in runs if run.provenance is not None)
    return describe_differing_versions(provenances, REPORTED_PACKAGES)
