"""Installed packages: entry points, searched once per process, and files changed since."""

import base64
import functools
import hashlib
import importlib.metadata
import sys
from pathlib import Path
from typing import Any


def find_entry_points(group: str) -> importlib.metadata.EntryPoints:
    """Return all entry points of a group without importing them."""
    found: importlib.metadata.EntryPoints = _load_entry_points(tuple(sys.path)).select(group=group)
    return found


@functools.lru_cache(maxsize=8)
def _load_entry_points(path: tuple[str, ...]) -> Any:
    # Cached: a search of `sys.path` takes 15 ms, and a run looks up adapters, algorithms, watchers
    # and checks, a study thousands of times.
    return importlib.metadata.entry_points()


def list_changed_modules(package: str) -> list[str]:
    """Return the modules of a distribution that differ from its wheel; none of a checkout.

    Returns:
        Paths relative to site-packages.
    """
    files = importlib.metadata.files(package) or []
    return [str(f) for f in files if f.suffix == ".py" and f.hash and not _has_hash(f, f.hash)]


def _has_hash(file: importlib.metadata.PackagePath, due: importlib.metadata.FileHash) -> bool:
    try:
        content = Path(str(file.locate())).read_bytes()
    except OSError:
        return False
    found = base64.urlsafe_b64encode(hashlib.new(due.mode, content).digest())
    return found.rstrip(b"=").decode() == due.value
