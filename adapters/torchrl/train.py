"""Trains by algorithm name."""

from adapters.torchrl import ppo, sac, td3
from harness.contract.adapter import Context, MakeEnv, Monitor, Native

_LOOPS = {"ppo": ppo.train, "td3": td3.train, "sac": sac.train}


def train(
    algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Trains to the end."""
    _LOOPS[algorithm](native, context, make_env, monitor)
