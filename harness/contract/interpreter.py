"""Training in another Python, for frameworks whose requirements clash with the others.

That interpreter needs the framework and what a worker imports (msgspec, numpy, gymnasium, mujoco,
pyarrow, pyyaml). It need not have this project installed: it is lent this one's folder.
"""

import contextlib
import functools
import os
import secrets
import selectors
import signal
import subprocess
import time
from pathlib import Path

from harness.contract.adapter import find_adapter
from harness.contract.fields import SpecError

OLDEST = (3, 11)
"""The oldest Python that can load the harness."""

# What comes back can only have been computed: no program that repeats its arguments knows it.
_PROOF = "import sys; print(int(sys.argv[1]) * int(sys.argv[2]), *sys.version_info[:2])"
_PROOF_SECONDS = 20.0
_CHECK = """
import importlib, sys
import harness.worker
module, _, name = sys.argv[1].partition(":")
getattr(importlib.import_module(module), name)().check_installed()
print("able", int(sys.argv[2]) * int(sys.argv[3]))
"""
_CHECK_SECONDS = 120.0
_LARGEST_FACTOR = 2**64
_MOST_OUTPUT = 1 << 20  # bytes
_REMEDY = "Name the path of a Python 3.11 or newer that has the framework, such as venv/bin/python."


class _Unfit(Exception):  # noqa: N818
    """What is wrong with an interpreter, in words that follow its name."""


def lend_project(environment: dict[str, str]) -> dict[str, str]:
    """The environment with this project's folder on the module path."""
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, [environment.get("PYTHONPATH")])]
    return environment | {"PYTHONPATH": os.pathsep.join(paths)}


def check_interpreter(python: str, framework: str) -> None:
    """Tries whether an interpreter is one, and can train with a framework.

    Raises:
        SpecError: It does not exist, is no Python or lacks something; says what.
    """
    problem = _not_python(python) or _unable(python, framework)
    if problem:
        raise SpecError(f"framework.python={python} {problem}")


# Kept, problems too: a sweep asks for each of its runs.
@functools.lru_cache
def _not_python(python: str) -> str | None:
    """Why a program is no Python that can be used; None where it is one."""
    factors = secrets.randbelow(_LARGEST_FACTOR), secrets.randbelow(_LARGEST_FACTOR)
    try:
        code, output, errors = _ask(python, _PROOF, *map(str, factors), seconds=_PROOF_SECONDS)
    except _Unfit as error:
        return f"{error} {_REMEDY}"
    match output.strip().rpartition("\n")[2].split():  # a start-up file may print, too
        case [product, major, minor] if product == str(factors[0] * factors[1]):
            if (int(major), int(minor)) < OLDEST:
                return f"is Python {major}.{minor}. {_REMEDY}"
            return None
    words = errors.strip().splitlines() or [f"exit code {code}, without a word"]
    return f"does not answer as a Python does: {(output.strip() or words[-1])[:80]!r}. {_REMEDY}"


@functools.lru_cache
def _unable(python: str, framework: str) -> str | None:
    """Why a Python cannot train with a framework; None where it can."""
    factors = secrets.randbelow(_LARGEST_FACTOR), secrets.randbelow(_LARGEST_FACTOR)
    entry = find_adapter(framework).value
    try:
        code, output, errors = _ask(
            python, _CHECK, entry, *map(str, factors), seconds=_CHECK_SECONDS
        )
    except _Unfit as error:
        return f"{error} {_REMEDY}"
    if not code and f"able {factors[0] * factors[1]}" in output.splitlines():
        return None
    words = errors.strip().splitlines() or ["it ended without a word"]
    return f"cannot train with {framework}: {words[-1]}"


def _ask(python: str, code: str, *arguments: str, seconds: float) -> tuple[int, str, str]:
    """Exit code, output and errors of a program that is given code to run.

    Raises:
        _Unfit: It cannot be started, takes too long or prints too much.
    """
    try:
        process = subprocess.Popen(
            [python, "-c", code, *arguments],
            env=lend_project(dict(os.environ)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that what it starts can be ended with it
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise _Unfit(f"cannot be started ({reason}).") from error
    with process:
        try:
            output, errors = _read(process, time.monotonic() + seconds, seconds)
            return process.wait(1), output, errors
        except subprocess.TimeoutExpired:
            raise _Unfit("closed its output and does not end.") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)


def _read(process: subprocess.Popen[bytes], deadline: float, seconds: float) -> tuple[str, str]:
    assert process.stdout is not None and process.stderr is not None
    streams = (process.stdout, process.stderr)
    texts = {stream.fileno(): b"" for stream in streams}
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready or time.monotonic() > deadline:
                raise _Unfit(f"did not answer within {seconds:g} s.")
            for key, _ in ready:
                content = os.read(key.fd, 1 << 16)
                texts[key.fd] += content
                if not content:
                    selector.unregister(key.fileobj)
            if sum(map(len, texts.values())) > _MOST_OUTPUT:
                raise _Unfit("prints without end.")
    output, errors = (texts[stream.fileno()].decode(errors="replace") for stream in streams)
    return output, errors
