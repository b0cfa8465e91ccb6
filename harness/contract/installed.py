"""Entry points of installed packages, searched once per process."""

import functools
import importlib.metadata
import sys
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
