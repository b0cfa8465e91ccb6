"""Compiles Tianshou's loops over arrays before a training, once on a machine.

Numba would compile them in every process that trains, when they are first called, which takes
seconds. Importing this module calls each with arguments of the types that trainings have; what is
compiled is what would have been, and later processes load it.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from adapters.torch_common.numba_cache import kept_compiled

_EACH, _INDEX = np.zeros(2), np.zeros(2, dtype=np.int64)
_SINGLE, _FLAGS = _EACH.astype(np.float32), np.zeros(2, dtype=bool)
_PLACES = (_INDEX, np.array([0, 2]), _FLAGS, _INDEX[:1], np.array([2]))
_BUFFER, _ALGORITHM = "tianshou.data.buffer.manager", "tianshou.algorithm.algorithm_base"
CALLS: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    (_BUFFER, "_prev_index", _PLACES),
    (_BUFFER, "_next_index", _PLACES),
    (_ALGORITHM, "_gae", (_SINGLE, _SINGLE, _EACH, _FLAGS, 0.5, 0.5)),
    (_ALGORITHM, "_gae", (_EACH, _EACH, _EACH, _FLAGS, 0.5, 0.5)),
    (_ALGORITHM, "_nstep_return", (_EACH, _FLAGS, _SINGLE[:, None], _INDEX[None], 0.5, 1)),
)
"""Module, function, and arguments of a kind that it is called with."""


def loop(module: str, name: str) -> Callable[..., Any]:
    """The compiled function.

    Raises:
        ImportError: This version does not have it.
    """
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except AttributeError as error:
        raise ImportError(f"{module} has no {name}") from error
    return found


with kept_compiled("tianshou", {loop(module, name) for module, name, _ in CALLS}):
    for _module, _name, _arguments in CALLS:
        loop(_module, _name)(*_arguments)
