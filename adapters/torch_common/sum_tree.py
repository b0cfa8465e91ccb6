"""Tianshou's sum tree, compiled by numba, for what draws in proportion to priorities.

Its file is run as it is installed, without the rest of the framework: it needs numpy and numba
only. (TorchRL's compiled trees are those of the PyTorch that its wheel was built for, and do not
load with another one.)
"""

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from adapters.torch_common.numba_cache import kept_compiled
from harness.contract.fields import SpecError
from harness.replay.strategy import Floats, Indices

_MODULE = "parallax_tianshou_segtree"  # a name of our own: the real one would load the framework
_FILE = ("data", "utils", "segtree.py")


def missing_tree() -> str:
    """What has to be installed for a sum tree; empty where it is."""
    if _path() is None or importlib.util.find_spec("numba") is None:
        return "its sum tree needs: pip install 'tianshou>=2.0.1,<2.1'"
    return ""


def _path() -> Path | None:
    spec = importlib.util.find_spec("tianshou")
    places = spec.submodule_search_locations if spec else None
    path = Path(next(iter(places)), *_FILE) if places else None
    return path if path is not None and path.is_file() else None


@functools.cache
def _module() -> ModuleType:
    path = _path()
    if path is None or (spec := importlib.util.spec_from_file_location(_MODULE, path)) is None:
        raise SpecError(f"replay: {missing_tree()}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # where checkpoints look classes up
    assert spec.loader is not None
    spec.loader.exec_module(module)
    # The first tree calls each function with arguments of the types that `CompiledTree` hands on.
    with kept_compiled("sum-tree", vars(module).values()):
        module.SegmentTree(2)
    return module


class CompiledTree:
    """See `harness.replay.strategy.SumTree`."""

    def __init__(self, capacity: int) -> None:
        """A tree of `capacity` zeros; the first on a machine takes some seconds to compile."""
        self._tree: Any = _module().SegmentTree(capacity)

    def get(self, indices: Indices) -> Floats:
        """The numbers at `indices`."""
        return np.asarray(self._tree[indices])

    def set(self, indices: Indices, values: Floats) -> None:
        """Puts numbers at `indices`; of an index that stands there twice the last counts."""
        # Copies, so that numba sees one type only: arrays that can be written, without gaps.
        self._tree[np.array(indices, np.int64)] = np.array(values, np.float64)

    def total(self) -> float:
        """The sum of all numbers."""
        return float(self._tree.reduce())

    def find(self, points: Floats) -> Indices:
        """For each point the first index up to which the sum reaches it."""
        found: Indices = self._tree.get_prefix_sum_idx(
            np.array(points, np.float64)
        )  # it writes into what it gets
        return found
