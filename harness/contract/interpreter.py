"""Training in another Python interpreter, for frameworks with conflicting requirements.

That interpreter needs the framework and the packages that a worker imports (msgspec, numpy,
gymnasium, mujoco, pyarrow, pyyaml). It imports this project from its folder, without installation.
"""

import contextlib
import functools
import gc
import importlib
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import parallax
from parallax.harness.contract.adapter_discovery import find_adapter_entry_point
from parallax.harness.contract.fields import SpecError

OLDEST_PYTHON = (3, 11)
"""The oldest Python that can load the harness."""

# The answer must be computed, so that a program that echoes its arguments fails the check.
_PYTHON_CHECK_CODE = "import sys; print(int(sys.argv[1]) * int(sys.argv[2]), *sys.version_info[:2])"
_PYTHON_CHECK_SECONDS = 20.0
_FRAMEWORK_CHECK_CODE = """
import importlib, sys
module, _, name = sys.argv[1].partition(":")
getattr(importlib.import_module(module), name)().check_installed()
import parallax.harness.worker
print("able", int(sys.argv[2]) * int(sys.argv[3]))
"""
_FRAMEWORK_CHECK_SECONDS = 120.0
_ROOT = Path(parallax.__path__[0]).parent
_STUDY = 5
"""Index of the study's folder among the parents of a run folder."""
_SAFE_PATH = "PYTHONSAFEPATH"
_LARGEST_FACTOR = 2**64
_MAX_OUTPUT_BYTES = 1 << 20
_REMEDY = "Name the path of a Python 3.11 or newer that has the framework, such as venv/bin/python."


def find_cache_folder(name: str) -> Path:
    """Return a folder of this project in the user's cache; a relative variable is ignored."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    base = given if given.is_absolute() else Path.home() / ".cache"
    return base / "parallax" / name


def make_private_cache_folder(name: str) -> Path | None:
    """Make a folder in the user's cache that only the user can open; None if it fails."""
    folder = find_cache_folder(name)
    with contextlib.suppress(OSError):
        folder.mkdir(0o700, parents=True, exist_ok=True)
        # `exist_ok` also accepts a folder of another user, or a link to one.
        if folder.lstat().st_uid == os.geteuid() and not folder.is_symlink():
            folder.chmod(0o700)
            return folder
    return None


class _InterpreterError(Exception):
    """A problem with an interpreter; the message continues a sentence that begins with its name."""


def add_project_to_path(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment with this project's folder on the module path."""
    root = str(_ROOT)
    paths = [root, *filter(None, [environment.get("PYTHONPATH")])]
    return leave_out_folder(environment | {"PYTHONPATH": os.pathsep.join(paths)})


def leave_out_folder(environment: dict[str, str]) -> dict[str, str]:
    """Keep a Python that is started with `-m` or `-c` from importing from the current folder.

    Python would look there first, and would run a module in a folder of results, or one with the
    name of one of our packages. If this process itself imports from the current folder, as after
    `python -m parallax`, its children do as well, but they find our packages first.
    """
    here = str(Path.cwd())
    paths = list(filter(None, [environment.get("PYTHONPATH")]))
    if not sys.flags.safe_path and {"", here} & set(sys.path):
        paths.append(here)
    changed = {_SAFE_PATH: "1"} | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})
    return environment | changed


@contextlib.contextmanager
def _set_variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def exclude_current_folder() -> contextlib.AbstractContextManager[None]:
    """Keep Pythons that libraries start meanwhile from importing from the current folder."""
    return _set_variable(_SAFE_PATH, "1")


def forbid_imports_from(folders: Iterable[Path]) -> None:
    """Make sure that no module in a run folder, beside it or in its study can be imported here.

    Args:
        folders: Run folders. Folders of Python itself, and those above this project, stay
            importable.
    """
    needed = [Path(place).resolve() for place in (sys.prefix, sys.base_prefix)]
    places = {entry: Path(entry or ".").resolve() for entry in sys.path}
    doubtful = {
        entry: place
        for entry, place in places.items()
        if not (_ROOT.is_relative_to(place) or any(map(place.is_relative_to, needed)))
    }
    if not doubtful:
        return
    closed: set[Path] = set()
    beside: set[Path] = set()
    for folder in folders:
        run = folder.resolve()
        is_in_study = run.name.startswith("seed=") and len(run.parents) > _STUDY
        closed.add(run.parents[_STUDY] if is_in_study else run)
        beside.add(run.parent)
    theirs = {
        entry
        for entry, place in doubtful.items()
        if place in beside or not closed.isdisjoint((place, *place.parents))
    }
    if theirs:
        sys.path[:] = [entry for entry in sys.path if entry not in theirs]
        importlib.invalidate_caches()


def check_interpreter(python: str, framework: str) -> None:
    """Check that a program is a Python interpreter and can train with a framework.

    Raises:
        SpecError: It does not exist, is not Python or lacks something; says what.
    """
    problem = _why_not_python(python) or _why_cannot_train(python, framework)
    if problem:
        raise SpecError(f"framework.python={python} {problem}")


# Problems are cached, too: a sweep checks the interpreter for each of its runs.
@functools.lru_cache
def _why_not_python(python: str) -> str | None:
    """Return why a program is not a usable Python interpreter; None if it is one."""
    factors = secrets.randbelow(_LARGEST_FACTOR), secrets.randbelow(_LARGEST_FACTOR)
    try:
        code, output, errors = _run_code(
            python, _PYTHON_CHECK_CODE, *map(str, factors), seconds=_PYTHON_CHECK_SECONDS
        )
    except _InterpreterError as error:
        return f"{error} {_REMEDY}"
    match output.strip().rpartition("\n")[2].split():  # a start-up file may print, too
        case [product, major, minor] if product == str(factors[0] * factors[1]):
            if (int(major), int(minor)) < OLDEST_PYTHON:
                return f"is Python {major}.{minor}. {_REMEDY}"
            return None
    words = errors.strip().splitlines() or [f"exit code {code}, without output"]
    return f"does not answer as a Python does: {(output.strip() or words[-1])[:80]!r}. {_REMEDY}"


@functools.lru_cache
def _why_cannot_train(python: str, framework: str) -> str | None:
    """Return why an interpreter cannot train with a framework; None if it can."""
    factors = secrets.randbelow(_LARGEST_FACTOR), secrets.randbelow(_LARGEST_FACTOR)
    entry = find_adapter_entry_point(framework).value
    try:
        code, output, errors = _run_code(
            python,
            _FRAMEWORK_CHECK_CODE,
            entry,
            *map(str, factors),
            seconds=_FRAMEWORK_CHECK_SECONDS,
        )
    except _InterpreterError as error:
        return f"{error} {_REMEDY}"
    if not code and f"able {factors[0] * factors[1]}" in output.splitlines():
        return None
    words = errors.strip().splitlines() or ["it ended without output"]
    return f"cannot train with {framework}: {words[-1]}"


def _run_code(python: str, code: str, *arguments: str, seconds: float) -> tuple[int, str, str]:
    """Run code with an interpreter; return its exit code, output and errors.

    Raises:
        _InterpreterError: It cannot be started, takes too long or prints too much.
    """
    try:
        process = subprocess.Popen(
            [python, "-c", code, *arguments],
            env=add_project_to_path(dict(os.environ)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that what it starts can be ended with it
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise _InterpreterError(f"cannot be started ({reason}).") from error
    with process:
        try:
            output, errors = _read_output(process, time.monotonic() + seconds, seconds)
            return process.wait(1), output, errors
        except subprocess.TimeoutExpired:
            raise _InterpreterError("closed its output but does not exit.") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)


def _read_output(
    process: subprocess.Popen[bytes], deadline: float, seconds: float
) -> tuple[str, str]:
    assert process.stdout is not None and process.stderr is not None
    streams = (process.stdout, process.stderr)
    texts = {stream.fileno(): b"" for stream in streams}
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready or time.monotonic() > deadline:
                raise _InterpreterError(f"did not answer within {seconds:g} s.")
            for key, _ in ready:
                content = os.read(key.fd, 1 << 16)
                texts[key.fd] += content
                if not content:
                    selector.unregister(key.fileobj)
            if sum(map(len, texts.values())) > _MAX_OUTPUT_BYTES:
                raise _InterpreterError("prints without end.")
    output, errors = (texts[stream.fileno()].decode(errors="replace") for stream in streams)
    return output, errors


def end_process(code: int) -> NoReturn:
    """End this process, without a search of all imported objects for cycles.

    Python makes that search when it ends. With a framework imported, it takes a second.
    """
    gc.freeze()
    sys.exit(code)


def import_modules(modules: Iterable[str]) -> None:
    """Import modules, without the thread that pyarrow would start; skip missing ones."""
    # pyarrow reads this variable when it is loaded.
    with _set_variable("JE_ARROW_MALLOC_CONF", "background_thread:false"):
        for name in modules:
            # A process that needs a missing module reports it itself.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def has_other_threads() -> bool:
    """Return whether this process has, or may have, a thread that a fork would lose."""
    tasks = Path("/proc/self/task")
    return not tasks.is_dir() or len(list(tasks.iterdir())) != 1
