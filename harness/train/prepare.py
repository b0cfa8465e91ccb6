"""From a `RunSpec` to native settings: every check that can be made before training.

A framework whose requirements clash with the others trains in another Python. That interpreter
needs the framework and what a worker imports (msgspec, numpy, gymnasium, mujoco, pyarrow,
pyyaml). It need not have this project installed: it is lent this one's folder.
"""

import contextlib
import dataclasses
import functools
import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from envs.tasks import TaskError, load_task
from harness.contract.adapter import Adapter, Context, Native, find_adapter, load_adapter
from harness.contract.algorithms import THESIS_FIELDS, Hyperparameters
from harness.contract.fields import SpecError
from harness.contract.recipes import load_recipe, recipe_names
from harness.contract.run_spec import RunSpec
from harness.record.files import plain_json

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


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A run that has passed every check that can be made before training.

    Attributes:
        spec: What was asked for.
        context: What the translation knows of task and run.
        hyperparameters: Unified hyperparameters that the framework is held to.
        native: The same in the framework's own terms.
    """

    spec: RunSpec
    context: Context
    hyperparameters: Hyperparameters
    native: Native


def prepare(spec: RunSpec, adapter: Adapter) -> Prepared:
    """Resolves and translates a run.

    Raises:
        SpecError: The framework or task is missing or cannot honour the run.
    """
    if spec.python is None:
        adapter.check_installed()
    else:
        check_interpreter(spec.python, spec.framework)
    try:
        task = load_task(spec.env)
    except TaskError as error:
        raise SpecError(str(error)) from error
    context = Context(task=task, steps=spec.steps, seed=spec.seed, n_envs=spec.n_envs)
    hyperparameters = resolve(
        adapter, spec.algorithm, spec.hyperparameters, spec.alignment, context
    )
    try:
        native = adapter.translate(spec.algorithm, hyperparameters, context)
    except SpecError as error:
        if spec.alignment == "thesis":
            raise
        raise SpecError(
            f"{error} Change the value, or use alignment=thesis, which leaves what not every "
            "framework exposes at the framework's own default."
        ) from error
    return Prepared(spec, context, hyperparameters, native)


def resolve(
    adapter: Adapter, algorithm: str, requested: Hyperparameters, alignment: str, context: Context
) -> Hyperparameters:
    """The hyperparameters that the framework is held to.

    Under `full` they are those requested. Under `thesis` the fields that not every framework
    exposes come from the framework's own recipe file instead.
    """
    if alignment == "full":
        return requested
    if adapter.name not in recipe_names(algorithm):
        raise SpecError(
            f"framework={adapter.name} has no recipe hp_configs/{algorithm}/{adapter.name}.yaml, "
            "which alignment=thesis takes its defaults from: add it, or use alignment=full."
        )
    common = {name: getattr(requested, name) for name in THESIS_FIELDS[algorithm]}
    own = dataclasses.replace(load_recipe(algorithm, adapter.name), **common)
    own = adapter.own_defaults(algorithm, own, context)
    return dataclasses.replace(own, **common)


def translated(prepared: Prepared) -> dict[str, Any]:
    """What decides what trains."""
    return {
        "hyperparameters": dataclasses.asdict(prepared.hyperparameters),
        "native": dict(prepared.native.settings),
        "cadence": dataclasses.asdict(prepared.native.cadence),
    }


def check_translation(prepared: Prepared, recorded: Mapping[str, Any]) -> None:
    """Makes sure that what trains is what `run.json` says, which may be of another day.

    Args:
        prepared: What the code of now makes of the run.
        recorded: The content of `run.json`.

    Raises:
        SpecError: Names what differs.
    """
    now = translated(prepared) | {"scheduled steps": prepared.native.total_steps}
    then = {**recorded, "scheduled steps": recorded["steps"]["scheduled"]}
    for part, value in now.items():
        new, old = _told(_as_read(value)), _told(then.get(part))
        if new != old and old is not None:
            raise SpecError(
                f"The code that is installed now translates the run otherwise than when it was "
                f"set up ({_first_difference(part, old, new)}). Start the sweep again, which sets "
                "it up anew."
            )


def _as_read(value: Any) -> Any:
    """A value as it comes back from a file."""
    return msgspec.json.decode(msgspec.json.encode(plain_json(value)))


def _told(value: Any) -> Any:
    """A mapping without what is null in it, as are fields that came later."""
    if not isinstance(value, dict):
        return value
    return {name: item for name, item in value.items() if item is not None}


def _first_difference(part: str, old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        name = min(n for n in old.keys() | new.keys() if old.get(n) != new.get(n))
        return f"{part}: {name}={old.get(name)} then, {new.get(name)} now"
    return f"{part}: {old} then, {new} now"


def prepare_all(specs: Sequence[RunSpec]) -> list[Prepared]:
    """Checks and translates runs.

    Raises:
        SpecError: Some cannot be carried out as asked; tells each problem once.
    """
    adapters = {name: load_adapter(name) for name in {spec.framework for spec in specs}}
    problems: dict[str, str] = {}
    prepared = []
    for spec in specs:
        try:
            prepared.append(prepare(spec, adapters[spec.framework]))
        except SpecError as error:
            problems.setdefault(str(error), spec.title)
    if len(specs) > 1 and problems:
        raise SpecError("\n".join(f"{title}: {text}" for text, title in problems.items()))
    if problems:
        raise SpecError(next(iter(problems)))
    return prepared
