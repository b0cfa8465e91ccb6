"""Runs a CleanRL script as `__main__` with facades for the modules that it imports.

The script's text is executed unchanged, with a checkpoint hook at the head of its loop. Its own
`__import__` returns the facades; the modules of the process are not changed.
"""

import argparse
import ast
import builtins
import copy
import dataclasses
import importlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import CodeType, SimpleNamespace
from typing import Any

import torch

from parallax.adapters.cleanrl.facades import (
    make_atari_facade,
    make_gym_facade,
    make_gymnasium_facade,
)
from parallax.adapters.cleanrl.own_script import find_main_loop
from parallax.adapters.cleanrl.scripts import read_script
from parallax.adapters.cleanrl.settings import ScriptKind
from parallax.adapters.torch_common.prioritized_buffer import ReplaySamples
from parallax.adapters.torch_common.state import TORCH_CODECS, TYPES
from parallax.harness.contract.adapter import Checkpointable, MakeEnv, Monitor
from parallax.harness.contract.events import TrainingError
from parallax.harness.contract.own_script import OwnScript
from parallax.harness.contract.state_codec import (
    State,
    StateMismatchError,
    StateReader,
    StateWriter,
)
from parallax.harness.contract.upstream_code import rewrite_source

HOOK_NAME = "__checkpoint_hook__"
"""Name of the function that the script's loop calls, among the script's builtins."""

_ARGUMENTS, _RUN_NAME = "args", "run_name"
"""Global names of a script's arguments and output folder: the arguments in a checkpoint must
equal the run's, and the folder is never restored from it."""

_BATCHES = "stable_baselines3.common.type_aliases"
"""Module that defines the type of the batches of the scripts' buffer."""

_MISSING: Any = object()


def compile_script(source: str, path: str) -> CodeType:
    """Compile the script, with the checkpoint hook at the head of its loop.

    Raises:
        SpecError: It does not have exactly one loop at the top level of its main block.
    """
    tree = ast.parse(source, path)
    loop = find_main_loop(tree, path)
    hook_call = ast.Call(ast.Name(HOOK_NAME, ast.Load()), [loop.iter], [])
    loop.iter = ast.fix_missing_locations(ast.copy_location(hook_call, loop.iter))
    return compile(tree, path, "exec")


class CheckpointHook:
    """Iterator over a loop's step numbers, which can checkpoint and resume the training at each."""

    def __init__(
        self,
        names: dict[str, Any],
        safe_point: Callable[[], None],
        external_objects: Callable[[], Collection[Any]],
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the hook before the first step number.

        Args:
            names: The script's global names, which it fills.
            safe_point: Called before each number; may read the state or restore one.
            external_objects: Objects that are saved elsewhere, such as the environments.
            begin: Called once before the first number, when the script has made its networks.
        """
        self._names, self._external_objects = names, external_objects
        self._safe_point, self._begin = safe_point, begin
        self._index = 0

    def __call__(self, numbers: Sequence[int]) -> Iterator[int]:
        """Yield the numbers from the first one that is due."""
        self._index = 0
        self._begin()
        while self._index < len(numbers):
            self._safe_point()
            yield numbers[self._index]
            self._index += 1

    def make_checkpointable(self) -> Checkpointable:
        """Return the interface that saves and restores the training's state."""
        return Checkpointable(self._state, self._load_state)

    def _state(self) -> State:
        reader = StateReader(TORCH_CODECS, self._external_objects())
        own = {name: value for name, value in self._names.items() if not name.startswith("__")}
        return {"at": self._index, "names": {name: reader.read(own[name], name) for name in own}}

    def _load_state(self, state: State) -> None:
        writer = StateWriter(TORCH_CODECS, (*TYPES, ReplaySamples, _load_batch_type()))
        arguments = copy.deepcopy(self._names.get(_ARGUMENTS))
        own = {name for name in self._names if not name.startswith("__")}
        if missing := own - state["names"].keys():
            raise StateMismatchError(f"{min(missing)} is not in it")
        for name, stored in state["names"].items():
            if name.startswith("__"):
                raise StateMismatchError(f"the script does not define {name}")
            found = writer.write(self._names.get(name, _MISSING), stored, name)
            if found is _MISSING:
                raise StateMismatchError(f"{name} does not exist and cannot be created")
            if name == _ARGUMENTS and found != arguments:
                raise StateMismatchError("the script's arguments are not those of the run")
            if name != _RUN_NAME:
                self._names[name] = found
        self._index = state["at"]


def _load_batch_type() -> type[Any]:
    """Return the type of the batches that the scripts' buffer, Stable-Baselines3's, draws."""
    found: type[Any] = importlib.import_module(_BATCHES).ReplayBufferSamples
    return found


METRICS = {
    "charts/learning_rate": "learning_rate",
    "losses/policy_loss": "loss/policy",
    "losses/actor_loss": "loss/policy",
    "losses/value_loss": "loss/value",
    "losses/qf_loss": "loss/critic",
    "losses/td_loss": "loss/critic",
    "losses/q_values": "q/mean",
    "losses/alpha_loss": "loss/temperature",
    "losses/alpha": "temperature",
    "losses/entropy": "policy/entropy",
    "losses/approx_kl": "policy/approx_kl",
    "losses/clipfrac": "policy/clip_fraction",
    "losses/explained_variance": "value/explained_variance",
    "losses/qf1_values": "q/mean",
}
"""Names in the script's SummaryWriter to names in the trace."""


def load_script(
    algorithm: str, kind: ScriptKind = "continuous", own: OwnScript | None = None
) -> CodeType:
    """Return the compiled script of an algorithm for a kind of task.

    Args:
        algorithm: Name of the algorithm.
        kind: Kind of task.
        own: The user's own copy, which is run instead of the wheel's script.

    Raises:
        SpecError: It is missing or not the version that was tested.
    """
    path, source = read_script(algorithm, kind)
    changed = rewrite_source(f"cleanrl.{path.stem}", own.source if own else source)
    return compile_script(changed, own.name if own else str(path))


def run_script(
    code: CodeType,
    arguments: Sequence[str],
    make_env: MakeEnv,
    monitor: Monitor,
    namespace: dict[str, Any],
    hook: CheckpointHook,
    stand_ins: Mapping[str, Any],
) -> None:
    """Execute the script to its end.

    Args:
        code: The compiled script.
        arguments: Its command line.
        make_env: Makes the environment that the script trains on.
        monitor: Receives what the script writes to its SummaryWriter.
        namespace: Empty; becomes the script's global names, networks included.
        hook: Yields the numbers of the script's loop.
        stand_ins: Further stand-ins for imported modules, by module name.
    """
    facades = {
        **stand_ins,
        "argparse": _make_argparse_facade(arguments),
        "tyro": _make_tyro_facade(arguments),
        "gym": make_gym_facade(make_env),
        "gymnasium": make_gymnasium_facade(make_env),
        "pybullet_envs": SimpleNamespace(),  # scripts of 1.1.0 import it to register its tasks
        "stable_baselines3.common.atari_wrappers": make_atari_facade(),
        "torch.utils.tensorboard": _make_tensorboard_facade(monitor),
    }
    # The scripts set this flag of the process from --torch-deterministic.
    deterministic = torch.backends.cudnn.deterministic
    namespace.update(
        __name__="__main__",
        __file__=code.co_filename,
        __builtins__={**_make_builtins(facades), HOOK_NAME: hook},
    )
    try:
        exec(code, namespace)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise TrainingError(
                f"script={code.co_filename} ended with sys.exit({end.code!r}). If its options were "
                "refused (see its output): options must take a value each."
            ) from None
    finally:
        torch.backends.cudnn.deterministic = deterministic


def _make_builtins(facades: Mapping[str, Any]) -> dict[str, Any]:
    def import_(name: str, *args: Any, **kwargs: Any) -> Any:
        if name in facades:
            return facades[name]
        return builtins.__import__(name, *args, **kwargs)

    return {**vars(builtins), "__import__": import_}


def _make_tyro_facade(arguments: Sequence[str]) -> SimpleNamespace:
    """Return a stand-in for tyro, which makes a dataclass of the command line in later scripts."""

    def cli(cls: type[Any], *_: Any, **__: Any) -> Any:
        return _fill_dataclass(cls, arguments)

    return SimpleNamespace(cli=cli)


def _fill_dataclass(cls: type[Any], arguments: Sequence[str]) -> Any:
    fields = {field.name: field for field in dataclasses.fields(cls)}
    values = {}
    for word, text in zip(arguments[::2], arguments[1::2], strict=True):
        name = word.removeprefix("--").replace("-", "_")
        try:
            value = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            value = text
        # literal_eval makes an int of `1`, also where the script's dataclass says float.
        is_float = fields[name].type in (float, "float")
        values[name] = float(value) if is_float else value
    return cls(**values)


def _make_argparse_facade(arguments: Sequence[str]) -> SimpleNamespace:
    class ArgumentParser(argparse.ArgumentParser):
        def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
            return super().parse_args(list(arguments), namespace)

        def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
            return super().parse_known_args(list(arguments), namespace)

    # Formatters and actions that own scripts may name; checkpoints can hold classes, not modules.
    classes = {name: getattr(argparse, name) for name in argparse.__all__ if name[0].isupper()}
    kinds = {name: kind for name, kind in classes.items() if isinstance(kind, type)}
    return SimpleNamespace(**{**kinds, "ArgumentParser": ArgumentParser})


def _make_tensorboard_facade(monitor: Monitor) -> SimpleNamespace:
    class SummaryWriter:
        """Stand-in for the summary writer: passes losses to the monitor and writes no files."""

        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def add_scalar(self, tag: str, scalar_value: float, *_: Any, **__: Any) -> None:
            if tag in METRICS:
                monitor.record({METRICS[tag]: float(scalar_value)})

        def _ignore(self, *_: Any, **__: Any) -> None:
            pass

        add_text = add_scalars = add_hparams = add_histogram = add_graph = _ignore
        add_figure = add_image = add_images = add_video = flush = close = _ignore

    return SimpleNamespace(SummaryWriter=SummaryWriter)
