"""Importing what several processes need before they are forked."""

import contextlib
import importlib
import os
from collections.abc import Iterable
from pathlib import Path

_ARROW_OPTIONS = "JE_ARROW_MALLOC_CONF"


def preload(modules: Iterable[str]) -> None:
    """Imports modules, without the thread that pyarrow would start; leaves out what is missing."""
    before = os.environ.get(_ARROW_OPTIONS)
    os.environ[_ARROW_OPTIONS] = "background_thread:false"  # read when pyarrow is loaded
    try:
        for name in modules:
            # A process that needs what is missing says so itself.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    finally:
        del os.environ[_ARROW_OPTIONS]
        if before is not None:
            os.environ[_ARROW_OPTIONS] = before


def has_threads() -> bool:
    """Whether this process has, or may have, a thread that a fork would lose."""
    tasks = Path("/proc/self/task")
    return not tasks.is_dir() or len(list(tasks.iterdir())) != 1
