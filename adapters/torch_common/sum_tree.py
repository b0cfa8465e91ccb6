"""Tianshou's sum tree, compiled by numba, for sampling in proportion to priorities.

Only its installed file is executed, without the rest of the framework: it needs just numpy and
numba. (TorchRL's compiled trees only load with the PyTorch version that its wheel was built for.)
"""

import contextlib
import errno
import fcntl
import functools
import importlib.util
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.state_codec import ObjectCodec, State, StateMismatchError
from parallax.harness.replay.prioritized import Floats, Indices


@contextlib.contextmanager
def cache_compiled(name: str, functions: Iterable[Any]) -> Iterator[None]:
    """Load functions compiled within the context from a cache; later ones are not stored.

    Numba's cache numbers its files without a lock: two processes that compile at the same time
    could each leave an index that names the other's code. So only one process of this user on this
    machine compiles at a time, and others wait. If no folder can be written, every process
    compiles for itself.

    Args:
        name: Name of the lock; processes that compile other functions do not wait.
        functions: Functions of numba; other objects among them are ignored.
    """
    loops = [function for function in functions if hasattr(function, "enable_caching")]
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # without a folder there is no lock
            path = Path(tempfile.gettempdir(), f".parallax-{name}-{os.getuid()}.lock")
            fcntl.flock(stack.enter_context(_open_private_file(path)), fcntl.LOCK_EX)
        before = [loop._cache for loop in loops]
        for loop in loops:
            with contextlib.suppress(RuntimeError):  # no folder
                loop.enable_caching()
        yield
        for loop, cache in zip(loops, before, strict=True):
            loop._cache = cache  # the original cache stores nothing


def _open_private_file(path: Path) -> IO[bytes]:
    """Open a file that nobody else can open; others may have made one of its name in /tmp.

    Raises:
        OSError: It is no regular file, or others can open it, and so lock it for good.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.fdopen(os.open(path, flags, 0o600), "rb+")
    status = os.fstat(file.fileno())
    if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.geteuid():
        file.close()
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
    return file


# Not the module's real name, by which Python would load the framework.
_SEGTREE_MODULE = "parallax_tianshou_segtree"
_SEGTREE_FILE = ("data", "utils", "segtree.py")


def explain_missing_sum_tree() -> str:
    """Return the packages to install for the sum tree; empty if it is installed."""
    if _find_segtree_file() is None or importlib.util.find_spec("numba") is None:
        return "its sum tree needs: pip install 'tianshou>=2.0.1,<2.1'"
    return ""


def _find_segtree_file() -> Path | None:
    spec = importlib.util.find_spec("tianshou")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, *_SEGTREE_FILE)
        if path.is_file():
            return path
    return None


@functools.cache
def _load_segtree_module() -> ModuleType:
    path = _find_segtree_file()
    if path is None:
        raise SpecError(f"replay: {explain_missing_sum_tree()}.")
    spec = importlib.util.spec_from_file_location(_SEGTREE_MODULE, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_SEGTREE_MODULE] = module  # where checkpoints look classes up
    spec.loader.exec_module(module)
    # The first tree calls each function with arguments of the types that `CompiledSumTree` has.
    with cache_compiled("sum-tree", vars(module).values()):
        module.SegmentTree(2)
    return module


class CompiledSumTree:
    """See `parallax.harness.replay.prioritized.SumTree`."""

    def __init__(self, capacity: int) -> None:
        """Create a tree of `capacity` zeros; the first on a machine compiles for some seconds."""
        self._tree: Any = _load_segtree_module().SegmentTree(capacity)

    def get(self, indices: Indices) -> Floats:
        """Return the numbers at `indices`."""
        return np.asarray(self._tree[indices])

    def set(self, indices: Indices, values: Floats) -> None:
        """Set numbers at `indices`; of a repeated index the last one counts."""
        # Copies, so that numba sees one type only: arrays that can be written, without gaps.
        self._tree[np.array(indices, np.int64)] = np.array(values, np.float64)

    def total(self) -> float:
        """Return the sum of all numbers."""
        return float(self._tree.reduce())

    def find(self, points: Floats) -> Indices:
        """Return for each point the first index up to which the sum reaches it."""
        copied = np.array(points, np.float64)  # it writes into its argument
        found: Indices = self._tree.get_prefix_sum_idx(copied)
        return found


def make_tree_codec(
    kind: type[Any], find_tree: Callable[[Any], Any] = lambda tree: tree
) -> ObjectCodec:
    """Return a codec of objects with a sum tree, of which only the numbers are restored.

    The compiled functions check no index, and would use other sizes to write anywhere in memory.
    """

    def write(live: Any, state: State, inner: Callable[[Any, State], Any]) -> Any:
        if live is None or np.shape(state) != find_tree(live)._value.shape:
            raise StateMismatchError("a sum tree is of another size than it was")
        find_tree(live)._value[...] = state
        return live

    return ObjectCodec(kind, lambda tree, read: find_tree(tree)._value.copy(), write)
