"""The contract that an adapter fulfils."""

import contextlib
import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import yaml
from numpy.typing import NDArray

from parallax.envs.tasks import Task
from parallax.harness.contract.acceleration import NO_ACCELERATION, explain_missing_acceleration
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.base import ActionKind, Hyperparameters, OffPolicy
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.own_script import OwnScript
from parallax.harness.contract.packages import VersionRange
from parallax.harness.contract.replay import UNIFORM_REPLAY, ReplayConfig
from parallax.harness.contract.translation import AlgorithmSettings, ConfigTranslator, NativeConfig

if TYPE_CHECKING:
    import gymnasium

    from parallax.harness.contract.probing.protocol import ProbeMonitor, ProbeRecord, ProbeScript

PATCHES_FILE = "patches.yaml"
CPU = "cpu"
"""The device that every framework supports, and the only one that most support."""

Array = NDArray[np.float64]

Policy = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Greedy policy: observations float32[N, observations] to actions.

Actions are float32[N, actions], or int64[N] if they are discrete.
"""

Weights = Mapping[str, NDArray[Any]]
"""All trained parameters by the framework's names, target networks included.

Names of parameters of target networks contain `target`; no other names do.
"""


def check_weights_fit(weights: Weights, parameters: Mapping[str, Any]) -> None:
    """Check that the arrays match a framework's parameters in name and shape.

    Raises:
        SpecError: Names or shapes differ.
    """
    lacking = sorted(parameters.keys() - weights.keys())
    surplus = sorted(weights.keys() - parameters.keys())
    problems = [f"there are none for {', '.join(lacking[:5])}"] if lacking else []
    problems += [f"there is no {', '.join(surplus[:5])}"] if surplus else []
    if not problems:
        shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
        problems = [
            f"{name} has shape {weights[name].shape} instead of {shape}"
            for name, shape in shapes.items()
            if weights[name].shape != shape
        ]
        problems = problems[:1]
    if problems:
        raise SpecError(f"the weights are of another network: {'; '.join(problems)}")


@dataclasses.dataclass(frozen=True)
class PolicyIO:
    """Functions that load a policy into the framework's objects, and that save it.

    Attributes:
        restore: Sets all parameters to the values of arrays named as in `Weights`. Can be called
            from the first environment step on; the attached policy and weights then use these
            values. Raises `SpecError`, and changes nothing, if they belong to another network.
        save: Writes a file in the framework's own format, which loads there without this project.
        suffix: Suffix of that file's name, such as `.zip`.
    """

    restore: Callable[[Weights], None]
    save: Callable[[Path], None]
    suffix: str


@dataclasses.dataclass(frozen=True)
class Checkpointable:
    """Functions that save the whole state of a training, and that load it.

    The environments that `make_env` made, and the global generators of Python, numpy and PyTorch,
    are saved by their owner for all adapters. The adapter saves the rest: networks, optimizers,
    schedules, buffers, counters, and its own wrappers and generators.

    Attributes:
        state: Returns the current state, at `Monitor.safe_point`: nested dicts by text and lists
            of plain values and arrays, as made by `parallax.harness.contract.state_codec`.
            The arrays may be the training's own: they are written before `safe_point` returns,
            and of a large array only what has changed since the last time.
        load_state: Loads such a state into the objects of a new training, at its first safe point.
            Raises `parallax.harness.contract.state_codec.StateMismatchError` if the state does
            not fit.
    """

    state: Callable[[], Any]
    load_state: Callable[[Any], None]


@dataclasses.dataclass(frozen=True)
class RunContext:
    """Facts about a run that a translation may use besides the hyperparameters.

    Attributes:
        task: The environment's sizes and bounds.
        steps: Requested environment transitions.
        seed: Training seed.
        n_envs: Parallel environments.
        replay: Replay strategy; other than uniform only for adapters that support it
            (`Adapter.why_unsupported_replay`).
        device: Device of the networks; other than the CPU only for adapters that support it
            (`Adapter.why_unsupported_device`).
        patch_constants: Whether hyperparameters that upstream fixes may be changed by the
            patches of its source that the adapter declares.
        converts_meanings: Whether values mean what the schema says, also where upstream's option
            means something else; otherwise they are passed on as they are.
        script: The user's own copy of upstream's script; only for adapters that run scripts
            (`Adapter.check_script`).
        acceleration: Other way to compute the same updates; other than `none` only for adapters
            that support it (`Adapter.why_unsupported_acceleration`).
        actors: Processes that the environments are divided among; above 1 only where
            `Adapter.why_unsupported_actors` allows it.
    """

    task: Task
    steps: int
    seed: int
    n_envs: int = 1
    replay: ReplayConfig = UNIFORM_REPLAY
    device: str = CPU
    patch_constants: bool = False
    converts_meanings: bool = False
    script: OwnScript | None = None
    acceleration: str = NO_ACCELERATION
    actors: int = 1


Defaults = TypeVar("Defaults", bound=OffPolicy)


def scale_cycle_to_envs(defaults: Defaults, context: RunContext) -> Defaults:
    """Return upstream's defaults with `train_freq` over all environments instead of per one."""
    changes: dict[str, Any] = {"train_freq": defaults.train_freq * context.n_envs}
    return dataclasses.replace(defaults, **changes)


class Monitor(Protocol):
    """Receiver of a training's reports. Environment steps are counted in the environment."""

    def attach(
        self,
        policy: Policy,
        weights: Callable[[], Weights],
        policy_io: PolicyIO | None = None,
        checkpointable: Checkpointable | None = None,
    ) -> None:
        """Register, before training, the functions that read and restore the training's state.

        Args:
            policy: The greedy policy.
            weights: Returns copies of the current values of all parameters.
            policy_io: Saves and loads the parameters in the framework. Without it, the policy is
                still saved, but as arrays that cannot be loaded into the framework.
            checkpointable: Saves and loads the training's state. Without it, or if `safe_point`
                is never called, a killed training starts again from the beginning.
        """

    def safe_point(self) -> None:
        """Mark a point at which the training can be saved and resumed; call it often.

        Call it at the head of the training loop, after all updates of the steps so far, and always
        at the same place in the code. The first call may load the state of an earlier process; any
        call may save the current state. Otherwise the call is cheap.

        Raises:
            KeyboardInterrupt: A stop of the run was requested, and its state has been saved.
        """

    def record(self, metrics: Mapping[str, float]) -> None:
        """Add values to the trace, at the current number of environment steps."""


@runtime_checkable
class CostMonitor(Protocol):
    """Monitor that also records the cost of the parts of a training."""

    def add_costs(self, parts: Mapping[str, Mapping[str, float]]) -> None:
        """Receive, after training, the seconds by part of the training and by purpose."""


MakeEnv: TypeAlias = "Callable[[], gymnasium.Env[Any, Any]]"


class Adapter:
    """Base class of adapters: how one framework is configured and trained.

    An adapter is a package with the modules `settings` (a table `ALGORITHMS` of
    `AlgorithmSettings`, and `set_run_options`), `train` and, where it can be probed, `probing`. A
    subclass declares the framework and overrides what differs. Instances hold no state, and the
    framework is imported by `train` and `probe` only.

    Attributes:
        name: Name of the framework on the command line.
        packages: Distributions whose versions a run records.
        import_names: Modules that must be importable before a run can train.
        install_command: The command that installs them.
        recipe_parts: Parts of an update, or names of probes without their algorithm, that are
            this adapter's code and not upstream's.
        rebuilt_packages: Packages of this adapter that rebuild upstream's scripts, so that
            interventions may change their source.
        accelerations: Names in `contract.acceleration` that it supports, of some algorithm.
        supported_versions: Releases that it can drive; None if it states none.
    """

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    import_names: ClassVar[tuple[str, ...]] = ()
    install_command: ClassVar[str] = ""
    recipe_parts: ClassVar[tuple[str, ...]] = ()
    rebuilt_packages: ClassVar[tuple[str, ...]] = ()
    accelerations: ClassVar[tuple[str, ...]] = ()
    supported_versions: ClassVar[VersionRange | None] = None

    @property
    def package(self) -> str:
        """Dotted name of the package with this adapter's modules.

        A class derived from another adapter uses the modules of that adapter.
        """
        classes = [kind for kind in type(self).__mro__ if issubclass(kind, Adapter)]
        # The last one is `Adapter` itself, the one before it the framework's own class.
        return classes[-2].__module__ if len(classes) > 1 else type(self).__module__

    @property
    def folder(self) -> Path:
        """Folder with the adapter's code and its YAML files."""
        return Path(sys.modules[self.package].__file__ or "").parent

    @property
    def upstream_modules(self) -> tuple[str, ...]:
        """Names of packages whose source an intervention may change.

        These are upstream's packages, except PyTorch, and those that rebuild upstream's scripts.
        """
        names = (name.replace("-", "_") for name in self.packages if name != "torch")
        return (*names, *self.rebuilt_packages)

    def find_algorithm_settings(self, algorithm: str) -> AlgorithmSettings | None:
        """Return the translation of `algorithm`, or None if the framework does not have it."""
        table: Mapping[str, AlgorithmSettings] = self._load_module("settings").ALGORITHMS
        if algorithm in table:
            return table[algorithm]
        module = load_package_module(algorithm, f"{self.name}_settings")
        return module.SETTINGS if module else None

    def supports(self, algorithm: str) -> bool:
        """Return whether this adapter can train `algorithm`."""
        return self.find_algorithm_settings(algorithm) is not None

    def check_installed(self) -> None:
        """Check that the framework is installed, in a version that the adapter supports.

        Raises:
            SpecError: It is not installed; names the command that installs it.
        """
        if any(importlib.util.find_spec(name) is None for name in self.import_names):
            raise SpecError(f"framework={self.name} needs: {self.install_command}")
        if self.supported_versions is not None:
            self.supported_versions.check_installed()

    def sources(self, algorithm: str) -> Mapping[str, str]:
        """Return the sha256 of upstream's files that are run directly, by name.

        There are none if a package's version identifies all code that is run.
        """
        return {}

    def runs_module(self, algorithm: str, module: str, context: RunContext) -> bool:
        """Return whether a run executes upstream's `module`, so that changes to it have an effect.

        It does not if upstream has several scripts for an algorithm and the task selects another.
        """
        return True

    def check_script(
        self, algorithm: str, native: NativeConfig, context: RunContext, here: bool = True
    ) -> None:
        """Check, without running it, that the user's own script can replace upstream's.

        Args:
            algorithm: Name of the algorithm.
            native: Settings of the run.
            context: The run, with the script.
            here: Whether this interpreter trains, and so needs the modules that the script imports.

        Raises:
            SpecError: The script cannot be used, or this adapter runs no scripts.
        """
        raise SpecError(
            f"script={context.script.name if context.script else None}: framework={self.name} runs "
            "no script of its own. Use framework=cleanrl, or leave script out."
        )

    def diff_script(self, algorithm: str, context: RunContext) -> str:
        """Return the unified diff from upstream's script to the user's own."""
        return ""

    def get_library_defaults(
        self, algorithm: str, defaults: Hyperparameters, context: RunContext
    ) -> Hyperparameters:
        """Return the framework's defaults in unified units on this task.

        Args:
            algorithm: Name of the algorithm.
            defaults: The framework's recipe, with the study's values of fields that every framework
                exposes; only values that upstream couples or counts differently are changed.
            context: The run.
        """
        settings = self._require_settings(algorithm)
        if settings.couple_defaults is None:
            return defaults
        coupled: Hyperparameters = settings.couple_defaults(defaults, context)
        return coupled

    def translate(
        self, algorithm: str, hyperparameters: Hyperparameters, context: RunContext
    ) -> NativeConfig:
        """Turn unified into native settings; pure.

        Raises:
            SpecError: Names each field that cannot be honoured and the framework's constant.
        """
        patchable = self.list_patchable_fields(algorithm) if context.patch_constants else ()
        translator = ConfigTranslator(
            self.name, hyperparameters, patchable, context.converts_meanings
        )
        self.set_run_options(translator, context)
        return self._require_settings(algorithm).translate(translator, hyperparameters, context)

    def list_patchable_fields(self, algorithm: str) -> frozenset[str]:
        """Return hyperparameters that a patch of upstream's source can set to any value.

        The patches are in `patches.yaml` beside the adapter, by hyperparameter, one entry per
        algorithm.
        """
        file = self.folder / PATCHES_FILE
        if not file.is_file():
            return frozenset()
        return _read_patchable_fields(file, file.stat().st_mtime_ns).get(algorithm, frozenset())

    def set_run_options(self, translator: ConfigTranslator, context: RunContext) -> None:
        """Set native options that correspond to no hyperparameter, such as the seed.

        Raises:
            SpecError: The framework cannot train in this context.
        """
        self._load_module("settings").set_run_options(translator, context)

    def train(
        self,
        algorithm: str,
        native: NativeConfig,
        context: RunContext,
        make_env: MakeEnv,
        monitor: Monitor,
    ) -> None:
        """Train with upstream's own code, on `n_envs` environments that `make_env` makes."""
        with self.apply_acceleration(context.acceleration):
            self._load_module("train").train(algorithm, native, context, make_env, monitor)

    @property
    def is_probeable(self) -> bool:
        """Return whether probes can look into trainings of this adapter."""
        return importlib.util.find_spec(f"{self.package}.probing") is not None

    def probe(
        self,
        algorithm: str,
        native: NativeConfig,
        context: RunContext,
        script: "ProbeScript",
        watch: "ProbeMonitor",
    ) -> "ProbeRecord":
        """Train like `train`, but on `script.world`, and record upstream's optimizer steps."""
        with self.apply_acceleration(context.acceleration):
            record: ProbeRecord = self._load_module("probing").probe_training(
                algorithm, native, context, script, watch
            )
        return record

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Return the names of modules that every training of `algorithm` imports, and no others.

        A sweep imports them once, in a process that is forked for each run. A fork loses threads,
        so modules that start a thread when they are imported must not be named.
        """
        return ()

    def extra_action_spaces(self, algorithm: str) -> frozenset[ActionKind]:
        """Return supported action spaces besides the algorithm's usual one."""
        return self._require_settings(algorithm).extra_action_spaces

    def why_unsupported_replay(self, algorithm: str, replay: ReplayConfig) -> str:
        """Return why a replay strategy cannot be used, or an empty string.

        The text is the end of a sentence. The strategy reaches `train` as `RunContext.replay`.
        The changes of upstream's source that it needs are in `replay.yaml` beside the
        adapter, one entry per algorithm.
        """
        return "its adapter supports only the framework's own replay"

    def why_unsupported_device(self, algorithm: str, device: str, here: bool) -> str:
        """Return why a device cannot be used, with the remedy, or an empty string.

        Args:
            algorithm: Name of the algorithm.
            device: As the user names it, such as `cuda`. Policies take and return NumPy arrays
                on every device.
            here: Whether this machine will train, and so must have the device.
        """
        return f"its adapter trains on the CPU only. Use device={CPU}."

    def why_unsupported_acceleration(
        self, algorithm: str, acceleration: str, device: str, here: bool
    ) -> str:
        """Return why an acceleration cannot be used, as the end of a sentence, or an empty string.

        Args:
            algorithm: Name of the algorithm.
            acceleration: One of `contract.acceleration.ACCELERATIONS`, not `none`.
            device: Device that the networks run on.
            here: Whether this machine will train, and so must meet the acceleration's requirements.
        """
        if acceleration in self.accelerations:
            return ""
        if not self.accelerations:
            return "its adapter has no acceleration"
        return explain_missing_acceleration(acceleration, device)

    def why_unsupported_actors(self, algorithm: str) -> str:
        """Return why environments cannot be stepped in separate processes, or an empty string."""
        return "it steps its environments in the learner's process"

    def why_unobservable_acceleration(self, acceleration: str) -> str:
        """Return why probes cannot tell accelerated from plain updates, or an empty string.

        The text is the end of a sentence, with an alternative.
        """
        return ""

    def apply_acceleration(self, acceleration: str) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a training or probe is accelerated.

        It applies accelerations of the whole process. The module `train` applies those of single
        networks; it reads their name from `RunContext.acceleration`.
        """
        return contextlib.nullcontext()

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any] | None:
        """Return upstream's default values of its native options.

        None if upstream declares no defaults.
        """
        return None

    def _require_settings(self, algorithm: str) -> AlgorithmSettings:
        settings = self.find_algorithm_settings(algorithm)
        if settings is None:
            raise SpecError(f"framework={self.name} has no algorithm={algorithm}.")
        return settings

    def _load_module(self, name: str) -> Any:
        return importlib.import_module(f"{self.package}.{name}")


@functools.lru_cache(maxsize=32)
def _read_patchable_fields(file: Path, changed: int) -> Mapping[str, frozenset[str]]:
    """Return the hyperparameters in a file of patches, by algorithm."""
    found: dict[str, set[str]] = {}
    for field, content in (yaml.safe_load(file.read_text("utf-8")) or {}).items():
        for entry in content if isinstance(content, list) else [content]:
            for algorithm in entry["algorithms"]:
                found.setdefault(algorithm, set()).add(field)
    return {algorithm: frozenset(fields) for algorithm, fields in found.items()}


def load_package_module(algorithm: str, name: str) -> Any | None:
    """Return the module `name` of the package that provides an algorithm; None if there is none.

    A package that registers an algorithm can provide what adapters need for it: `sb3_settings` for
    Stable-Baselines3, for example.
    """
    if algorithm not in ALGORITHMS:
        return None
    package = ALGORITHMS[algorithm].__module__.partition(".")[0]
    try:
        if importlib.util.find_spec(f"{package}.{name}") is None:
            return None
    except ModuleNotFoundError:  # the algorithm is in a module, not in a package
        return None
    return importlib.import_module(f"{package}.{name}")


def get_action_kinds(adapter: Adapter, algorithm: str) -> frozenset[ActionKind]:
    """Kinds of actions that a framework's algorithm takes."""
    return adapter.extra_action_spaces(algorithm) | {ALGORITHMS[algorithm].actions}


class EpisodePlayer(Protocol):
    """Plays episodes in parallel, one per row, from their first step on."""

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        """Return the actions for the next step of all rows, in the format of `Policy`.

        Args:
            observations: float32[N, ...]; rows whose episode is over may hold any observation.
        """

    def observe_rewards(self, rewards: NDArray[Any]) -> None:
        """Receive the rewards of the last actions, [N]."""


@runtime_checkable
class RecurrentPolicy(Protocol):
    """A greedy policy whose actions depend on earlier observations of the episode.

    Called like any `Policy`, it acts as at the first step of an episode and remembers nothing.
    """

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        """Return the actions at the first step of an episode."""

    def begin(self) -> EpisodePlayer:
        """Start new episodes with empty memory in all rows; other players are not affected."""


class _MemorylessPlayer:
    """Player of a policy without memory."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        return self._policy(observations)

    def observe_rewards(self, rewards: NDArray[Any]) -> None:
        pass


def begin_episodes(policy: Policy) -> EpisodePlayer:
    """Start new episodes of a policy, with or without memory."""
    return policy.begin() if isinstance(policy, RecurrentPolicy) else _MemorylessPlayer(policy)
