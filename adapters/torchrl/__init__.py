"""TorchRL: the scripts of its authors, rebuilt from the components of the wheel."""

import ast
import importlib.metadata
import importlib.util
import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parallax.adapters.torch_common.sum_tree import explain_missing_sum_tree
from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.algorithms.base import Hyperparameters
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.replay import PrioritizedReplay, ReplayConfig
from parallax.harness.contract.translation import NativeConfig


def explain_unsupported_replay(algorithm: str, replay: ReplayConfig) -> str:
    """Why TorchRL cannot replay so, as the end of a sentence; empty where it can."""
    if algorithm == "r2d2":
        return (
            "it draws sequences by priorities of its own, which are "
            "hyperparameters.priority_exponent, .importance_exponent and .max_error_share"
        )
    critics = replay.critics if isinstance(replay, PrioritizedReplay) else "mean"
    if algorithm == "sac" and critics != "max":
        return "its loss tells the larger error of its critics only, which is replay.critics=max"
    if algorithm == "td3" and critics == "net":
        return "its loss tells squared errors, which have no sign: use replay.critics=mean or max"
    return explain_missing_sum_tree()


class TorchRLAdapter(Adapter):
    """Adapter of TorchRL's public components."""

    name = "torchrl"
    packages = ("torchrl", "tensordict", "torch")
    import_names = ("torchrl", "tensordict")
    install_command = "pip install 'torchrl>=0.14.1,<0.15' 'tensordict>=0.14.3,<0.15'"
    rebuilt_packages = ("parallax.adapters.torchrl",)
    recipe_parts = ("networks", "settings", "optimizers", "loop", "sequences")

    def why_unsupported_replay(self, algorithm: str, replay: ReplayConfig) -> str:
        """See `parallax.adapters.torchrl`."""
        return explain_unsupported_replay(algorithm, replay)

    def training_modules(self, algorithm: str) -> Sequence[str]:
        """What trains; its environments look for SB3's, its data for pandas."""
        parts = ("parallax.adapters.torchrl.probing", f"parallax.adapters.torchrl.{algorithm}")
        return (*parts, "torch._dynamo", "stable_baselines3")

    def upstream_defaults(self, algorithm: str) -> Mapping[str, Any]:
        """See `parallax.adapters.torchrl`."""
        return read_upstream_defaults(algorithm)


SCRIPT_FILES = {
    "ppo": ("ppo/ppo_mujoco.py", "ppo/utils_mujoco.py"),
    "td3": ("td3/td3.py", "td3/utils.py"),
    "sac": ("sac/sac.py", "sac/utils.py"),
    "ddpg": ("ddpg/ddpg.py", "ddpg/utils.py"),
    "dqn": ("dqn/dqn_cartpole.py", "dqn/utils_cartpole.py"),
}
"""Per algorithm: its script and what that imports."""
SCRIPT_COMPONENTS = (
    "ClipPPOLoss",
    "GAE",
    "Adam",
    "AdditiveGaussianModule",
    "TD3Loss",
    "SACLoss",
    "DDPGLoss",
    "DQNLoss",
    "MLP",
)
"""Classes whose arguments are hyperparameters."""


def read_upstream_defaults(algorithm: str) -> Mapping[str, Any]:
    """Arguments that are constants in the scripts' calls, or that no call gives.

    Names are `Component.argument`, as native settings have them. Arguments that some call of a
    component takes from elsewhere are left out. Nothing is told of what has no script.
    """
    given: dict[str, dict[str, list[Any]]] = {}
    for name, keywords in _find_component_calls(algorithm):
        for keyword in keywords:
            if keyword.arg is not None:
                values = given.setdefault(name, {}).setdefault(keyword.arg, [])
                values.append(_evaluate_constant(keyword.value))
        given.setdefault(name, {})
    found: dict[str, Any] = {}
    for name, arguments in given.items():
        found |= {
            f"{name}.{argument}": values[0]
            for argument, values in arguments.items()
            if all(value is not _NOT_CONSTANT and value == values[0] for value in values)
        }
        found |= {
            f"{name}.{argument}": value
            for argument, value in _read_declared_defaults(name).items()
            if argument not in arguments
        }
    return found


_NOT_CONSTANT = object()


def _find_component_calls(algorithm: str) -> Iterator[tuple[str, list[ast.keyword]]]:
    folder = importlib.metadata.distribution("torchrl").locate_file("sota-implementations")
    for file in SCRIPT_FILES.get(algorithm, ()):
        tree = ast.parse((Path(str(folder)) / file).read_text())
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
    # Defaults of losses; those of other components hold whatever is not told them.
    from torchrl import objectives

    owner = getattr(objectives, component, None)
    parameters = inspect.signature(owner).parameters if owner else {}
    return {n: p.default for n, p in parameters.items() if p.default is not p.empty}
