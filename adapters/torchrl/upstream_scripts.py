"""Constants in TorchRL's own training scripts, which are in its wheel (`sota-implementations`).

The scripts take most settings from configuration files, which are not in the wheel, so that those
values are unknown here.
"""

import ast
import importlib.metadata
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
    """Return arguments that are constants in the scripts' calls, or that no call gives.

    Names are `Component.argument`, as native settings have them. Arguments that some call of a
    component takes from elsewhere are left out. Algorithms without a script have
    none, and so has a release whose wheel has no scripts.
    """
    given: dict[str, dict[str, list[Any]]] = {}
    for name, keywords in _find_component_calls(algorithm):
        for keyword in keywords:
            if keyword.arg is not None:
                values = given.setdefault(name, {}).setdefault(keyword.arg, [])
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
