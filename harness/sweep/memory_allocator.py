"""Another memory allocator for runs, by the system's own way: `LD_PRELOAD`.

Results stay the same to the last bit; time does not. None is used unless requested, because
what is installed on a machine must not decide how long its runs take.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

from parallax.harness.contract.fields import SpecError

SYSTEM_ALLOCATOR = "none"
# What the packages of distributions and of conda install; the first that is there is taken.
_LIBRARY_NAMES = {"tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc.so")}
_PRELOAD_VARIABLE = "LD_PRELOAD"
_LOAD_TIMEOUT_SECONDS = 30.0
_REMEDY = (
    "Install it (apt-get install libtcmalloc-minimal4, or conda install -c conda-forge "
    "gperftools), name the path of a library, or leave it at none."
)


def get_allocator_variables(setting: str, value: str) -> Mapping[str, str]:
    """Environment variables of runs that are to use an allocator; none for the system's own.

    Args:
        setting: What the user calls the setting.
        value: `none`, `tcmalloc`, or the path of a library.

    Raises:
        SpecError: It is none of these, or cannot be loaded here.
    """
    if value == SYSTEM_ALLOCATOR:
        return {}
    if value not in _LIBRARY_NAMES and "/" not in value:
        raise SpecError(
            f"{setting}={value!r} is no allocator: choose none, tcmalloc, or the path of a library."
        )
    if sys.platform != "linux":
        raise SpecError(f"{setting}={value}: allocators can be chosen on Linux only; use none.")
    others = os.environ.get(_PRELOAD_VARIABLE, "")
    for name in _LIBRARY_NAMES.get(value, (value,)):
        variables = {_PRELOAD_VARIABLE: f"{name}:{others}".rstrip(":")}
        problem = _find_load_error(variables)
        if not problem:
            return variables
    raise SpecError(f"{setting}={value} cannot be loaded on this machine ({problem}). {_REMEDY}")


def _find_load_error(variables: Mapping[str, str]) -> str:
    """Return the loader's message on a library; the loader prints it and goes on without."""
    before = os.environ.get(_PRELOAD_VARIABLE, "")
    plain, loaded = (
        subprocess.run(
            ["/bin/sh", "-c", ":"],
            env=os.environ | {_PRELOAD_VARIABLE: value},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_LOAD_TIMEOUT_SECONDS,
        ).stderr.decode(errors="replace")
        for value in (before, variables[_PRELOAD_VARIABLE])
    )
    new = [line for line in loaded.splitlines() if line not in plain.splitlines()]
    return new[0].removeprefix("ERROR: ").removesuffix(": ignored.") if new else ""
