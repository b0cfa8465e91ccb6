"""The Hydra application: configuration in, finished run folders out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from parallax.envs.tasks import MEMORY_TASK_IDS, TASK_IDS
from parallax.harness.contract.adapter import find_adapter_entry_points
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import RunsFailedError, SpecError, report_error
from parallax.harness.contract.recipes import list_recipe_names, load_recipe, read_recipe
from parallax.harness.contract.replay import REPLAY_CONFIGS
from parallax.harness.contract.run_spec import DIAGNOSIS_MODES, RunSpec, make_run_spec
from parallax.harness.diagnosis.registry import get_default_thresholds
from parallax.harness.sweep.memory_allocator import SYSTEM_ALLOCATOR
from parallax.harness.sweep.run_process import RunOutcome
from parallax.harness.sweep.sweep import count_processes, run_sweep

_NAMED_GROUPS = ("framework", "algorithm", "env", "hps", "study")


@hydra.main(version_base="1.3", config_path="pkg://parallax.harness.conf", config_name="config")
def run_hydra_app(config: DictConfig) -> None:
    """Executes the one run that `config` describes."""
    try:
        spec, results_dir = spec_from_config(config)
        # Other launchers than the local one have other options, and are for sweeps.
        launcher = HydraConfig.get().launcher
        malloc = launcher.get("malloc") or SYSTEM_ALLOCATOR
        count_processes(launcher.get("n_jobs", 1))  # a single run needs one, whatever it says
        report_outcomes(run_sweep([spec], results_dir, n_jobs=1, malloc=malloc), results_dir)
    except (SpecError, RunsFailedError) as error:
        # Raised further, Hydra would print a second message around it.
        raise SystemExit(report_error(error)) from None


def spec_from_config(config: DictConfig) -> tuple[RunSpec, Path]:
    """A checked run and the folder for results.

    Raises:
        SpecError: A value cannot be used.
    """
    values: Any = OmegaConf.to_container(config, resolve=True)
    return spec_from_values(values)


def spec_from_values(values: Mapping[str, Any]) -> tuple[RunSpec, Path]:
    """The same from resolved values.

    Raises:
        SpecError: A value cannot be used.
    """
    flat = dict(values) | {name: _read_group_name(values, name) for name in _NAMED_GROUPS}
    flat["python"] = values["framework"].get("python")
    flat["diagnosis"] = read_diagnosis_settings(values.get("diagnosis"))
    try:
        spec = make_run_spec(flat, values["hyperparameters"], values["recipe"])
    except SpecError:
        _check_recipe(flat["algorithm"], flat["hps"])
        raise
    if not values["results_dir"]:
        raise SpecError("results_dir is empty: name a folder.")
    return spec, Path(values["results_dir"])


def _check_recipe(algorithm: str, name: str) -> None:
    """Raise `SpecError` with file and line where it is the recipe that holds a wrong value."""
    if algorithm in ALGORITHMS and name in list_recipe_names(algorithm):
        load_recipe(algorithm, name)


def read_diagnosis_settings(values: Any) -> dict[str, Any]:
    """What of the group `diagnosis` is not as it is without a word."""
    if not isinstance(values, Mapping):
        return {"mode": values if values is not None else "off"}
    rest = {key: value for key, value in values.items() if key not in ("name", "also", "period")}
    defaults = get_default_thresholds()
    thresholds = {}
    for name, value in rest.items():
        given = value.get("threshold") if isinstance(value, Mapping) else value
        if given != defaults.get(name):
            thresholds[name] = given
    kept = {"also": values.get("also"), "period": values.get("period"), "thresholds": thresholds}
    asked = {key: value for key, value in kept.items() if value not in (None, [], {})}
    return {"mode": values.get("name")} | asked


def _read_group_name(values: Mapping[str, Any], group: str) -> Any:
    chosen = values.get(group)
    if not isinstance(chosen, Mapping) or "name" not in chosen:
        raise SpecError(f"{group} has no name: choose one with {group}=..., or set {group}.name.")
    return chosen["name"]


def report_outcomes(outcomes: list[RunOutcome], results_dir: Path) -> None:
    """Says how the runs ended and what can be done next.

    Raises:
        RunsFailed: Not all of them completed.
    """
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    where = outcomes[0].folder if len(outcomes) == 1 else results_dir
    noun = "run" if len(outcomes) == 1 else "runs"
    print(f"{len(outcomes)} {noun}: {summary}. Results are in {where}")
    if set(counts) - {"completed", "skipped"}:
        raise RunsFailedError(f"{summary}. The same command runs again what is not complete.")


def list_group_options() -> dict[str, list[str]]:
    """The options of each group; those of `hyperparameters/...` are recipes."""
    recipes = {algorithm: list_recipe_names(algorithm) for algorithm in ALGORITHMS}
    return {
        "framework": list(find_adapter_entry_points()),
        "algorithm": list(ALGORITHMS),
        "env": [*TASK_IDS, *MEMORY_TASK_IDS],
        "hps": sorted(set().union(*recipes.values())),
        "replay": list(REPLAY_CONFIGS),
        "diagnosis": list(DIAGNOSIS_MODES),
    } | {f"hyperparameters/{algorithm}": names for algorithm, names in recipes.items()}


def read_group_option(group: str, name: str) -> Mapping[str, Any]:
    """The values that an option of one of these groups stands for."""
    kind, _, algorithm = group.partition("/")
    if kind == "hyperparameters":
        return read_recipe(algorithm, name)
    if group == "replay":
        return REPLAY_CONFIGS[name]().told()
    if group == "diagnosis":
        from parallax.harness.diagnosis.registry import (
            get_default_thresholds,  # help needs only names
        )

        thresholds = {key: {"threshold": value} for key, value in get_default_thresholds().items()}
        return {"name": name, "period": None, "also": [], **thresholds}
    return {"name": name} | ({"python": None} if group == "framework" else {})


def register_config_groups() -> None:
    """Adds the groups to Hydra's."""
    from hydra.core.config_store import ConfigStore  # half a second, and help needs only names

    store = ConfigStore.instance()
    for group, names in list_group_options().items():
        for name in names:
            # A slash in an option's name is a folder to Hydra, which would be a place of its own.
            above, _, last = f"{group}/{name}".rpartition("/")
            package = group if above != group else None
            try:
                node = dict(read_group_option(group, name))
            except SpecError:
                continue  # a damaged recipe: whoever asks for it is told, and nobody else
            store.store(group=above, name=last, node=node, package=package)
