"""Answers in the user's cache, so that unchanged code is measured only once.

An answer is reused only if everything that may affect it is the same: the files of this project,
all code in the interpreter's site-packages, the interpreter, the processor, and the environment
variables that numerical libraries read.
"""

import contextlib
import functools
import hashlib
import json
import os
import platform
import shutil
import site
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import parallax
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.data_files import read_user_file
from parallax.harness.contract.interpreter import make_private_cache_folder
from parallax.harness.probes.experiments import AlignmentLevel
from parallax.harness.probes.results import result_from_dict

MAX_STORES = 60
"""Largest number of stores in the cache; the oldest are removed."""
_PROJECT = Path(parallax.__path__[0])
_CODE = (".py", ".so", ".yaml", ".pth")
_VARIABLES = ("CUBLAS", "CUDA", "JAX", "MKL", "NUMBA", "OMP", "PYTHON", "TORCH", "XLA")
"""Beginnings of variables that may change numbers. The folder of JAX's cache does not."""


class AnswerStore:
    """Stored answers of one implementation, a file for each probe.

    Args of the constructor:
        folder: Where they are; made with the first answer.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load_answer(self, probe: str) -> dict[str, Any] | None:
        """Return the stored result of a probe; None if there is none, or it cannot be read."""
        damage = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
        with contextlib.suppress(OSError, *damage):
            raw = read_user_file(self._folder / f"{probe}.json", 2**25)  # all take 4 MB
            content: dict[str, Any] = json.loads(raw)
            if result_from_dict(content).probe == probe:
                return content
        return None

    def save_answer(self, result: dict[str, Any]) -> None:
        """Store a result unless its probe failed; a full disk only costs time."""
        if any(answer["failed"] for answer in result["answers"].values()):
            return
        with contextlib.suppress(OSError):
            if not self._folder.exists():
                self._folder.mkdir(parents=True, exist_ok=True)
                _remove_oldest_stores(self._folder.parent)
            file = self._folder / f"{result['probe']}.json"
            part = file.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(result, allow_nan=False))
            part.replace(file)  # never half an answer


def open_answer_store(adapter: Adapter, level: AlignmentLevel, seed: int) -> AnswerStore | None:
    """Open the store of an implementation; None where other code may come first on the path.

    Args:
        adapter: The framework's adapter.
        level: Alignment of its hyperparameters.
        seed: Seed of the scripted numbers.
    """
    if not _is_path_plain():
        return None
    key = [_hash_environment(), adapter.name, adapter.package, *_list_code_elsewhere(adapter)]
    key += [level.name, level.hps, str(seed)]
    if level.hps.endswith(".yaml"):  # a recipe of the user's own, which may be edited
        key.append(Path(level.hps).read_text())
    folder = make_private_cache_folder("answers")
    return AnswerStore(folder / _hash_texts(key)) if folder else None


def _remove_oldest_stores(cache: Path) -> None:
    """Leave the newest stores; each change of code begins six new ones."""
    stores = sorted(cache.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in stores[MAX_STORES:]:
        shutil.rmtree(folder, ignore_errors=True)


def _is_path_plain() -> bool:
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return all(Path(folder).resolve() == _PROJECT.parent.resolve() for folder in given)


@functools.cache
def _hash_environment() -> str:
    """Return a hash of this project, of all installed code and of the machine."""
    own = (
        f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for folder in ("adapters", "envs", "harness", "hp_configs")
        for path in sorted((_PROJECT / folder).resolve().rglob("*"))
        if path.suffix in _CODE
    )
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    installed = (line for folder in folders for line in sorted(_list_code(folder)))
    variables = (
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(_VARIABLES) and name not in ("PYTHONPATH", "JAX_COMPILATION_CACHE_DIR")
    )
    machine = (sys.version, platform.platform(), _read_processor())
    return _hash_texts([*own, *installed, *variables, *machine])


def _list_code(folder: str) -> Iterator[str]:
    """Yield path, size and time of each file of code; reading all of them takes too long."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _list_code(entry.path)
            elif entry.name.endswith(_CODE):
                found = entry.stat()
                yield f"{entry.path} {found.st_size} {found.st_mtime_ns}"


def _list_code_elsewhere(adapter: Adapter) -> Iterator[str]:
    """Yield the code of a framework or adapter, which may lie outside site-packages."""
    for name in sorted({*adapter.import_names, adapter.package.split(".")[0]} - {"parallax"}):
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations if spec else None) or ():
            yield from sorted(_list_code(folder))


def _read_processor() -> str:
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line for line in lines if line.startswith("model name")), "")
    return platform.processor()


def _hash_texts(texts: list[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]
