"""Options of `parallax train`: groups that come from code, known keys, names of other tools.

Help lists them without importing Hydra, which takes half a second.
"""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from parallax.envs.tasks import MEMORY_TASK_IDS, TASK_IDS, Task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS, describe_owning_algorithms
from parallax.harness.contract.algorithms.base import field_names
from parallax.harness.contract.data_files import load_yaml
from parallax.harness.contract.fields import format_unknown_name
from parallax.harness.contract.recipes import list_recipe_names, load_recipe
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


GROUP_KEYS: Mapping[str, tuple[str, ...]] = {
    "framework": ("name", "python"),
    "algorithm": ("name",),
    "env": ("name", "kwargs", "wrappers"),
    "hps": ("name",),
    "study": ("name",),
}
"""Keys of the groups in which no other key has a meaning."""

# Fields of a run that are not options of their own, such as `env_kwargs`, which is `env.kwargs`.
_SET_ELSEWHERE = {"python", "overridden", "env_kwargs", "env_wrappers"}
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
    fields = sorted({f for cls in ALGORITHMS.values() for f in field_names(cls)})
    close = difflib.get_close_matches(name.removeprefix("hyperparameters."), fields, n=1)
    if close:
        return f"{name} is not known. Did you mean hyperparameters.{close[0]}?"
    if group == "hyperparameters" and algorithm in ALGORITHMS:
        own = ", ".join(field_names(ALGORITHMS[algorithm]))
        return f"{name} is not known. Hyperparameters of algorithm={algorithm}: {own}."
    options = [*sorted(TOP_KEYS - {"hydra", "recipe"}), *(f"hyperparameters.{f}" for f in fields)]
    return format_unknown_name(name, name, options)


def find_synonym(name: str, algorithm: str) -> str:
    """Return the option that another tool, or its adapter here, calls `name`; empty if none."""
    given, synonyms = _normalize_name(name.removeprefix("hyperparameters.")), _load_synonyms()
    if not name.startswith("hyperparameters."):
        for option, names in synonyms["run"].items():
            if given in names:
                return option
    for known in sorted(ALGORITHMS, key=lambda other: other != algorithm):  # `algorithm` first
        if field := _find_field(given, known, synonyms["hyperparameters"]):
            note = "" if known == algorithm else f" (of algorithm={known})"
            return f"hyperparameters.{field}{note}"
    return ""


def _find_field(given: str, algorithm: str, synonyms: Mapping[str, Sequence[str]]) -> str:
    """Return the hyperparameter of an algorithm that is called `given`; empty if none."""
    fields = {_normalize_name(field): field for field in field_names(ALGORITHMS[algorithm])}
    if given in fields:
        return fields[given]
    for field, names in synonyms.items():  # of several fields with one name, the first is meant
        if given in names and field in fields.values():
            return field
    for native, field in _list_native_names(algorithm):
        if given in (_normalize_name(native), _normalize_name(native.rpartition(".")[2])):
            return field
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
