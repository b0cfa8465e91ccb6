"""Checkpoints of a training: their schedule, their parts, and resuming from one.

This module handles the parts that no adapter knows: the state of environments in the middle of
episodes, and of random generators.
"""

import dataclasses
import hashlib
import importlib.metadata
import math
import os
import platform
import random
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np

from parallax.harness.contract.adapter import Adapter, describe_adapter_code
from parallax.harness.contract.run_spec import RunSpec, spec_to_dict
from parallax.harness.contract.state_codec import (
    ObjectCodec,
    State,
    StateMismatchError,
    StateReader,
    StateWriter,
    UnsupportedStateError,
    check_buffer_positions,
    check_torch_position,
)
from parallax.harness.record.checkpoints import CheckpointStore, LoadedCheckpoint
from parallax.harness.record.files import UnusableError, to_plain_json
from parallax.harness.record.lock import Count, Duration, FolderDeletedError, LockLostError
from parallax.harness.record.lock_owner import BatchJob
from parallax.harness.train.prepare import PreparedRun, describe_translation
from parallax.harness.train.stop_signals import StopRequest
from parallax.harness.train.trust import list_texts

_LIBRARY = sysconfig.get_path("stdlib")
VERSIONED_LIBRARIES = ("numpy", "torch", "gymnasium", "mujoco", "ale-py", "minatar")
"""Libraries whose versions a state depends on, besides the packages that an adapter names."""

_IGNORED_FIELDS = ("study", "python", "checkpoint_every", "diagnosis", "logger", "endpoint")


@dataclasses.dataclass(frozen=True)
class CheckpointPart:
    """Part of a training's state: serialized as plain values and arrays, and restored."""

    state: Callable[[], Any]
    load_state: Callable[[Any], None]


class _Metadata(msgspec.Struct, frozen=True):
    """Metadata of a checkpoint, needed before its state is loaded."""

    step: Count
    seconds: Duration
    cpu_seconds: float = math.nan
    identity: dict[str, Any] = {}
    is_own: bool = True  # whether no checkpoint that it continues was of another user


class ResumeError(Exception):
    """A state did not fit; the training that it was loaded into must not continue."""


def describe_run_identity(
    prepared: PreparedRun, adapter: Adapter, code: Mapping[str, Any]
) -> dict[str, Any]:
    """Return settings and versions that must be equal when a run resumes, by name in messages."""
    names = (*VERSIONED_LIBRARIES, *getattr(adapter, "packages", ()))
    versions = {name: _get_package_version(name) for name in dict.fromkeys(names)}
    settings = {k: v for k, v in spec_to_dict(prepared.spec).items() if k not in _IGNORED_FIELDS}
    for name, usual in (("actors", 1), ("evaluate_untrained", False)):
        if settings.get(name) == usual:  # which identities had no field for
            del settings[name]
    content = {
        "settings": settings,
        "translation": describe_translation(prepared),
        "adapter": dict(code["files"]),
        "code": _hash_shared_code(prepared.spec) | _hash_task_files(prepared.spec),
        "packages": {n: version for n, version in versions.items() if version},
        "python": platform.python_version(),
    }
    if (device := prepared.spec.device).startswith("cuda"):
        # The check of the device has imported torch, also for frameworks of other libraries.
        content["device"] = sys.modules["torch"].cuda.get_device_name(device)
    # As after reading a checkpoint: tuples are lists, and paths are texts.
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(to_plain_json(content)))
    return decoded


def _hash_shared_code(spec: RunSpec) -> dict[str, str]:
    """Return the hashes of files, beside the adapter's, that decide what a run computes."""
    shared = ("envs", "harness.replay", *(f"adapters.{n}_common" for n in ("jax", "sb3", "torch")))
    found = [n for n in _list_task_modules(spec) if _find_source(n)]
    modules = [*(f"parallax.{n}" for n in shared), *found]
    return {
        f"{module}:{file}": digest
        for module in modules
        for file, digest in describe_adapter_code(module)["files"].items()
    }


def _list_task_modules(spec: RunSpec) -> list[str]:
    """Return the modules that register and define a task and its wrappers, those loaded or not."""
    module, _, name = spec.env.rpartition(":")
    entry = gymnasium.spec(name).entry_point
    task = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    return sorted({name.partition(":")[0] for name in (module, task, *spec.env_wrappers)})


def _find_source(module: str) -> Path | None:
    """Return the file of a loaded module; None for one that is not loaded or has none."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def _hash_task_files(spec: RunSpec) -> dict[str, str]:
    """Return hashes of what a user's own task is made of, beside its module.

    These are the loaded modules below the folder that it was imported from, without installed
    packages, and the files that its arguments name.
    """
    roots = tuple(filter(None, map(_find_own_root, _list_task_modules(spec))))
    texts = list_texts(spec.env_kwargs)  # `Path.is_file` raises errors for long ones
    files = {text: Path(text) for text in texts if os.path.isfile(text)}  # noqa: PTH113
    for name in list(sys.modules) if roots else ():
        file = getattr(getattr(sys.modules.get(name), "__spec__", None), "origin", None) or ""
        # Thousands of modules may be loaded: most are left out by their text alone.
        if file.startswith(roots) and name != "__main__" and _find_own_root(name):
            files[f"{name}:{Path(file).name}"] = Path(file)
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}


def _find_own_root(module: str) -> str:
    """Return the folder that a user's own module was imported from; empty for all others."""
    file = _find_source(module)
    if file is None or module.startswith("parallax.") or file.is_relative_to(_LIBRARY):
        return ""
    if {"site-packages", "dist-packages"} & set(file.parts):
        return ""
    return str(file.parents[module.count(".") + (file.name == "__init__.py")]) + os.sep


def _get_package_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def iterate_resume_points(
    checkpoints: CheckpointStore,
    identity: Mapping[str, Any],
    say: Callable[[str], None],
    room: float,
) -> Iterator[LoadedCheckpoint | None]:
    """Yield the checkpoints to resume from, the best first; the last is None, the start.

    Args:
        checkpoints: The checkpoints of the run.
        identity: Identity of the run, which checkpoints must have.
        say: Called with a sentence about each that is refused, or of another user.
        room: Bytes that the arrays of a checkpoint may take.
    """
    for number in checkpoints.list_numbers():
        try:
            about = msgspec.convert(checkpoints.read_metadata(number), _Metadata)
            if refusal := _describe_identity_difference(about.identity, identity):
                say(f"Checkpoint {number} cannot be resumed from: {refusal}.")
                continue
            loaded = checkpoints.load(number, room)
        except UnusableError as error:
            say(f"Checkpoint {number} cannot be resumed from: it {error}.")
            continue
        except msgspec.ValidationError as error:
            say(f"Checkpoint {number} cannot be resumed from: it is damaged ({error}).")
            continue
        if not (loaded.is_own and about.is_own):
            continues = "continues one that " if loaded.is_own else ""
            say(
                f"Checkpoint {number} {continues}was not written with this user's key. Its author "
                "may have changed it: to be sure of numbers, delete checkpoint/ and train again."
            )
        yield dataclasses.replace(loaded, is_own=loaded.is_own and about.is_own)
    yield None


def _describe_identity_difference(then: Mapping[str, Any], present: Mapping[str, Any]) -> str:
    for part, now in present.items():
        before = then.get(part, {} if isinstance(now, dict) else None)
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            changed = [n for n in before.keys() | now.keys() if before.get(n) != now.get(n)]
            name = min(changed, key=str)  # a file may have names of several types
            if part in ("adapter", "code"):
                return f"{name} of the {part} is another one now"
            if isinstance(before.get(name), dict) and isinstance(now.get(name), dict):
                return _describe_identity_difference({name: before[name]}, {name: now[name]})
            return f"{part}: {name} was {before.get(name)} and is {now.get(name)}"
        return f"{part} was {before} and is {now}"
    return ""


# Checkpoints until a job's limit, and seconds between them.
_MIN_CHECKPOINTS_PER_JOB, _MIN_CHECKPOINT_SECONDS = 4, 10.0


def compute_checkpoint_interval(every: float, job: BatchJob | None, now: float) -> float:
    """Return the seconds between checkpoints.

    A job that ends sooner gets some nevertheless, so that a run makes progress even if a
    warning comes far from a safe point, or never comes.

    Args:
        every: Requested minutes; 0 is never.
        job: Job that the run is part of.
        now: Time by the machine's monotonic clock, in seconds.
    """
    if not every:
        return math.inf
    left = job.limit_from - now if job else math.inf
    return min(60 * every, max(left / _MIN_CHECKPOINTS_PER_JOB, _MIN_CHECKPOINT_SECONDS))


_FIRST_CHECKPOINT_SECONDS = 1.0
_MAX_COST = 0.01  # share of the training time that early checkpoints may take


class CheckpointSchedule:
    """Schedule of checkpoints.

    The first one is due a second after the training starts, and each later interval is twice
    as long as the one before, up to the requested one: a run that is killed early does not start
    again from step 0. Before the requested interval is reached, checkpoints take at most 1% of the
    time: one that took long to write is followed by a longer interval.
    """

    def __init__(self, seconds: float) -> None:
        """Start with the shortest interval.

        Args:
            seconds: Requested interval; infinite for no checkpoints.
        """
        self._requested = seconds
        self._next = min(_FIRST_CHECKPOINT_SECONDS, seconds)

    def next_interval(self, write_seconds: float) -> float:
        """Return the seconds until the next checkpoint."""
        interval = min(max(self._next, write_seconds / _MAX_COST), self._requested)
        self._next = min(2 * self._next, self._requested)
        return interval


class CheckpointManager:
    """Saves the state of a training at its safe points; at the first it may load one.

    Attributes:
        has_resumed: Whether it has loaded one.
    """

    def __init__(
        self,
        checkpoints: CheckpointStore,
        about: Callable[[], dict[str, Any]],
        every: float,
        stop: StopRequest,
        start: LoadedCheckpoint | None,
        say: Callable[[str], None],
    ) -> None:
        """Create a manager that has saved nothing yet.

        Args:
            checkpoints: Where they are stored.
            about: Returns a checkpoint's metadata: the run's `identity`, and the `step`.
            every: Minutes between checkpoints; 0 is never.
            stop: Requests a stop, after one more checkpoint.
            start: Checkpoint to load at the first safe point.
            say: Called with a sentence about each problem.
        """
        self._checkpoints, self._about, self._say = checkpoints, about, say
        self._schedule = CheckpointSchedule(
            compute_checkpoint_interval(every, BatchJob.from_environment(), time.monotonic())
        )
        self._stop, self._start = stop, start
        self._parts: Mapping[str, CheckpointPart] = {}
        # By the monotonic clock; infinite if there are no checkpoints.
        self._due = -math.inf if every else math.inf
        self._is_serializable = False
        self._is_requested = False
        self.has_resumed = False

    def watch(self, parts: Mapping[str, CheckpointPart], lacking: str) -> None:
        """Set the parts to be saved, in order; `lacking` says why they are not the whole state."""
        self._parts = parts
        if lacking and self._due < math.inf:
            self._disable_checkpoints(lacking)

    def request_checkpoint(self) -> None:
        """Request a checkpoint at the next safe point, unless checkpoints are off."""
        if self._due < math.inf:
            self._due, self._is_requested = -math.inf, True

    def safe_point(self) -> None:
        """See `parallax.harness.contract.adapter.Monitor.safe_point`."""
        if time.monotonic() >= self._due or self._stop.is_wanted:
            self._load_or_save()

    def _load_or_save(self) -> None:
        if self._due == math.inf:
            self._stop.carry_out()
        if self._start is not None:
            self._load_checkpoint(self._start)
            self._start, self.has_resumed = None, True
        is_first, is_requested = not self._is_serializable, self._is_requested
        self._is_requested = False
        started = time.monotonic()
        if is_first:
            self._check_serializable()
        if self._stop.is_wanted:
            self._stop.cancel_deadline()
            self._save_checkpoint()
            self._stop.carry_out()
        elif self._is_serializable and (is_requested or not is_first):
            self._save_checkpoint()
        if self._due < math.inf:
            now = time.monotonic()
            self._due = now + self._schedule.next_interval(0.0 if is_first else now - started)

    def _load_checkpoint(self, start: LoadedCheckpoint) -> None:
        try:
            for name, part in self._parts.items():
                part.load_state(start.state[name])
            if (step := self._about()["step"]) != start.about["step"]:
                raise StateMismatchError(f"step {start.about['step']} is that of step {step}")
        except KeyError as error:
            raise ResumeError(f"it does not fit (it has no {error})") from error
        except Exception as error:  # a state is data from a file, and may be anything
            raise ResumeError(f"it does not fit ({error})") from error

    def _check_serializable(self) -> None:
        """Check once, at the first safe point, that the whole state can be serialized."""
        try:
            for part in self._parts.values():
                part.state()
        except UnsupportedStateError as error:
            self._disable_checkpoints(str(error))
            return
        self._is_serializable = True
        self._stop.allow_waiting()

    def _disable_checkpoints(self, why: str) -> None:
        self._due = math.inf
        self._say(f"The run keeps no checkpoints and would start again from its start: {why}.")

    def _save_checkpoint(self) -> None:
        about = self._about()
        try:
            self._checkpoints.save(about, {n: part.state() for n, part in self._parts.items()})
        except (LockLostError, FolderDeletedError):
            raise
        except UnsupportedStateError as error:
            self._disable_checkpoints(str(error))
        except OSError as error:
            self._say(
                f"At step {about['step']:,} no checkpoint could be written ({error.strerror}); "
                "the training continues, and the previous checkpoint stays."
            )


Environments = Sequence[gymnasium.Env[Any, Any]]


def read_env_states(envs: Environments) -> State:
    """Return the state of environments: wrappers, tasks, simulations and generators.

    Raises:
        UnsupportedStateError: One has an object whose state cannot be serialized.
    """
    reader = StateReader(_make_codecs())
    return [reader.read(env, "env") for env in envs]


def load_env_states(envs: Environments, state: State) -> None:
    """Load a state into environments that were made in the same way.

    Raises:
        StateMismatchError: They were made in another way.
    """
    if len(envs) != len(state):
        raise StateMismatchError(
            f"there are {len(envs)} environments, but the state has {len(state)}"
        )
    writer = StateWriter(_make_codecs(), _own_types(envs))
    for env, env_state in zip(envs, state, strict=True):
        writer.restore(env, env_state, "env")


def _own_types(envs: Environments) -> list[type[Any]]:
    """Return the classes that the modules of the environments and their wrappers define.

    Such objects may be created in the middle of an episode, and not exist in new environments.
    """
    modules = set()
    for layer in envs:
        while layer is not None:
            modules.add(type(layer).__module__)
            layer = getattr(layer, "env", None)  # type: ignore[assignment]
    return [
        value
        for name in sorted(modules)
        for value in vars(sys.modules[name]).values()
        if isinstance(value, type) and value.__module__ == name
    ]


def _make_codecs() -> tuple[ObjectCodec, ...]:
    # A library that is not imported is needed by no task that is in use.
    codecs: list[ObjectCodec] = []
    if (mujoco := sys.modules.get("mujoco")) is not None:
        codecs.append(ObjectCodec(mujoco.MjData, _read_simulation, _write_simulation))
        codecs.append(ObjectCodec(mujoco.MjModel, _read_model, _check_model))
    if (ale := sys.modules.get("ale_py")) is not None:
        codecs.append(ObjectCodec(ale.ALEInterface, _read_emulator, _write_emulator))
    return tuple(codecs)


def _read_simulation(data: Any, inner: Callable[[Any], State]) -> State:
    mujoco: Any = sys.modules["mujoco"]
    signature = _get_state_signature(mujoco)
    physics = np.empty(mujoco.mj_stateSize(data.model, signature))
    mujoco.mj_getState(data.model, data, physics, signature)
    return {
        "physics": physics,
        "results": {n: array.copy() for n, array in _get_computed_arrays(data).items()},
    }


def _write_simulation(live: Any, state: State, inner: Callable[[Any, State], Any]) -> Any:
    mujoco: Any = sys.modules["mujoco"]
    signature, physics = _get_state_signature(mujoco), state["physics"]
    if live is None or mujoco.mj_stateSize(live.model, signature) != len(physics):
        raise StateMismatchError("a simulation is of another model than it was")
    # mjSTATE_INTEGRATION has no derived quantities such as positions of bodies.
    mujoco.mj_setState(live.model, live, physics, signature)
    # Restored, not computed again: tasks read results that lag behind by one substep.
    results = _get_computed_arrays(live)
    for name, array in state["results"].items():
        if name in results and results[name].shape == array.shape:
            results[name][...] = array
    return live


def _read_model(model: Any, inner: Callable[[Any], State]) -> State:
    mujoco: Any = sys.modules["mujoco"]
    compiled = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, compiled)
    return hashlib.sha256(compiled.tobytes()).hexdigest()


def _check_model(live: Any, state: State, inner: Callable[[Any, State], Any]) -> Any:
    # Not restored: a model from a file could make MuJoCo read and write outside its memory.
    if live is None or state != _read_model(live, lambda part: part):
        raise StateMismatchError(
            "a simulation's model is another one: its file was edited, or the task changes it"
        )
    return live


def _get_state_signature(mujoco: Any) -> int:
    # All that a step of the physics depends on: its start, and that of its solver.
    return int(mujoco.mjtState.mjSTATE_INTEGRATION)


def _get_computed_arrays(data: Any) -> dict[str, Any]:
    """Return the arrays computed last, by name, without contacts and constraints of each step."""
    found = {}
    for name in dir(data):
        if not name.startswith(("_", "efc_", "iefc_", "efm_", "contact", "island_", "map_")):
            value = getattr(data, name)
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.size:
                found[name] = value
    return found


def _read_emulator(emulator: Any, inner: Callable[[Any], State]) -> State:
    return {"game": emulator.cloneSystemState().__getstate__()}


def _write_emulator(live: Any, state: State, inner: Callable[[Any, State], Any]) -> Any:
    if live is None:
        raise StateMismatchError("the saved state has a game emulator, but this task has none")
    ale: Any = sys.modules["ale_py"]
    game_state = ale.ALEState.__new__(ale.ALEState)
    game_state.__setstate__(state["game"])
    # Until a game has begun, a new emulator has values that are not part of a state.
    live.reset_game()
    live.act(ale.Action.NOOP)
    live.restoreSystemState(game_state)
    return live


def read_rng_state() -> State:
    """Return the states of the generators of Python, NumPy and, if loaded, PyTorch."""
    version, words, gauss = random.getstate()
    torch: Any = sys.modules.get("torch")
    return {
        "python": {"version": version, "words": list(words), "gauss": gauss},
        "numpy": np.random.get_state(legacy=False),
        "torch": torch.get_rng_state().numpy() if torch else None,
        "cuda": [state.numpy() for state in torch.cuda.get_rng_state_all()]
        if torch and torch.cuda.is_initialized()
        else None,
    }


def load_rng_state(state: State) -> None:
    """Restore the states that `read_rng_state` returned."""
    python = state["python"]
    random.setstate((python["version"], tuple(python["words"]), python["gauss"]))
    check_buffer_positions(state["numpy"])
    np.random.set_state(state["numpy"])
    torch: Any = sys.modules.get("torch")
    if torch and state["torch"] is not None:
        check_torch_position(state["torch"])
        torch.set_rng_state(torch.from_numpy(np.array(state["torch"])))
    if torch and state.get("cuda") is not None:
        torch.cuda.set_rng_state_all([torch.from_numpy(np.array(s)) for s in state["cuda"]])
