"""Trains by running CleanRL's script, and reads its networks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapters.cleanrl import bridge
from adapters.cleanrl.translate import script_arguments
from harness.contract.adapter import Context, MakeEnv, Monitor, Native, Policy, Weights

NETWORKS = {
    "ppo": ("agent",),
    "td3": ("actor", "qf1", "qf2", "target_actor", "qf1_target", "qf2_target"),
    "sac": ("actor", "qf1", "qf2", "qf1_target", "qf2_target"),
}
"""The script's global names of what it trains."""


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
    """The script's policy without noise, bounded as the script bounds actions.

    The networks are looked up at each call, so the policy follows the training.
    """
    low = np.array(context.task.action_low, dtype=np.float32)
    high = np.array(context.task.action_high, dtype=np.float32)

    def policy(observations: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            batch = torch.from_numpy(observations)
            if algorithm == "ppo":
                return np.asarray(np.clip(names["agent"].actor_mean(batch).numpy(), low, high))
            actor = names["actor"]
            if algorithm == "td3":
                return np.asarray(actor(batch).numpy())
            # get_action would draw random numbers even for the mean.
            mean, _ = actor(batch)
            return np.asarray((torch.tanh(mean) * actor.action_scale + actor.action_bias).numpy())

    return policy


def weights(algorithm: str, names: Mapping[str, Any]) -> Weights:
    """All parameters of the script's networks, and SAC's temperature."""
    state = {
        f"{network}.{name}": value.numpy().copy()
        for network in NETWORKS[algorithm]
        for name, value in names[network].state_dict().items()
    }
    if algorithm == "sac":
        state["log_alpha"] = names["log_alpha"].detach().numpy().copy()
    return state
