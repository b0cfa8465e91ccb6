"""Settings and versions that must be equal for a run to continue from a checkpoint."""

import hashlib
import importlib.metadata
import os
import platform
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import msgspec

from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.adapter_discovery import describe_adapter_code
from parallax.harness.contract.run_spec import RunSpec, spec_to_dict
from parallax.harness.record.files import to_plain_json
from parallax.harness.train.prepare import PreparedRun, describe_translation
from parallax.harness.train.trust import list_texts

_LIBRARY = sysconfig.get_path("stdlib")
VERSIONED_LIBRARIES = ("numpy", "torch", "gymnasium", "mujoco", "ale-py", "minatar")
"""Libraries whose versions a state depends on, besides the packages that an adapter names."""

_IGNORED_FIELDS = ("study", "python", "checkpoint_every", "diagnosis", "logger", "endpoint")


def describe_run_identity(
    prepared: PreparedRun, adapter: Adapter, code: Mapping[str, Any]
) -> dict[str, Any]:
    """Return settings and versions that must be equal when a run resumes, by name in messages."""
    names = (*VERSIONED_LIBRARIES, *getattr(adapter, "packages", ()))
    versions = {name: _get_package_version(name) for name in dict.fromkeys(names)}
    settings = {k: v for k, v in spec_to_dict(prepared.spec).items() if k not in _IGNORED_FIELDS}
    for name, usual in (("actors", 1), ("evaluate_untrained", False)):
        if settings.get(name) == usual:  # which identities had no field for
            del settings[name]
    content = {
        "settings": settings,
        "translation": describe_translation(prepared),
        "adapter": dict(code["files"]),
        "code": _hash_shared_code(prepared.spec) | _hash_task_files(prepared.spec),
        "packages": {n: version for n, version in versions.items() if version},
        "python": platform.python_version(),
    }
    if (device := prepared.spec.device).startswith("cuda"):
        # The check of the device has imported torch, also for frameworks of other libraries.
        content["device"] = sys.modules["torch"].cuda.get_device_name(device)
    # As after reading a checkpoint: tuples are lists, and paths are texts.
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(to_plain_json(content)))
    return decoded


def _hash_shared_code(spec: RunSpec) -> dict[str, str]:
    """Return the hashes of files, beside the adapter's, that decide what a run computes."""
    shared = ("envs", "harness.replay", *(f"adapters.{n}_common" for n in ("jax", "sb3", "torch")))
    found = [n for n in _list_task_modules(spec) if _find_source(n)]
    modules = [*(f"parallax.{n}" for n in shared), *found]
    return {
        f"{module}:{file}": digest
        for module in modules
        for file, digest in describe_adapter_code(module)["files"].items()
    }


def _list_task_modules(spec: RunSpec) -> list[str]:
    """Return the modules that register and define a task and its wrappers, those loaded or not."""
    module, _, name = spec.env.rpartition(":")
    entry = gymnasium.spec(name).entry_point
    task = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    return sorted({name.partition(":")[0] for name in (module, task, *spec.env_wrappers)})


def _find_source(module: str) -> Path | None:
    """Return the file of a loaded module; None for one that is not loaded or has none."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def _hash_task_files(spec: RunSpec) -> dict[str, str]:
    """Return hashes of what a user's own task is made of, beside its module.

    These are the loaded modules below the folder that it was imported from, without installed
    packages, and the files that its arguments name.
    """
    roots = tuple(filter(None, map(_find_own_root, _list_task_modules(spec))))
    texts = list_texts(spec.env_kwargs)  # `Path.is_file` raises errors for long ones
    files = {text: Path(text) for text in texts if os.path.isfile(text)}  # noqa: PTH113
    for name in list(sys.modules) if roots else ():
        file = getattr(getattr(sys.modules.get(name), "__spec__", None), "origin", None) or ""
        # Thousands of modules may be loaded: most are left out by their text alone.
        if file.startswith(roots) and name != "__main__" and _find_own_root(name):
            files[f"{name}:{Path(file).name}"] = Path(file)
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}


def _find_own_root(module: str) -> str:
    """Return the folder that a user's own module was imported from; empty for all others."""
    file = _find_source(module)
    if file is None or module.startswith("parallax.") or file.is_relative_to(_LIBRARY):
        return ""
    if {"site-packages", "dist-packages"} & set(file.parts):
        return ""
    return str(file.parents[module.count(".") + (file.name == "__init__.py")]) + os.sep


def _get_package_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def describe_identity_difference(then: Mapping[str, Any], present: Mapping[str, Any]) -> str:
    """Return the first part in which an earlier identity differs from the present one, in words."""
    for part, now in present.items():
        before = then.get(part, {} if isinstance(now, dict) else None)
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            changed = [n for n in before.keys() | now.keys() if before.get(n) != now.get(n)]
            name = min(changed, key=str)  # a file may have names of several types
            if part in ("adapter", "code"):
                return f"{name} of the {part} is another one now"
            if isinstance(before.get(name), dict) and isinstance(now.get(name), dict):
                return describe_identity_difference({name: before[name]}, {name: now[name]})
            return f"{part}: {name} was {before.get(name)} and is {now.get(name)}"
        return f"{part} was {before} and is {now}"
    return ""
