"""Where CleanRL's scripts keep what probes look at."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.cleanrl import train
from adapters.torch_common.recording import Recorder, Slot, linears
from harness.contract.adapter import Context, Native
from harness.probes.contract import Record, Script, Watch

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


def probe(algorithm: str, native: Native, context: Context, script: Script, watch: Watch) -> Record:
    """Runs the script while a recorder watches."""
    names: dict[str, Any] = {}

    def locate() -> dict[str, Slot]:
        # The script keeps the temperature a second time, as a number.
        if "temperature.log" in script.weights:
            names["alpha"] = float(np.exp(script.weights["temperature.log"][0]))
        return slots(algorithm, names)

    recorder = Recorder(
        script, watch, locate, lambda: stored(algorithm, names), early=algorithm == "ppo"
    )
    with recorder.watching():
        train.train_with_names(algorithm, native, context, script.world.make_env, watch, names)
    return recorder.record({"tau": float(getattr(names["args"], "tau", np.nan))})


def slots(algorithm: str, names: Mapping[str, Any]) -> dict[str, Slot]:
    """Canonical names to the script's tensors."""
    if algorithm == "ppo":
        agent = names["agent"]
        found = {"policy.log_std": Slot(agent.actor_logstd, 0)}
        for network, module in (("policy", agent.actor_mean), ("value", agent.critic)):
            found |= linears(network, {"0": module[0], "1": module[2], "out": module[4]})
        return found
    found = {}
    for network, name in NETWORKS[algorithm].items():
        module = names[name]
        if algorithm == "dqn":
            sequence = module.network
            found |= linears(network, {"0": sequence[0], "1": sequence[2], "out": sequence[4]})
            continue
        layers = {"0": module.fc1, "1": module.fc2}
        if network.startswith("critic"):
            layers["out"] = module.fc3
        elif algorithm != "sac":
            layers["out"] = module.fc_mu
        else:
            layers |= {"mean": module.fc_mean, "std": module.fc_logstd}
        found |= linears(network, layers)
    if algorithm == "sac":
        found["temperature.log"] = Slot(names["log_alpha"])
    return found


def stored(algorithm: str, names: Mapping[str, Any]) -> Mapping[str, NDArray[Any]]:
    """The rollout, or the filled part of the replay buffer."""
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
    return {
        "observations": buffer.observations[:size, 0].astype(float),
        "actions": buffer.actions[:size, 0].astype(float),
        "rewards": buffer.rewards[:size, 0].astype(float),
        "next_observations": buffer.next_observations[:size, 0].astype(float),
        "terminated": (buffer.dones * (1 - buffer.timeouts))[:size, 0].astype(float),
    }
