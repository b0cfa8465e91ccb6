"""Starts the training loop of one algorithm; `adapters/torchrl/<algorithm>.py` has the loops."""

import importlib
from typing import Any

from parallax.harness.contract.adapter import MakeEnv, Monitor, RunContext, load_package_module
from parallax.harness.contract.translation import NativeConfig

LOOPS = ("ppo", "td3", "sac", "ddpg", "dqn", "r2d2")
"""Algorithms with a module here; only the module of the trained algorithm is imported."""


def train(
    algorithm: str, native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Train to the end."""
    module: Any = (
        importlib.import_module(f"parallax.adapters.torchrl.{algorithm}")
        if algorithm in LOOPS
        else load_package_module(algorithm, "torchrl")
    )
    module.train(native, context, make_env, monitor)
