"""The Hydra application: configuration in, finished run folders out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from harness.cli.errors import RunsFailed, exit_code
from harness.contract.fields import SpecError
from harness.contract.run_spec import RunSpec, make_spec
from harness.diagnosis.registry import default_thresholds
from harness.sweep.allocator import NONE
from harness.sweep.process import Outcome
from harness.sweep.sweep import run_all

_NAMED = ("framework", "algorithm", "env", "hps", "study")


@hydra.main(version_base="1.3", config_path="pkg://harness.conf", config_name="config")
def app(config: DictConfig) -> None:
    """Executes the one run that `config` describes."""
    try:
        spec, results_dir = spec_from_config(config)
        # Other launchers than the local one have other options, and are for sweeps.
        malloc = HydraConfig.get().launcher.get("malloc") or NONE
        report(run_all([spec], results_dir, n_jobs=1, malloc=malloc), results_dir)
    except (SpecError, RunsFailed) as error:
        # Raised further, Hydra would print a second message around it.
        raise SystemExit(exit_code(error)) from None


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
    flat = dict(values) | {name: _name(values, name) for name in _NAMED}
    flat["python"] = values["framework"].get("python")
    flat["diagnosis"] = diagnosis_settings(values.get("diagnosis"))
    spec = make_spec(flat, values["hyperparameters"], values["recipe"])
    if not values["results_dir"]:
        raise SpecError("results_dir is empty: name a folder.")
    return spec, Path(values["results_dir"])


def diagnosis_settings(values: Any) -> dict[str, Any]:
    """What of the group `diagnosis` is not as it is without a word."""
    if not isinstance(values, Mapping):
        return {"mode": values if values is not None else "off"}
    rest = {key: value for key, value in values.items() if key not in ("name", "also", "period")}
    defaults = default_thresholds()
    thresholds = {}
    for name, value in rest.items():
        given = value.get("threshold") if isinstance(value, Mapping) else value
        if given != defaults.get(name):
            thresholds[name] = given
    kept = {"also": values.get("also"), "period": values.get("period"), "thresholds": thresholds}
    asked = {key: value for key, value in kept.items() if value not in (None, [], {})}
    return {"mode": values.get("name")} | asked


def _name(values: Mapping[str, Any], group: str) -> Any:
    chosen = values.get(group)
    if not isinstance(chosen, Mapping) or "name" not in chosen:
        raise SpecError(f"{group} has no name: choose one with {group}=..., or set {group}.name.")
    return chosen["name"]


def report(outcomes: list[Outcome], results_dir: Path) -> None:
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
        raise RunsFailed(f"{summary}. The same command runs again what is not complete.")
