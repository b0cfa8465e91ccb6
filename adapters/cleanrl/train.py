"""Trains by running CleanRL's script, and reads its networks."""

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapters.cleanrl import bridge
from adapters.cleanrl.replay import buffers
from adapters.cleanrl.seam import Seam
from adapters.cleanrl.translate import BUFFER, SETTINGS, script_arguments
from adapters.torch_common.parameters import copies, loadable
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
    policy, made = greedy_policy(algorithm, context, names), list[Any]()
    seam = Seam(names, monitor.boundary, lambda: [monitor, *made])
    monitor.attach(
        policy,
        lambda: weights(algorithm, names),
        loadable(
            lambda: parameters(algorithm, names),
            lambda: {network: names[network].state_dict() for network in networks(algorithm)},
        ),
        seam.resumable(),
    )

    def make() -> Any:
        made.append(make_env())
        return made[-1]

    with contextlib.ExitStack() as stack:
        strategic = native.settings.get(BUFFER)
        instead: dict[str, Any] = {}
        if strategic:
            told = strategic["StrategicBuffer"]
            instead = stack.enter_context(buffers(algorithm, told, names, monitor))
        arguments = script_arguments(native)
        bridge.run(bridge.load(algorithm), arguments, make, monitor, names, seam, instead)


def greedy_policy(algorithm: str, context: Context, names: Mapping[str, Any]) -> Policy:
    """The script's policy without noise.

    The networks are looked up at each call, so the policy follows the training.
    """
    act = load_part(SETTINGS, algorithm).greedy

    def policy(observations: NDArray[np.float32]) -> NDArray[Any]:
        with torch.no_grad():
            return np.asarray(
                act(names, torch.from_numpy(observations).to(context.device), context)
            )

    return policy


def networks(algorithm: str) -> tuple[str, ...]:
    """Names of the script's networks."""
    names: tuple[str, ...] = load_part(SETTINGS, algorithm).NETWORKS
    return names


def weights(algorithm: str, names: Mapping[str, Any]) -> Weights:
    """Copies of all parameters of the script's networks, and of a temperature that it learns."""
    return copies(parameters(algorithm, names))


def parameters(algorithm: str, names: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The same as the tensors that the script computes with."""
    tensors: dict[str, torch.Tensor] = {
        f"{network}.{name}": value
        for network in networks(algorithm)
        for name, value in names[network].state_dict().items()
    }
    if "log_alpha" in names:
        tensors["log_alpha"] = names["log_alpha"]
    return tensors
