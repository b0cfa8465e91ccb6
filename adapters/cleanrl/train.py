"""Trains by running CleanRL's script, and reads its networks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapters.cleanrl import bridge
from adapters.cleanrl.translate import SETTINGS, script_arguments
from harness.contract.adapter import Context, MakeEnv, Monitor, Native, Policy, Weights
from harness.contract.parts import load_part


def train(
    algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Trains to the end."""
    train_with_names(algorithm, native, context, make_env, monitor, {})


def train_with_names(
    algorithm: str,
    native: Native,
    context: Context,
    make_env: MakeEnv,
    monitor: Monitor,
    names: dict[str, Any],
) -> None:
    """Trains to the end, with the script's global names in `names`, where others can see them."""
    policy = greedy_policy(algorithm, context, names)
    monitor.attach(policy, lambda: weights(algorithm, names))
    bridge.run(bridge.load(algorithm), script_arguments(native), make_env, monitor, names)


def greedy_policy(algorithm: str, context: Context, names: Mapping[str, Any]) -> Policy:
    """The script's policy without noise.

    The networks are looked up at each call, so the policy follows the training.
    """
    act = load_part(SETTINGS, algorithm).greedy

    def policy(observations: NDArray[np.float32]) -> NDArray[Any]:
        with torch.no_grad():
            return np.asarray(act(names, torch.from_numpy(observations), context))

    return policy


def weights(algorithm: str, names: Mapping[str, Any]) -> Weights:
    """All parameters of the script's networks, and its temperature where it learns one."""
    state = {
        f"{network}.{name}": value.numpy().copy()
        for network in load_part(SETTINGS, algorithm).NETWORKS
        for name, value in names[network].state_dict().items()
    }
    if "log_alpha" in names:
        state["log_alpha"] = names["log_alpha"].detach().numpy().copy()
    return state
