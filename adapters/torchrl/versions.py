"""Parts of TorchRL that older releases lack or have under another name."""

import inspect
from typing import Any

import torch
from torchrl import objectives

try:
    from torchrl.collectors import Collector
except ImportError:  # before 0.11
    from torchrl.collectors import SyncDataCollector as Collector

__all__ = ["COEFFICIENT_NAMES", "Collector", "group_optimizers", "join_optimizers"]

_END = "coeff" if "critic_coeff" in inspect.signature(objectives.ClipPPOLoss).parameters else "coef"
COEFFICIENT_NAMES = {f"{name}_coeff": f"{name}_{_END}" for name in ("entropy", "critic")}
"""Today's arguments of PPO's loss to those of this release; before 0.9 others are ignored."""


def join_optimizers(*optimizers: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return one optimizer of the same class with the groups of all, as `group_optimizers`."""
    made: Any = type(optimizers[0])
    joined: torch.optim.Optimizer = made([g for each in optimizers for g in each.param_groups])
    return joined


group_optimizers = getattr(objectives, "group_optimizers", join_optimizers)  # since 0.7
