"""Locations of networks, optimisers and buffers in CleanRL's scripts, for probes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.adapters.cleanrl import train
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
    """Canonical names to the script's tensors."""
    if algorithm == "ppo":
        agent = names["agent"]
        found = {"policy.log_std": TensorLocation(agent.actor_logstd, 0)}
        for network, module in (("policy", agent.actor_mean), ("value", agent.critic)):
            found |= locate_linear_layers(
                network, {"0": module[0], "1": module[2], "out": module[4]}
            )
        return found
    found = {}
    for network, name in NETWORKS[algorithm].items():
        module = names[name]
        if algorithm == "dqn":
            sequence = module.network
            found |= locate_linear_layers(
                network, {"0": sequence[0], "1": sequence[2], "out": sequence[4]}
            )
            continue
        layers = {"0": module.fc1, "1": module.fc2}
        if network.startswith("critic"):
            layers["out"] = module.fc3
        elif algorithm != "sac":
            layers["out"] = module.fc_mu
        else:
            layers |= {"mean": module.fc_mean, "std": module.fc_logstd}
        found |= locate_linear_layers(network, layers)
    if algorithm == "sac":
        found["temperature.log"] = TensorLocation(names["log_alpha"])
    return found


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
        return {name: array.detach().numpy().astype(float) for name, array in arrays.items()}
    buffer = names["rb"]
    size = buffer.size()
    arrays = {
        "observations": buffer.observations,
        "actions": buffer.actions,
        "rewards": buffer.rewards,
        "next_observations": buffer.next_observations,
        "terminated": buffer.dones * (1 - buffer.timeouts),
    }
    # [places, environments, ...]: the rows of all environments, in the order of their steps.
    return {
        name: array[:size].reshape(size * array.shape[1], *array.shape[2:]).astype(float)
        for name, array in arrays.items()
    }
