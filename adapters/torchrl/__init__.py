"""TorchRL: the scripts of its authors, rebuilt from the components of the wheel.

Upstream's defaults are constants in those scripts, which are in the wheel (`sota-implementations`).
Most settings come from configuration files that are not in the wheel, so their values are unknown.
"""

import ast
import contextlib
import importlib.metadata
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.adapters.torch_common.devices import TorchAccelerations, explain_missing_device
from parallax.adapters.torch_common.sum_tree import explain_missing_sum_tree
from parallax.harness.contract.acceleration import (
    COMPILE,
    FOREACH_ADAM,
    GENERAL_TORCH_ACCELERATIONS,
    NO_VMAP,
)
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.packages import VersionRange, parse_version
from parallax.harness.contract.replay import PrioritizedReplay, ReplayConfig

VMAP_ALGORITHMS = ("td3", "sac")
"""Algorithms whose losses compute two critics by vmap."""
COMPILED_ALGORITHMS = ("td3", "sac", "ddpg", "dqn", "ppo")
"""Algorithms whose update function can be compiled, as their scripts offer it."""

# Each minor version loads with its own tensordict only.
SUPPORTED_VERSIONS = VersionRange(
    "torchrl",
    "0.6",
    "0.15",
    why_not_older="Older releases were not tried.",
    companions={
        "0.7": ("tensordict==0.6.2", "gymnasium==0.29.1"),
        "0.8": ("tensordict==0.7.2", "gymnasium==0.29.1"),
        "0.9": ("tensordict==0.8.3",),
        "0.10": ("tensordict==0.9.1",),
        "0.11": ("tensordict==0.10.0",),
        "0.12": ("tensordict==0.11.0",),
        "0.13": ("tensordict==0.12.4",),
        "0.14": ("tensordict==0.13.0",),
    },
    update_modules={
        "ppo": ("torchrl.objectives.ppo", "torchrl.objectives.value.advantages"),
        "td3": ("torchrl.objectives.td3",),
        "sac": ("torchrl.objectives.sac",),
        "ddpg": ("torchrl.objectives.ddpg",),
        "dqn": ("torchrl.objectives.dqn",),
    },
)


class TorchRLAdapter(TorchAccelerations, Adapter):
    """Adapter of TorchRL's public components."""

    name = "torchrl"
    packages = ("torchrl", "tensordict", "torch")
    import_names = ("torchrl", "tensordict")
    install_command = "pip install 'torchrl>=0.14.1,<0.15' 'tensordict>=0.14.3,<0.15'"
    supported_versions = SUPPORTED_VERSIONS
    rebuilt_packages = ("parallax.adapters.torchrl",)
    recipe_parts = ("networks", "settings", "optimizers", "loop", "sequences")
    accelerations = (COMPILE, *GENERAL_TORCH_ACCELERATIONS, NO_VMAP)

    def why_unsupported_replay(self, algorithm: str, replay: ReplayConfig) -> str:
        """Return why TorchRL's losses do not allow this replay, or an empty string."""
        if algorithm == "r2d2":
            return (
                "it draws sequences by priorities of its own, which are "
                "hyperparameters.priority_exponent, .importance_exponent and .max_error_share"
            )
        critics = replay.critics if isinstance(replay, PrioritizedReplay) else "mean"
        if algorithm == "sac" and critics != "max":
            return (
                "its loss reports the larger error of its critics only, which is replay.critics=max"
            )
        if algorithm == "td3" and critics == "net":
            return (
                "its loss reports squared errors, which have no sign: use "
                "replay.critics=mean or max"
            )
        return explain_missing_sum_tree()

    def why_unsupported_device(self, algorithm: str, device: str, here: bool) -> str:
        """Return why `device` cannot be used; only the environment would stay on the CPU."""
        if algorithm == "r2d2":
            return "its sequences and priorities are computed with NumPy. Use device=cpu."
        return explain_missing_device(device, here, ("cuda",))

    def why_unsupported_acceleration(
        self, algorithm: str, acceleration: str, device: str, here: bool
    ) -> str:
        """Return why `acceleration` cannot be used, by what each script has."""
        if acceleration == NO_VMAP and algorithm not in VMAP_ALGORITHMS:
            return f"its loss of {algorithm} computes one critic, without vmap"
        if acceleration == COMPILE and algorithm not in COMPILED_ALGORITHMS:
            return f"its script of {algorithm} is not compiled here"
        if acceleration == FOREACH_ADAM and algorithm == "ppo":
            return (
                "its script has the learning rate in a tensor, which PyTorch's foreach form does "
                "not take"
            )
        return super().why_unsupported_acceleration(algorithm, acceleration, device, here)

    def why_unsupported_actors(self, algorithm: str) -> str:
        """Return why actors cannot run in processes: only on Linux do they end with the learner."""
        if algorithm != "r2d2":
            return super().why_unsupported_actors(algorithm)
        if sys.platform != "linux":
            return "processes of actors need Linux"
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # that trains elsewhere
            if parse_version(importlib.metadata.version("torchrl")) < (0, 14):
                return "its collector lacks hooks that came with torchrl 0.14"
        return ""

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """Return the modules that train; its environments import SB3's, its data pandas."""
        parts = ("parallax.adapters.torchrl.probing", f"parallax.adapters.torchrl.{algorithm}")
        return (*parts, "torch._dynamo", "stable_baselines3")

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """Return the constants of upstream's scripts and defaults of its losses."""
        return read_upstream_defaults(algorithm)


SCRIPT_FILES = {
    "ppo": ("ppo/ppo_mujoco.py", "ppo/utils_mujoco.py"),
    "td3": ("td3/td3.py", "td3/utils.py"),
    "sac": ("sac/sac.py", "sac/utils.py"),
    "ddpg": ("ddpg/ddpg.py", "ddpg/utils.py"),
    "dqn": ("dqn/dqn_cartpole.py", "dqn/utils_cartpole.py"),
}
"""Per algorithm: its script, and the script's file of helper functions."""
SCRIPT_COMPONENTS = (
    *("ClipPPOLoss", "GAE", "Adam", "AdditiveGaussianModule", "TD3Loss", "SACLoss", "DDPGLoss"),
    *("DQNLoss", "MLP"),
)
"""Classes whose arguments are hyperparameters."""
SCRIPT_NAMES = {f"{name}_coef": f"{name}_coeff" for name in ("entropy", "critic")}
"""Arguments in the scripts of releases before 0.11 to today's."""


def read_upstream_defaults(algorithm: str) -> Mapping[str, Any]:
    """Return arguments that are constants in the scripts' calls, or that no call passes.

    Names are `Component.argument`, as in native settings. Arguments that are not constant in some
    call of a component are left out. The result is empty for algorithms without a script, and for
    releases whose wheel has no scripts.
    """
    given: dict[str, dict[str, list[Any]]] = {}
    for name, keywords in _find_component_calls(algorithm):
        for keyword in keywords:
            if keyword.arg is not None:
                argument = SCRIPT_NAMES.get(keyword.arg, keyword.arg)
                values = given.setdefault(name, {}).setdefault(argument, [])
                values.append(_evaluate_constant(keyword.value))
        given.setdefault(name, {})
    defaults: dict[str, Any] = {}
    for name, arguments in given.items():
        defaults |= {
            f"{name}.{argument}": values[0]
            for argument, values in arguments.items()
            if all(value is not _NOT_CONSTANT and value == values[0] for value in values)
        }
        defaults |= {
            f"{name}.{argument}": value
            for argument, value in _read_declared_defaults(name).items()
            if argument not in arguments
        }
    return defaults


_NOT_CONSTANT = object()


def _find_component_calls(algorithm: str) -> Iterator[tuple[str, list[ast.keyword]]]:
    folder = importlib.metadata.distribution("torchrl").locate_file("sota-implementations")
    for file in SCRIPT_FILES.get(algorithm, ()):
        path = Path(str(folder)) / file
        if not path.is_file():  # wheels before 0.10 have no scripts
            return
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in SCRIPT_COMPONENTS:
                    yield name, node.keywords


def _evaluate_constant(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _NOT_CONSTANT


def _read_declared_defaults(component: str) -> dict[str, Any]:
    # Defaults of losses only: other components get every argument from the adapter.
    from torchrl import objectives

    owner = getattr(objectives, component, None)
    parameters = inspect.signature(owner).parameters if owner else {}
    return {n: p.default for n, p in parameters.items() if p.default is not p.empty}
