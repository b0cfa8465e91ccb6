"""The contract that an adapter fulfils, and how adapters are found.

What it translates with, `Translation`, can be had here as well.
"""

import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from envs.tasks import Task
from harness.contract.algorithms import ALGORITHMS, Actions, Hyperparameters
from harness.contract.fields import SpecError, unknown
from harness.contract.installed import entries
from harness.contract.replay import UNIFORM, Replay
from harness.contract.translation import Native as Native
from harness.contract.translation import Setting as Setting
from harness.contract.translation import Translation as Translation

if TYPE_CHECKING:
    import gymnasium

ENTRY_POINT_GROUP = "parallax.adapters"
CPU = "cpu"
"""The device that every framework trains on, and the only one of most."""

Policy = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Greedy policy: observations float32[N, observations] to actions.

They are float32[N, actions], or int64[N] where the task's actions are choices.
"""

Weights = Mapping[str, NDArray[Any]]
"""Every trained parameter by a name of the framework's, target networks included.

The names of parameters of target networks contain `target`, and no others do.
"""


@dataclasses.dataclass(frozen=True)
class Loadable:
    """How what a training has learned gets into the framework's objects again, and out of them.

    Attributes:
        restore: Gives all parameters the values of arrays of the same names, as the weights tell
            them; from the first environment step on, and policy and weights are those from then
            on. Raises `SpecError` where they are of another network, and has changed nothing then.
        save: Writes the framework's own file, which loads there without this project.
        suffix: Of that file's name, such as `.zip`.
    """

    restore: Callable[[Weights], None]
    save: Callable[[Path], None]
    suffix: str


@dataclasses.dataclass(frozen=True)
class Resumable:
    """Everything that a training goes on from, out of the framework's objects and into others.

    The environments that `make_env` made, and the global generators of Python, numpy and PyTorch,
    are kept by who made or seeded them for all; the rest is the adapter's: networks, optimisers,
    schedules, buffers, counters, wrappers of its own, generators of its own.

    Attributes:
        state: What it is now, at a boundary (`Monitor.boundary`): nested dicts by text and lists
            of plain values and arrays, as `harness.contract.capture` tells objects. The arrays may
            be those that the training goes on with: they are written before the call of
            `boundary` returns, and of a large one only what has changed since the last time.
        lay_in: Gives the objects of a training that was just set up, at its first boundary, such
            a state. Raises `harness.contract.capture.NotLaidInError` where it does not fit.
    """

    state: Callable[[], Any]
    lay_in: Callable[[Any], None]


@dataclasses.dataclass(frozen=True)
class Context:
    """What a translation may know besides the hyperparameters.

    Attributes:
        task: The environment's sizes and bounds.
        steps: Environment transitions asked for.
        seed: Training seed.
        n_envs: Copies of the environment that are stepped together.
        replay: Which past is learned from; other than uniform only for adapters that carry it
            (`Replaying`).
        device: Where networks compute; other than the CPU only for adapters that offer it
            (`OnDevices`).
    """

    task: Task
    steps: int
    seed: int
    n_envs: int = 1
    replay: Replay = UNIFORM
    device: str = CPU


class Monitor(Protocol):
    """What a running training reports to. Environment steps are counted in the environment."""

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        loadable: Loadable | None = None,
        resumable: Resumable | None = None,
    ) -> None:
        """Hands over, before training, what must follow the training as it goes on.

        Args:
            policy: The greedy policy.
            weights: Copies of all parameters as they are when it is called.
            loadable: How they are loaded again. Without it, what a run has learned is kept all
                the same, as arrays that nobody can load into the framework.
            resumable: How a training that was killed goes on. Without it, or where `boundary` is
                never called, it starts again from its start.
        """

    def boundary(self) -> None:
        """Called wherever the training could go on from its state alone, as often as may be.

        That is at the head of its loop, when all updates are done that the steps so far led to,
        and always at the same place of the code. At the first call the state of an earlier
        process may be laid in; at any call it may be asked for. Costs next to nothing else.

        Raises:
            KeyboardInterrupt: The run was asked to end, and its state has been kept.
        """

    def record(self, metrics: Mapping[str, float]) -> None:
        """Adds values to the trace, at the current number of environment steps."""


@runtime_checkable
class Accounting(Protocol):
    """What a monitor may be besides: it keeps what parts of a training have cost."""

    def account(self, parts: Mapping[str, Mapping[str, float]]) -> None:
        """Takes, when training is over, seconds by part of the training and what they went to."""


MakeEnv: TypeAlias = "Callable[[], gymnasium.Env[Any, Any]]"


class Adapter(Protocol):
    """One framework. Instances hold no state; frameworks are imported in `train` only."""

    name: str

    def supports(self, algorithm: str) -> bool:
        """Whether the framework ships `algorithm`."""

    def check_installed(self) -> None:
        """Raises `SpecError` with the command that installs what is missing."""

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """Files that are run as they are, with their sha256; none for an imported package."""

    def own_defaults(
        self, algorithm: str, defaults: Hyperparameters, context: Context
    ) -> Hyperparameters:
        """The framework's defaults in unified units on this task.

        Args:
            algorithm: Name of the algorithm.
            defaults: The framework's recipe, with the study's values of what every
                framework exposes; change only what upstream couples or counts differently.
            context: The run.
        """

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: Context
    ) -> Native:
        """Turns unified into native settings; pure.

        Raises:
            SpecError: Names each field that cannot be honoured and the framework's constant.
        """

    def train(
        self, algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
    ) -> None:
        """Trains with upstream's own code, on `n_envs` environments that `make_env` makes."""


@runtime_checkable
class Preloadable(Protocol):
    """What an adapter may say besides, so that the runs of a sweep start sooner."""

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Names of modules that training imports in any case, and no others.

        A sweep imports them once, in a process that is forked for each run; a thread that
        importing them starts would be lost, so runs are then started one by one.
        """


@runtime_checkable
class Replaying(Protocol):
    """What an adapter may say besides, if it carries ways of replaying other than uniform."""

    def refuses_replay(self, algorithm: str, replay: Replay) -> str:
        """Why it cannot carry one, as the end of a sentence; empty where it can.

        What it carries it is told in `Context.replay`. Pieces of upstream's text that have to
        be others then stand in `replay.yaml` beside the adapter, one entry per algorithm.
        """


@runtime_checkable
class OnDevices(Protocol):
    """What an adapter may say besides, if its framework trains on other devices than the CPU.

    It is told which in `Context.device`. Policies still take and return arrays of numpy.
    """

    def refuses_device(self, algorithm: str, device: str, here: bool) -> str:
        """Why it cannot train there, as the end of a sentence with the remedy; empty if it can.

        Args:
            algorithm: Name of the algorithm.
            device: As the user names it, such as `cuda`.
            here: Whether it is this machine that will train: then the device must be there.
        """


@runtime_checkable
class Choosing(Protocol):
    """What an adapter may say besides, if an algorithm of its acts in both kinds of tasks."""

    def other_actions(self, algorithm: str) -> frozenset[Actions]:
        """Kinds of actions that it takes besides those that the algorithm is known for."""


def action_kinds(adapter: Adapter, algorithm: str) -> frozenset[Actions]:
    """Kinds of actions that a framework's algorithm takes."""
    other = adapter.other_actions(algorithm) if isinstance(adapter, Choosing) else frozenset()
    return other | {ALGORITHMS[algorithm].actions}


def training_modules(adapter: Adapter, algorithm: str) -> tuple[str, ...]:
    """What an adapter says that training imports; nothing where it does not say."""
    known = adapter.training_modules(algorithm) if isinstance(adapter, Preloadable) else ()
    return tuple(known)


def installed_adapters() -> dict[str, importlib.metadata.EntryPoint]:
    """Entry points of all adapters on this machine, by name; nothing is imported."""
    return {entry.name: entry for entry in entries(ENTRY_POINT_GROUP)}


def load_adapter(name: str) -> Adapter:
    """The adapter registered as `name`.

    Raises:
        SpecError: No adapter has that name.
    """
    adapter: Adapter = find_adapter(name).load()()
    return adapter


def find_adapter(name: str) -> importlib.metadata.EntryPoint:
    """The entry point registered as `name`.

    Raises:
        SpecError: No adapter has that name.
    """
    entries = installed_adapters()
    if name not in entries:
        raise SpecError(unknown(f"framework={name}", name, list(entries)))
    return entries[name]


def adapter_folder(name: str) -> Path:
    """Where the package of an adapter lies, with the files that stand beside its code.

    Raises:
        SpecError: No adapter has that name.
    """
    spec = importlib.util.find_spec(find_adapter(name).module)
    return Path(spec.origin).parent if spec and spec.origin else Path()


def adapter_code(value: str) -> dict[str, Any]:
    """Which code an adapter is, also where its package is editable and lies elsewhere.

    Args:
        value: What its entry point names, `package.module:Class`. The entry point itself may be
            absent: an interpreter that only trains need not have the distribution installed.

    Returns:
        `distribution` and `version` that register it (None where none does here), the names of
        what that `requires` (none for this project, which requires every framework), and
        `files`: sha256 by path below the adapter's package.
    """
    module = value.partition(":")[0]
    spec = importlib.util.find_spec(module)
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    files: dict[str, str] = {}
    if origin is not None:
        is_package = origin.name == "__init__.py"
        for path in sorted(origin.parent.rglob("*.py")) if is_package else [origin]:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            files[path.relative_to(origin.parent).as_posix()] = digest
    owner = next((e.dist for e in installed_adapters().values() if e.value == value), None)
    return {
        "distribution": owner.name if owner else None,
        "version": owner.version if owner else None,
        "requires": [] if module.partition(".")[0] == "adapters" else _requirements(owner),
        "files": files,
    }


def _requirements(owner: importlib.metadata.Distribution | None) -> list[str]:
    """Names of the distributions that one asks for, without versions, extras and markers."""
    listed = (owner.requires if owner else None) or []
    found = (re.match(r"[\w.-]+", text) for text in listed if "extra ==" not in text)
    return sorted({match[0] for match in found if match})
