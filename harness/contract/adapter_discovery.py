"""Adapters on this machine: finding them by their entry points, loading them, and their code."""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.fields import SpecError, format_unknown_name
from parallax.harness.contract.packages import find_entry_points

ENTRY_POINT_GROUP = "parallax.adapters"


def find_adapter_entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    """Entry points of all adapters on this machine, by name; nothing is imported."""
    return {entry.name: entry for entry in find_entry_points(ENTRY_POINT_GROUP)}


def load_adapter(name: str) -> Adapter:
    """Return the adapter registered as `name`.

    Raises:
        SpecError: No adapter has that name, or it cannot be loaded.
    """
    entry = find_adapter_entry_point(name)
    try:
        adapter: Adapter = entry.load()()
        if not isinstance(adapter, Adapter):
            raise TypeError(f"it is no {Adapter.__module__}.Adapter")
    except (Exception, SystemExit) as error:  # third-party code
        what = f"framework={name} cannot be used ({entry.value}: {type(error).__name__}: {error})"
        raise SpecError(f"{what}. Repair or uninstall its package.") from error
    return adapter


def list_usable_frameworks() -> list[str]:
    """Return the sorted names of loadable adapters; report the others on standard error."""
    found = []
    for name in sorted(find_adapter_entry_points()):
        try:
            load_adapter(name)
        except SpecError as error:
            print(f"Left out: {error}", file=sys.stderr)
        else:
            found.append(name)
    return found


def find_adapter_entry_point(name: str) -> importlib.metadata.EntryPoint:
    """Return the entry point registered as `name`.

    Raises:
        SpecError: No adapter has that name, or several have it.
    """
    entries = find_adapter_entry_points()
    if name not in entries:
        raise SpecError(format_unknown_name(f"framework={name}", name, list(entries)))
    values = {entry.value for entry in find_entry_points(ENTRY_POINT_GROUP) if entry.name == name}
    if len(values) > 1:
        raise SpecError(f"framework={name} is {' and '.join(sorted(values))}: uninstall one.")
    return entries[name]


def describe_adapter_code(value: str) -> dict[str, Any]:
    """Return the identity of an adapter's code, including adapters in editable packages.

    Args:
        value: What its entry point names, `package.module:Class`. The entry point itself may be
            absent: an interpreter that only trains need not have the distribution installed.

    Returns:
        `distribution` and `version` that register it (None where none does here), the names of
        what that `requires` (none for this project, which requires every framework), and
        `files`: sha256 by path below the adapter's package.
    """
    module = value.partition(":")[0]
    spec = importlib.util.find_spec(module)
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    files: dict[str, str] = {}
    if origin is not None:
        is_package = origin.name == "__init__.py"
        for path in sorted(origin.parent.rglob("*.py")) if is_package else [origin]:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            files[path.relative_to(origin.parent).as_posix()] = digest
    owner = next((e.dist for e in find_adapter_entry_points().values() if e.value == value), None)
    return {
        "distribution": owner.name if owner else None,
        "version": owner.version if owner else None,
        "requires": [] if module.startswith("parallax.adapters.") else _list_requirements(owner),
        "files": files,
    }


def _list_requirements(owner: importlib.metadata.Distribution | None) -> list[str]:
    """Return the names of a distribution's requirements, without versions, extras and markers."""
    listed = (owner.requires if owner else None) or []
    found = (re.match(r"[\w.-]+", text) for text in listed if "extra ==" not in text)
    return sorted({match[0] for match in found if match})
