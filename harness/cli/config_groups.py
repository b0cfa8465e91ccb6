"""Options of `parallax train`: groups that come from code, known keys, names of other tools.

Help lists them without importing Hydra, which takes half a second.
"""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.envs.tasks import MEMORY_TASK_IDS, TASK_IDS, Task
from parallax.harness.contract.adapter import RunContext, find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS, describe_owning_algorithms, field_names
from parallax.harness.contract.data_files import load_yaml
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.contract.recipes import list_recipe_names, load_recipe, read_recipe
from parallax.harness.contract.replay import REPLAY_CONFIGS
from parallax.harness.contract.run_spec import DIAGNOSIS_MODES, RunSpec


def list_group_options() -> dict[str, list[str]]:
    """Return the options of each group; those of `hyperparameters/...` are recipes."""
    recipes = {algorithm: list_recipe_names(algorithm) for algorithm in ALGORITHMS}
    return {
        "framework": list(find_adapter_entry_points()),
        "algorithm": list(ALGORITHMS),
        "env": [*TASK_IDS, *MEMORY_TASK_IDS],
        "hps": sorted(set().union(*recipes.values())),
        "replay": list(REPLAY_CONFIGS),
        "diagnosis": list(DIAGNOSIS_MODES),
    } | {f"hyperparameters/{algorithm}": names for algorithm, names in recipes.items()}


DIAGNOSIS_KEYS = ("name", "period", "only", "skip", "extra_checks")
"""Settings of the group `diagnosis` itself; all other settings belong to a check."""


def read_group_option(group: str, name: str) -> Mapping[str, Any]:
    """Return the values of an option of a group."""
    kind, _, algorithm = group.partition("/")
    if kind == "hyperparameters":
        return read_recipe(algorithm, name)
    if group == "replay":
        return REPLAY_CONFIGS[name]().to_dict()
    if group == "diagnosis":
        from parallax.harness.diagnosis.checks import (
            get_default_thresholds,  # help needs only names
        )

        checks = {
            key: {"threshold": value, "period": None}
            for key, value in get_default_thresholds().items()
        }
        lists: dict[str, list[str]] = {"only": [], "skip": [], "extra_checks": []}
        return {"name": name, "period": None, **lists, **checks}
    own: dict[str, dict[str, Any]] = {
        "framework": {"python": None},
        "env": {"kwargs": {}, "wrappers": []},
    }
    return {"name": name} | own.get(group, {})


def register_config_groups() -> None:
    """Add the groups to those of Hydra."""
    from hydra.core.config_store import ConfigStore  # half a second, and help needs only names
    from omegaconf import OmegaConf

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


GROUP_KEYS: Mapping[str, tuple[str, ...]] = {
    "framework": ("name", "python"),
    "algorithm": ("name",),
    "env": ("name", "kwargs", "wrappers"),
    "hps": ("name",),
    "study": ("name",),
}
"""Keys of the groups that are only checked here."""

_SET_ELSEWHERE = {"python", "overridden", "env_kwargs", "env_wrappers"}  # fields, but no options
TOP_KEYS = frozenset(
    {field.name for field in dataclasses.fields(RunSpec)} - _SET_ELSEWHERE
    | {"recipe", "results_dir", "hydra"}
)


def explain_unknown_option(name: str, algorithm: str) -> str:
    """Return the message for an unknown option, with the option that was probably meant.

    Args:
        name: Text before the equals sign.
        algorithm: The algorithm that would be trained; its hyperparameters come first.
    """
    group, _, field = name.rpartition(".")
    if group in GROUP_KEYS:
        keys = ", ".join(f"{group}.{key}" for key in GROUP_KEYS[group])
        task = f" Set an argument of the task itself with env.kwargs.{field}."
        return f"{name} is not known: {group} has {keys}.{task if group == 'env' else ''}"
    if group == "hyperparameters" and describe_owning_algorithms(field):
        return f"{name} {describe_owning_algorithms(field)}"
    if meant := find_synonym(name, algorithm):
        return f"{name} is not known. Did you mean {meant}?"
    fields = {f for cls in ALGORITHMS.values() for f in field_names(cls)}
    options = [*sorted(TOP_KEYS - {"hydra", "recipe"}), *(f"hyperparameters.{f}" for f in fields)]
    if close := difflib.get_close_matches(
        name.removeprefix("hyperparameters."), sorted(fields), n=1
    ):
        return f"{name} is not known. Did you mean hyperparameters.{close[0]}?"
    if group == "hyperparameters" and algorithm in ALGORITHMS:
        own = ", ".join(field_names(ALGORITHMS[algorithm]))
        return f"{name} is not known. Hyperparameters of algorithm={algorithm}: {own}."
    return format_unknown_name(name, name, options)


def find_synonym(name: str, algorithm: str) -> str:
    """Return the option that another tool, or its adapter here, calls `name`; empty if none."""
    given, known_names = _normalize_name(name.removeprefix("hyperparameters.")), _load_synonyms()
    if not name.startswith("hyperparameters."):
        for option, names in known_names["run"].items():
            if given in names:
                return option
    order = [algorithm, *(other for other in ALGORITHMS if other != algorithm)]
    for known in (one for one in order if one in ALGORITHMS):
        own = field_names(ALGORITHMS[known])
        synonyms = {_normalize_name(field): field for field in own}
        for field, names in known_names["hyperparameters"].items():
            if given in names and field in own:
                synonyms.setdefault(given, field)
        for native, field in _list_native_names(known):
            synonyms.setdefault(_normalize_name(native), field)
            synonyms.setdefault(_normalize_name(native.rpartition(".")[2]), field)
        if given in synonyms:
            note = "" if known == algorithm else f" (of algorithm={known})"
            return f"hyperparameters.{synonyms[given]}{note}"
    return ""


def _load_synonyms() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return other tools' names by option: those of runs, and those of hyperparameters."""
    file = Path(__file__).with_name("option_synonyms.yaml")
    loaded: Mapping[str, Mapping[str, Sequence[str]]] = load_yaml(file, "list of names")
    return loaded


def _normalize_name(name: str) -> str:
    return name.lower().lstrip("-").replace("-", "_")


def _list_native_names(algorithm: str) -> Iterator[tuple[str, str]]:
    """Yield frameworks' names of hyperparameters, with the unified ones, without importing any."""
    continuous = Task("", 4, (-1.0,), (1.0,), 100)
    discrete = Task("", 4, (), (), 100, choices=2)
    task = discrete if ALGORITHMS[algorithm].actions == "discrete" else continuous
    context = RunContext(task, 10**6, 0)
    for name in find_adapter_entry_points():
        try:
            adapter = load_adapter(name)
            if not adapter.supports(algorithm) or name not in list_recipe_names(algorithm):
                continue
            native = adapter.translate(algorithm, load_recipe(algorithm, name), context)
        except Exception:  # a damaged adapter must not hide the message
            continue
        yield from ((row.native_name, row.field) for row in native.alignment if row.native_name)
