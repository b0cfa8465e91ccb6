"""Keeps what numba compiles on disk, so that later processes load it in place of compiling."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def kept_compiled(name: str, functions: Iterable[Any]) -> Iterator[None]:
    """What is compiled of some functions meanwhile is loaded from then on; later it is not kept.

    Numba's cache numbers its files without a lock: two processes that compile at the same time
    could each leave an index that names the other's code. So one process of this user is let in
    on this machine, and others wait until it has compiled. Where no folder can be written, every
    process compiles for itself.

    Args:
        name: Of the functions together; who compiles others does not wait.
        functions: Of numba; what else is among them is passed over.
    """
    loops = [function for function in functions if hasattr(function, "enable_caching")]
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # without a folder for it everyone compiles alone
            path = Path(tempfile.gettempdir(), f"parallax-{name}-{os.getuid()}.lock")
            fcntl.flock(stack.enter_context(path.open("a")), fcntl.LOCK_EX)
        before = [loop._cache for loop in loops]
        for loop in loops:
            with contextlib.suppress(RuntimeError):  # no folder
                loop.enable_caching()
        yield
        for loop, cache in zip(loops, before, strict=True):
            loop._cache = cache  # which keeps nothing
