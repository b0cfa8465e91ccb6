"""Plants differences into upstream's code while a test runs."""

import contextlib
import dataclasses
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3 import DQN, PPO, SAC, TD3

from parallax.adapters.cleanrl import script_runner as bridge


@dataclasses.dataclass(frozen=True)
class Plant:
    """One planted difference and what must be said about it.

    Attributes:
        name: What is planted.
        framework: Into which.
        algorithm: Into which of its algorithms.
        planted: Plants it while it is entered.
        probe: The probe that must find it.
        kind: How the answer relates to the unplanted one.
        size: How large that difference is; None where only its being there counts.
        also: Probes that may change with it, by parts of their names.
    """

    name: str
    framework: str
    algorithm: str
    planted: Callable[[], AbstractContextManager[None]]
    probe: str
    kind: str
    size: float | None = None
    also: tuple[str, ...] = ()


def method(
    owner: type | object, name: str, old: str, new: str
) -> Callable[[], AbstractContextManager[None]]:
    """Rewrites a part of a function's text, which must be there once."""

    @contextlib.contextmanager
    def planted() -> Iterator[None]:
        function = inspect.unwrap(getattr(owner, name))
        module = sys.modules[function.__module__]
        source = replaced(textwrap.dedent(inspect.getsource(function)), old, new)
        # A function around it knows the class, which super() needs.
        around = f"def make(__class__):\n{textwrap.indent(source, '    ')}\n    return {name}\n"
        names: dict[str, Any] = {}
        exec(compile(around, f"<planted {name}>", "exec"), vars(module), names)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, names["make"](owner))
            yield

    return planted


def constant(owner: object, name: str, value: object) -> Callable[[], AbstractContextManager[None]]:
    """Gives a name in a module or class another value."""

    @contextlib.contextmanager
    def planted() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, value)
            yield

    return planted


def script(old: str, new: str) -> Callable[[], AbstractContextManager[None]]:
    """Rewrites a part of CleanRL's script, which must be there once."""

    @contextlib.contextmanager
    def planted() -> Iterator[None]:
        read = bridge.read_script

        def changed(algorithm: str, kind: str = "continuous") -> tuple[Path, str]:
            path, source = read(algorithm, kind)
            return path, replaced(source, old, new)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bridge, "read_script", changed)
            yield

    return planted


def replaced(source: str, old: str, new: str) -> str:
    assert source.count(old) == 1, f"{old!r} is there {source.count(old)} times"
    return source.replace(old, new)


SB3_CLASSES = {"ppo": PPO, "td3": TD3, "sac": SAC, "dqn": DQN, "ddpg": TD3}


def plant_in_sb3(name, algorithm, old, new, probe, function="train"):
    return plant_in("sb3", name, algorithm, SB3_CLASSES[algorithm], function, old, new, probe)


def plant_in_cleanrl(name, algorithm, old, new, probe):
    return Plant(name, "cleanrl", algorithm, script(old, new), f"{algorithm}.{probe}", "")


def plant_in(framework, name, algorithm, owner, function, old, new, probe):
    planted = method(owner, function, old, new)
    return Plant(name, framework, algorithm, planted, f"{algorithm}.{probe}", "")
