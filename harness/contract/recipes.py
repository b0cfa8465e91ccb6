"""Hyperparameter files: those in `hp_configs/` and those that packages bring along.

The package of an adapter or of an algorithm may hold a folder `hp_configs/<algorithm>/` of its own.
"""

import copy
import functools
import importlib.util
import sys
from pathlib import Path
from typing import Any

import yaml

from harness.contract.adapter import installed_adapters
from harness.contract.algorithms import ALGORITHMS, Hyperparameters
from harness.contract.fields import SpecError, build, unknown

# Parsing in C takes a tenth of the time; what it is not built for falls back on Python.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def recipe_files(algorithm: str) -> dict[str, Path]:
    """Recipe files of an algorithm by name, sorted; this project's own come first."""
    packages = ["hp_configs", *(entry.module for entry in installed_adapters().values())]
    if algorithm in ALGORITHMS:
        packages.append(ALGORITHMS[algorithm].__module__.partition(".")[0])
    files: dict[str, Path] = {}
    for package in packages:
        for folder in _folders(package):
            below = folder if package == "hp_configs" else folder / "hp_configs"
            for file in below.joinpath(algorithm).glob("*.yaml"):
                files.setdefault(file.stem, file)
    return dict(sorted(files.items()))


def recipe_names(algorithm: str) -> list[str]:
    """Names of the recipes of an algorithm, sorted."""
    return list(recipe_files(algorithm))


def read_recipe(algorithm: str, name: str) -> dict[str, Any]:
    """The values in a recipe file, unchecked.

    Raises:
        SpecError: There is no such recipe.
    """
    files = recipe_files(algorithm)
    if name not in files:
        raise SpecError(unknown(f"hps={name}", name, list(files)))
    file = files[name]
    return copy.deepcopy(_parsed(file, file.stat().st_mtime_ns))


def load_recipe(algorithm: str, name: str) -> Hyperparameters:
    """A recipe as checked hyperparameters."""
    values = read_recipe(algorithm, name)
    hyperparameters: Hyperparameters = build(
        ALGORITHMS[algorithm], values, f"hp_configs/{algorithm}/{name}.yaml"
    )
    return hyperparameters


@functools.lru_cache(maxsize=64)
def _parsed(file: Path, changed: int) -> dict[str, Any]:
    # Kept: a study reads the same few files thousands of times, each in some milliseconds.
    values: dict[str, Any] = yaml.load(file.read_text(), Loader=_LOADER)
    return values


def _folders(package: str) -> list[Path]:
    return _found(package, tuple(sys.path))


@functools.lru_cache(maxsize=64)
def _found(package: str, path: tuple[str, ...]) -> list[Path]:
    # Found, not imported: a package that cannot be imported must not break all others.
    try:
        spec = importlib.util.find_spec(package)
    except ImportError:
        return []
    return [Path(path) for path in (spec.submodule_search_locations or [])] if spec else []
