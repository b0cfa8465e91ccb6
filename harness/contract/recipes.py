"""Hyperparameter files: those in `hp_configs/` and those of other packages.

The package of an adapter or of an algorithm may hold a folder `hp_configs/<algorithm>/` of its own.
"""

import copy
import dataclasses
import functools
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from parallax.harness.contract.adapter import Adapter, RunContext
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.data_files import load_named_values
from parallax.harness.contract.fields import SpecError, build_dataclass, format_unknown_name


def find_recipe_files(algorithm: str) -> dict[str, Path]:
    """Recipe files of an algorithm by name, sorted; this project's own come first."""
    packages = [
        "parallax.hp_configs",
        *(entry.module for entry in find_adapter_entry_points().values()),
    ]
    if algorithm in ALGORITHMS:
        packages.append(ALGORITHMS[algorithm].__module__.partition(".")[0])
    files: dict[str, Path] = {}
    for package in packages:
        for folder in _find_package_folders(package):
            below = folder if package == "parallax.hp_configs" else folder / "hp_configs"
            for file in below.joinpath(algorithm).glob("*.yaml"):
                files.setdefault(file.stem, file)
    return dict(sorted(files.items()))


def list_recipe_names(algorithm: str) -> list[str]:
    """Names of the recipes of an algorithm, sorted."""
    return list(find_recipe_files(algorithm))


def read_recipe(algorithm: str, name: str) -> dict[str, Any]:
    """Return the values in a recipe file, unchecked.

    Raises:
        SpecError: There is no such recipe, or its file is damaged; names file and line.
    """
    file = _find_recipe_file(algorithm, name)
    try:
        return copy.deepcopy(_parse_recipe_file(file, file.stat().st_mtime_ns))
    except OSError as error:
        raise SpecError(f"{file} cannot be read ({error.strerror}): make it readable.") from error


def load_recipe(algorithm: str, name: str) -> Hyperparameters:
    """Return a recipe as checked hyperparameters.

    Raises:
        SpecError: There is no such recipe, or a value in it cannot be used; names file and line.
    """
    values = read_recipe(algorithm, name)
    where = name if name.endswith(".yaml") else f"hp_configs/{algorithm}/{name}.yaml"
    try:
        hyperparameters: Hyperparameters = build_dataclass(ALGORITHMS[algorithm], values, where)
    except SpecError as error:
        file = _find_recipe_file(algorithm, name)
        raise SpecError(f"{file}{_line_of_error(file, where, str(error))}: {error}") from error
    return hyperparameters


def _find_recipe_file(algorithm: str, name: str) -> Path:
    files = find_recipe_files(algorithm)
    if name not in files and not (name.endswith(".yaml") and Path(name).is_file()):
        raise SpecError(format_unknown_name(f"hps={name}", name, list(files)))
    return files.get(name, Path(name))  # the user's own, wherever it is


def _line_of_error(file: Path, where: str, text: str) -> str:
    """Return `:LINE` of the entry that an error is about, or "" if it has none."""
    entry = re.match(rf"{re.escape(where)}\.(\w+)", text)
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if entry and line.startswith(f"{entry[1]}:"):
            return f":{number}"
    return ""


@functools.lru_cache(maxsize=64)
def _parse_recipe_file(file: Path, changed: int) -> dict[str, Any]:
    # Cached: a study reads the same few files thousands of times, each in some milliseconds.
    return load_named_values(file, "recipe")


def _find_package_folders(package: str) -> list[Path]:
    return _find_package_folders_on_path(package, tuple(sys.path))


@functools.lru_cache(maxsize=64)
def _find_package_folders_on_path(package: str, path: tuple[str, ...]) -> list[Path]:
    # Found, not imported: a package that cannot be imported must not break all others.
    try:
        spec = importlib.util.find_spec(package)
    except ImportError:
        return []
    return [Path(path) for path in (spec.submodule_search_locations or [])] if spec else []


def set_common_fields(
    adapter: Adapter, algorithm: str, requested: Hyperparameters, context: RunContext
) -> Hyperparameters:
    """Return a framework's own defaults with the requested values of commonly exposed fields.

    This is `alignment=common`. The framework must have a recipe of its own.
    """
    common = {name: getattr(requested, name) for name in type(requested).common_fields}
    own = dataclasses.replace(load_recipe(algorithm, adapter.name), **common)
    own = adapter.get_library_defaults(algorithm, own, context)
    return dataclasses.replace(own, **common)
