"""Provenance of a run: machine, hardware, code and package versions."""

import collections
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def collect_provenance() -> dict[str, Any]:
    """Software, host, threads and command of this process."""
    return {
        "packages": list_imported_packages(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "host": platform.node(),
        "processor": read_processor_model(),
        "cores": os.cpu_count(),
        "threads": {
            name: value for name, value in sorted(os.environ.items()) if name.endswith("_THREADS")
        },
        "preloaded": list_preloaded_libraries(),
        "commit": read_project_commit(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def list_imported_packages() -> dict[str, str]:
    """Version of every installed distribution of which a module is imported."""
    versions: dict[str, str] = {}
    for module in sorted({name.partition(".")[0] for name in sys.modules}):
        for owner in _map_package_owners().get(module, ()):
            # setuptools adds its own copies of packages to the end of the path, and Python imports
            # the first copy.
            versions.setdefault(owner.metadata["Name"], owner.version)
    return dict(sorted(versions.items(), key=lambda item: item[0].lower()))


def read_processor_model() -> str:
    """Return the processor's name, as far as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def list_preloaded_libraries() -> list[str]:
    """Return the paths of libraries loaded by `LD_PRELOAD`, such as a memory allocator."""
    entries = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    # A file's full name may be longer than the name that programs request: libx.so.4.5.10.
    names = tuple(Path(entry).resolve().name for entry in entries)
    try:
        lines = Path("/proc/self/maps").read_text().splitlines() if names else []
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[5] for line in lines if "/" in line}
    return sorted(path for path in paths if Path(path).name.startswith(names))


def read_project_commit() -> dict[str, Any]:
    """Return this project's git commit and whether files differed; None outside a checkout."""
    folder = Path(__file__).parent
    try:
        commit = _run_git(folder, "rev-parse", "HEAD")
        dirty = bool(_run_git(folder, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}
    return {"commit": commit, "dirty": dirty}


def hash_weights(weights: Mapping[str, NDArray[Any]]) -> str:
    """Hash of all parameters, names and shapes included."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name])
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# `importlib.metadata.packages_distributions` makes an object of every installed file, which takes
# a third of a second.
@functools.cache
def _map_package_owners() -> Mapping[str, Sequence[importlib.metadata.Distribution]]:
    """Return the distributions that own each module at the top level."""
    owners = collections.defaultdict(list)
    for one in importlib.metadata.distributions():
        names = set((one.read_text("top_level.txt") or "").split())
        for line in [] if names else (one.read_text("RECORD") or "").splitlines():
            names.add(line.partition(",")[0].partition("/")[0].removesuffix(".py"))
        for name in names:
            owners[name].append(one)
    return owners


def _run_git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return result.stdout.strip()
