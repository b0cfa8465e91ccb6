"""The Hydra application: configuration in, finished run folders out."""

import collections
import contextlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from parallax.harness.cli.config_groups import (
    GROUP_KEYS,
    TOP_KEYS,
    explain_unknown_option,
    list_group_options,
)
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import RunsFailedError, SpecError
from parallax.harness.contract.own_script import OwnScript, read_own_script
from parallax.harness.contract.recipes import list_recipe_names, load_recipe, read_recipe
from parallax.harness.contract.replay import REPLAY_CONFIGS
from parallax.harness.contract.run_spec import RunSpec, make_run_spec
from parallax.harness.diagnosis.checks import check_names, get_default_thresholds, load_all_checks
from parallax.harness.record.old_names import RENAMED_ALIGNMENTS
from parallax.harness.sweep.forked_process import ForkServer
from parallax.harness.sweep.run_process import SYSTEM_ALLOCATOR, RunOutcome
from parallax.harness.sweep.sweep import count_processes, list_sweep, run_sweep

_REFERENCE_PATTERN = re.compile(r"\$\{\.*(\w[\w.]*)")
_NAMED_GROUPS = ("framework", "algorithm", "env", "hps", "study")
DIAGNOSIS_KEYS = ("name", "period", "only", "skip", "extra_checks")
"""Settings of the group `diagnosis` itself; all other settings belong to a check."""


def register_config_groups() -> None:
    """Add the groups that come from code to those of Hydra."""
    store = ConfigStore.instance()
    for group, names in list_group_options().items():
        for name in names:
            # To Hydra, a slash in an option's name is a folder with its own package.
            above, _, last = f"{group}/{name}".rpartition("/")
            package = group if above != group else None
            try:
                node: Any = dict(read_group_option(group, name))
            except SpecError:
                continue  # a damaged recipe stops only the runs that use it
            if group == "env":
                node = OmegaConf.create(node)
                OmegaConf.set_struct(node.kwargs, False)  # its names are the task's own
            store.store(group=above, name=last, node=node, package=package)


def read_group_option(group: str, name: str) -> Mapping[str, Any]:
    """Return the values of an option of a group."""
    kind, _, algorithm = group.partition("/")
    if kind == "hyperparameters":
        return read_recipe(algorithm, name)
    if group == "replay":
        return REPLAY_CONFIGS[name]().to_dict()
    if group == "diagnosis":
        thresholds = get_default_thresholds().items()
        checks = {key: {"threshold": value, "period": None} for key, value in thresholds}
        lists: dict[str, list[str]] = {"only": [], "skip": [], "extra_checks": []}
        return {"name": name, "period": None, **lists, **checks}
    own: dict[str, dict[str, Any]] = {
        "framework": {"python": None},
        "env": {"kwargs": {}, "wrappers": []},
    }
    return {"name": name} | own.get(group, {})


def run_hydra_app(early_server: ForkServer | None) -> None:
    """Compose the configuration from the process' command line, and train its runs.

    Args:
        early_server: As for `ForkServerPool`; for a single run.
    """

    @hydra.main(version_base="1.3", config_path="pkg://parallax.harness.conf", config_name="config")
    def app(config: DictConfig) -> None:
        try:
            _train_single_run(config, early_server)
        except (SpecError, RunsFailedError) as error:
            # Hydra would print a second message around an exception.
            raise SystemExit(2) from error

    app()


def _train_single_run(config: DictConfig, early_server: ForkServer | None) -> None:
    spec, results_dir = spec_from_config(config)
    name = HydraConfig.get().runtime.choices.get("hydra/launcher")
    if name not in ("local", "basic", None):
        raise SpecError(f"hydra/launcher={name} starts sweeps only: add --multirun.")
    launcher = HydraConfig.get().launcher or {}
    jobs, malloc = launcher.get("n_jobs", 1), launcher.get("malloc") or SYSTEM_ALLOCATOR
    if launcher.get("dry_run"):
        print(*list_sweep([spec], results_dir, jobs, malloc), sep="\n")
        return
    if jobs != -1:
        count_processes(jobs)  # only checks it: a single run needs one process
    outcomes = run_sweep([spec], results_dir, 1, malloc, early_server)
    report_outcomes(outcomes, results_dir)


def spec_from_config(config: DictConfig) -> tuple[RunSpec, Path]:
    """Return the run that `config` describes, checked, and the folder for results."""
    check_composed_keys(config)
    values: Any = OmegaConf.to_container(config, resolve=True)
    return spec_from_values(values)


def check_composed_keys(config: DictConfig) -> None:
    """Check that a composed configuration has no unused keys; the error names the first one."""
    raw: Any = OmegaConf.to_container(config, resolve=False)
    command = HydraConfig.get() if HydraConfig.initialized() else OmegaConf.create()
    swept = OmegaConf.to_container(command, resolve=False)
    study = read_study_references(config.get("hydra", command))
    check_known_keys(raw, [*find_references(raw), *find_references(swept), *study])


def read_study_references(settings: DictConfig) -> Iterator[str]:
    """Yield the names that the study's file refers to, also in values that were overridden."""
    for source in settings.runtime.config_sources if "runtime" in settings else ():
        if source.schema not in ("pkg", "file"):
            continue
        with contextlib.suppress(ImportError, TypeError):  # hydra.searchpath names no package
            folder = files(source.path) if source.schema == "pkg" else Path(source.path)
            file = folder / "study" / f"{settings.runtime.choices.get('study')}.yaml"
            yield from find_references([file.read_text("utf-8")] if file.is_file() else [])


def check_known_keys(values: Mapping[str, Any], references: Iterable[str] = ()) -> None:
    """Check that a configuration has no unused keys.

    A study may have its own keys that other keys refer to, as in `${my_steps.${algorithm.name}}`.

    Args:
        values: The configuration, with or without references resolved.
        references: Dotted names that other values refer to.

    Raises:
        SpecError: A key is unused; the message names it and the key that was probably meant.
    """
    used = set(references)
    unknown = [name for name in values if name not in TOP_KEYS and not _is_used(name, used)]
    for group, names in GROUP_KEYS.items():
        chosen = values.get(group)
        inside = chosen if isinstance(chosen, Mapping) else {}
        paths = [f"{group}.{name}" for name in inside if name not in names]
        unknown += [path for path in paths if not _is_used(path, used)]
    if unknown:
        algorithm = values.get("algorithm")
        name = algorithm.get("name") if isinstance(algorithm, Mapping) else algorithm
        raise SpecError(explain_unknown_option(str(unknown[0]), str(name)))


def find_references(raw: Any) -> Iterator[str]:
    """Yield the dotted names that unresolved values refer to."""
    for text in iterate_references(raw):
        yield from (name.rstrip(".") for name in _REFERENCE_PATTERN.findall(text))


def iterate_references(raw: Any) -> Iterator[str]:
    """Yield every text in unresolved values that refers to other values."""
    if isinstance(raw, Mapping):
        for pair in raw.items():
            yield from iterate_references(list(pair))
    elif isinstance(raw, list):
        for item in raw:
            yield from iterate_references(item)
    elif isinstance(raw, str) and "${" in raw:
        yield raw


def _is_used(path: str, references: set[str]) -> bool:
    return any(f"{name}.".startswith(f"{path}.") for name in references)


def spec_from_values(values: Mapping[str, Any]) -> tuple[RunSpec, Path]:
    """Return the run that resolved values describe, checked, and the folder for results."""
    flat = dict(values) | {name: _read_group_name(values, name) for name in _NAMED_GROUPS}
    flat["python"] = values["framework"].get("python")
    flat["env_kwargs"] = values["env"].get("kwargs") or {}
    flat["env_wrappers"] = values["env"].get("wrappers") or ()
    flat["script"] = _read_script(values.get("script"))
    flat["diagnosis"] = read_diagnosis_settings(values.get("diagnosis"))
    if renamed := RENAMED_ALIGNMENTS.get(level := str(values["alignment"])):
        raise SpecError(f"alignment={level} was renamed: use alignment={renamed}.")
    # `hyperparameters=[]` removes the group.
    given, recipe = values.get("hyperparameters", []), values.get("recipe", [])
    if not isinstance(given, Mapping):
        raise SpecError(f"hyperparameters={given} must hold values by name, such as gamma: 0.99.")
    _check_recipe_values(flat["algorithm"], flat["hps"], recipe)
    try:
        spec = make_run_spec(flat, given, recipe)
    except SpecError:
        _check_recipe_file(flat["algorithm"], flat["hps"])
        raise
    return spec, _check_results_dir(values["results_dir"])


def _read_script(path: Any) -> OwnScript | None:
    try:
        return read_own_script(Path(str(path)).expanduser()) if path else None
    except RuntimeError:
        raise SpecError(f"script={path}: ~ cannot be expanded: give a full path.") from None


def _check_results_dir(place: Any) -> Path:
    if not isinstance(place, str):
        raise SpecError(f"results_dir={place} must be a name: write it in quotes.")
    if not place or not place.isprintable():
        raise SpecError(f"results_dir={place!r} must name a folder in printable characters.")
    if place.startswith("~"):
        raise SpecError(f"results_dir={place}: ~ is not expanded. Write {Path.home()} instead.")
    return Path(place)


def _check_recipe_values(algorithm: str, name: str, values: Any) -> None:
    """Raise `SpecError` if a run would have a recipe's name but other values."""
    known = algorithm in ALGORITHMS and name in list_recipe_names(algorithm)
    if known and read_recipe(algorithm, name) != values:
        raise SpecError(
            f"hps={name} names a recipe, but the run has other values. Choose the recipe with "
            f"hps={name}, or in a file with `override /hps: {name}` in its defaults; change "
            "values with hyperparameters.NAME=VALUE. Your own recipe needs its own name."
        )


def _check_recipe_file(algorithm: str, name: str) -> None:
    """Raise `SpecError` with the file and line of a wrong value in the recipe."""
    if algorithm in ALGORITHMS and name in list_recipe_names(algorithm):
        load_recipe(algorithm, name)


def read_diagnosis_settings(values: Any) -> dict[str, Any]:
    """Return the values of the group `diagnosis` that are not the default ones."""
    if not isinstance(values, Mapping):
        return {"mode": values if values is not None else "off"}
    checks = {
        name: value if isinstance(value, Mapping) else {"threshold": value}
        for name, value in values.items()
        if name not in DIAGNOSIS_KEYS
    }
    only, skip, extra = (values.get(key) or [] for key in ("only", "skip", "extra_checks"))
    # Other values than lists of names are refused by the checks of a specification.
    if all(map(_is_list_of_names, (only, skip, extra))):
        _check_known_checks([*checks, *only, *skip], extra)
    defaults = get_default_thresholds()
    thresholds = {name: own["threshold"] for name, own in checks.items() if "threshold" in own}
    settings = {key: values.get(key) for key in DIAGNOSIS_KEYS[1:]} | {
        "thresholds": {n: value for n, value in thresholds.items() if value != defaults.get(n)},
        "periods": {n: own["period"] for n, own in checks.items() if own.get("period") is not None},
    }
    changed = {
        key: value
        for key, value in settings.items()
        if value is not None and (value or key == "period")
    }
    return {"mode": values.get("name")} | changed


def _is_list_of_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _check_known_checks(names: Iterable[str], extra: Sequence[str]) -> None:
    """Raise `SpecError` for a name of no check, or a check of `extra` that cannot be loaded."""
    defaults = get_default_thresholds()
    unknown = [name for name in names if name not in defaults]
    if not unknown and not extra:
        return
    known, problems = load_all_checks(extra)
    for problem in problems:
        if "extra_checks" in problem:
            raise SpecError(f"{problem}. Write extra_checks=[MODULE:NAME] of an importable one.")
    check_names(unknown, known)


def _read_group_name(values: Mapping[str, Any], group: str) -> Any:
    chosen = values.get(group)
    if not isinstance(chosen, Mapping) or "name" not in chosen:
        raise SpecError(f"{group} has no name: choose one with {group}=..., or set {group}.name.")
    return chosen["name"]


def report_outcomes(outcomes: list[RunOutcome], results_dir: Path) -> None:
    """Print how the runs ended, where they are, and the next command.

    Raises:
        RunsFailedError: Not all of them completed.
    """
    counts = collections.Counter(outcome.status for outcome in outcomes)
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    studies = sorted({str(results_dir / outcome.spec.study) for outcome in outcomes})
    where = [str(outcomes[0].folder)] if len(outcomes) == 1 else studies
    noun = "run" if len(outcomes) == 1 else "runs"
    print(f"{len(outcomes)} {noun}: {summary}. Results are in {', '.join(where)}")
    if counts.keys() & {"completed", "skipped"}:
        print("Next:", *(f"parallax report {shlex.quote(study)}" for study in studies))
    if set(counts) - {"completed", "skipped"}:
        raise RunsFailedError(f"{summary}. Run the same command again to resume incomplete runs.")
