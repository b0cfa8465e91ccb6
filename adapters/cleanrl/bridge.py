"""Runs a CleanRL script as `__main__` with facades for what it imports.

The script's text is executed unchanged, with a seam at the head of its loop. Its own `__import__`
gives it the facades; the modules of the process stay as they are.
"""

import argparse
import builtins
from collections.abc import Mapping, Sequence
from types import CodeType, SimpleNamespace
from typing import Any

import torch

from adapters.cleanrl.facades import gym_facade, gymnasium_facade
from adapters.cleanrl.scripts import read_script
from adapters.cleanrl.seam import NAME, Seam, compiled
from harness.contract.adapter import MakeEnv, Monitor
from harness.contract.sources import rewritten

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
"""Names in the script's SummaryWriter to those of the trace."""


def load(algorithm: str) -> CodeType:
    """The compiled script.

    Raises:
        SpecError: It is missing or not the version that was tested.
    """
    path, source = read_script(algorithm)
    return compiled(rewritten(f"cleanrl.{path.stem}", source), str(path))


def run(
    code: CodeType,
    arguments: Sequence[str],
    make_env: MakeEnv,
    monitor: Monitor,
    namespace: dict[str, Any],
    seam: Seam,
    instead: Mapping[str, Any],
) -> None:
    """Executes the script to its end.

    Args:
        code: The compiled script.
        arguments: Its command line.
        make_env: Makes the environment that the script trains on.
        monitor: Receives what the script writes to its SummaryWriter.
        namespace: Empty; becomes the script's global names, networks included.
        seam: Hands the script's loop its numbers.
        instead: What else stands for modules that the script imports, by their names.
    """
    facades = {
        **instead,
        "argparse": _argparse_facade(arguments),
        "gym": gym_facade(make_env),
        "gymnasium": gymnasium_facade(make_env),
        "torch.utils.tensorboard": _tensorboard_facade(monitor),
    }
    deterministic = torch.backends.cudnn.deterministic
    namespace.update(
        __name__="__main__",
        __file__=code.co_filename,
        __builtins__={**_builtins(facades), NAME: seam},
    )
    try:
        exec(code, namespace)
    finally:
        torch.backends.cudnn.deterministic = deterministic


def _builtins(facades: Mapping[str, Any]) -> dict[str, Any]:
    def import_(name: str, *args: Any, **kwargs: Any) -> Any:
        if name in facades:
            return facades[name]
        return builtins.__import__(name, *args, **kwargs)

    return {**vars(builtins), "__import__": import_}


def _argparse_facade(arguments: Sequence[str]) -> SimpleNamespace:
    class ArgumentParser(argparse.ArgumentParser):
        def parse_args(self) -> argparse.Namespace:  # type: ignore[override]
            return super().parse_args(list(arguments))

    return SimpleNamespace(ArgumentParser=ArgumentParser)


def _tensorboard_facade(monitor: Monitor) -> SimpleNamespace:
    class SummaryWriter:
        """Hands the script's losses to the monitor; writes no files."""

        def __init__(self, log_dir: str) -> None:
            pass

        def add_scalar(self, name: str, value: float, step: int) -> None:
            if name in METRICS:
                monitor.record({METRICS[name]: float(value)})

        def add_text(self, name: str, text: str) -> None:
            pass

        def close(self) -> None:
            pass

    return SimpleNamespace(SummaryWriter=SummaryWriter)
