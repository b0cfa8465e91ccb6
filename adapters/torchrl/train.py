"""Trains by algorithm name."""

from harness.contract.adapter import Context, MakeEnv, Monitor, Native
from harness.contract.parts import load_part


def train(
    algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Trains to the end."""
    load_part("adapters.torchrl", algorithm).train(native, context, make_env, monitor)
