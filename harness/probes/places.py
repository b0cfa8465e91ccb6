"""Names upstream's file and line that the running code is in."""

import functools
import sys
from types import FrameType

NOT_UPSTREAM = frozenset(
    {
        *("torch", "numpy", "gymnasium", "tensordict", "scipy", "hydra"),
        *("jax", "jaxlib", "flax", "optax", "tensorflow_probability"),
    }
)
"""Libraries that frameworks stand on."""
PACKAGES = "site-packages/"
PASSED_ON = (
    "vec_env",
    "/env/",
    "/envs/",
    "monitor.py",
    "algorithm_base.py",
    "common/utils.py",
    "objectives/utils.py",
    "/trainers/",
)
"""Parts of upstream's files that only pass on what others made."""


def upstream_line() -> str:
    """The innermost line of a framework, as `package/file.py:line`; empty outside of any."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if place := _of_framework(frame.f_code.co_filename):
            return f"{place}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@functools.cache
def _of_framework(file: str) -> str:
    # Its place in the package; empty where it is no framework's, or only passes on.
    _, found, place = file.rpartition(PACKAGES)
    of_framework = found and place.split("/")[0] not in NOT_UPSTREAM
    return place if of_framework and not any(part in place for part in PASSED_ON) else ""
