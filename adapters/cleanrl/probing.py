"""Locations of networks, optimizers and buffers in CleanRL's scripts, for probes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from parallax.adapters.cleanrl import train
from parallax.adapters.sb3_common.model import read_replay_buffer
from parallax.adapters.torch_common.recording import (
    TensorLocation,
    TorchRecorder,
    locate_linear_layers,
)
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.probing.protocol import ProbeMonitor, ProbeRecord, ProbeScript
from parallax.harness.contract.translation import NativeConfig

_CRITICS = {f"critic{i}{suffix}": f"qf{i}{suffix}" for i in (1, 2) for suffix in ("", "_target")}
NETWORKS = {
    "td3": {"policy": "actor", "policy_target": "target_actor"} | _CRITICS,
    "sac": {"policy": "actor"} | _CRITICS,
    "ddpg": {
        "policy": "actor",
        "policy_target": "target_actor",
        "critic1": "qf1",
        "critic1_target": "qf1_target",
    },
    "dqn": {"critic1": "q_network", "critic1_target": "target_network"},
}
"""Per algorithm: canonical networks to the script's global names."""


def probe_training(
    algorithm: str,
    native: NativeConfig,
    context: RunContext,
    script: ProbeScript,
    watch: ProbeMonitor,
) -> ProbeRecord:
    """Run the script while a recorder watches."""
    names: dict[str, Any] = {}

    def locate() -> dict[str, TensorLocation]:
        # sac_continuous_action.py stores the temperature a second time, as the number `alpha`.
        if "temperature.log" in script.weights:
            names["alpha"] = float(np.exp(script.weights["temperature.log"][0]))
        return locate_tensors(algorithm, names)

    recorder = TorchRecorder(
        script,
        watch,
        locate,
        lambda: read_stored_data(algorithm, names),
        read_before_update=algorithm == "ppo",
    )
    with recorder.record_training():
        train.train_with_names(algorithm, native, context, script.world.make_env, watch, names)
    return recorder.record({"tau": float(getattr(names["args"], "tau", np.nan))})


def locate_tensors(algorithm: str, names: Mapping[str, Any]) -> dict[str, TensorLocation]:
    """Return the locations of the script's tensors by canonical name."""
    if algorithm == "ppo":
        return _locate_agent(names["agent"])
    found: dict[str, TensorLocation] = {}
    for network, name in NETWORKS[algorithm].items():
        module = names[name]
        if algorithm == "dqn":
            found |= _locate_q_network(network, module.network)
            continue
        # fc1, fc2, ...: a critic's output is the last of them, a policy's has its own name.
        layers = [layer for part, layer in module.named_children() if part[2:].isdigit()]
        if network.startswith("critic"):
            heads = {"out": layers.pop()}
        elif algorithm == "sac":
            heads = {"mean": module.fc_mean, "std": module.fc_logstd}
        else:
            heads = {"out": module.fc_mu}
        hidden = {str(i): layer for i, layer in enumerate(layers)}
        found |= locate_linear_layers(network, hidden | heads)
    if algorithm == "sac":
        found["temperature.log"] = TensorLocation(names["log_alpha"])
    return found


def _locate_agent(agent: Any) -> dict[str, TensorLocation]:
    if hasattr(agent, "actor"):  # ppo.py, of discrete actions
        return _locate_sequence("policy", agent.actor) | _locate_sequence("value", agent.critic)
    found = {"policy.log_std": TensorLocation(agent.actor_logstd, 0)}
    found |= _locate_sequence("policy", agent.actor_mean)
    return found | _locate_sequence("value", agent.critic)


def _locate_q_network(network: str, module: Any) -> dict[str, TensorLocation]:
    if isinstance(module, torch.nn.Sequential):
        return _locate_sequence(network, module)
    # The patch of `dueling`: each head has its own hidden layer.
    found = {str(i): layer for i, layer in enumerate(_list_linear_layers(module.torso))}
    for head, part in (("advantage", module.advantage), ("value", module.value)):
        found[f"{head}0"], found[head] = _list_linear_layers(part)
    return locate_linear_layers(network, found)


def _locate_sequence(network: str, sequence: Any) -> dict[str, TensorLocation]:
    *hidden, out = _list_linear_layers(sequence)
    named = {str(i): layer for i, layer in enumerate(hidden)}
    return locate_linear_layers(network, {**named, "out": out})


def _list_linear_layers(sequence: Any) -> list[torch.nn.Linear]:
    return [layer for layer in sequence if isinstance(layer, torch.nn.Linear)]


def read_stored_data(algorithm: str, names: Mapping[str, Any]) -> Mapping[str, NDArray[Any]]:
    """Return the rollout, or the filled part of the replay buffer."""
    if algorithm == "ppo":
        rows = names["rewards"].numel()
        plain = {"log_probs": "logprobs"} | {
            name: name for name in ("rewards", "values", "advantages", "returns")
        }
        arrays = {ours: names[theirs].reshape(rows) for ours, theirs in plain.items()}
        arrays["observations"] = names["obs"].reshape(rows, -1)
        arrays["actions"] = names["actions"].reshape(rows, -1)
        return {name: array.detach().cpu().numpy().astype(float) for name, array in arrays.items()}
    return read_replay_buffer(names["rb"])
