"""What to run: a file per algorithm holds all that is its own, in one unified schema."""

import dataclasses

from harness.contract.algorithms.cadence import Cadence, Family
from harness.contract.algorithms.ppo import PPO
from harness.contract.algorithms.sac import SAC
from harness.contract.algorithms.td3 import TD3

__all__ = ["ALGORITHMS", "PPO", "SAC", "TD3", "Cadence", "Family", "Hyperparameters", "only_of"]

Hyperparameters = PPO | TD3 | SAC

ALGORITHMS: dict[str, type[Hyperparameters]] = {"ppo": PPO, "td3": TD3, "sac": SAC}


def only_of(field: str) -> str:
    """Which algorithms have a hyperparameter, in words for those who gave it to another."""
    having = [
        algorithm
        for algorithm, cls in ALGORITHMS.items()
        if field in (known.name for known in dataclasses.fields(cls))
    ]
    if not having:
        return ""
    return f"is a hyperparameter of {', '.join(having)} only: sweep algorithms apart."
