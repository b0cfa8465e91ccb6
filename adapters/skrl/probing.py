"""Locations of networks, optimizers and memory in skrl's agents, for probes."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skrl.agents.torch import Agent

from parallax.adapters.skrl import train
from parallax.adapters.skrl.agents import (
    DuelingQValueModel,
    ModelSpaces,
    TwoHeadedActor,
    build_probe_models,
)
from parallax.adapters.skrl.versions import STATE_NAME
from parallax.adapters.torch_common.recording import (
    TensorLocation,
    TorchRecorder,
    locate_linear_layers,
)
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.probing.protocol import (
    Parameters,
    ProbeMonitor,
    ProbeRecord,
    ProbeScript,
)
from parallax.harness.contract.probing.recorder import capture_calls, record_every_update
from parallax.harness.contract.translation import NativeConfig

_CRITICS = {
    f"critic{number}{suffix}": f"{prefix}critic_{number}"
    for number in (1, 2)
    for suffix, prefix in (("", ""), ("_target", "target_"))
}
ROLES: Mapping[str, Mapping[str, str]] = {
    "ppo": {"policy": "policy", "value": "value"},
    "td3": {"policy": "policy", "policy_target": "target_policy"} | _CRITICS,
    "sac": {"policy": "policy"} | _CRITICS,
    "ddpg": {
        "policy": "policy",
        "policy_target": "target_policy",
        "critic1": "critic",
        "critic1_target": "target_critic",
    },
    "dqn": {"critic1": "q_network", "critic1_target": "target_q_network"},
}
"""Per algorithm: canonical networks to skrl's roles."""


def probe_training(
    algorithm: str,
    native: NativeConfig,
    context: RunContext,
    script: ProbeScript,
    watch: ProbeMonitor,
) -> ProbeRecord:
    """Train while a recorder watches; if the probe sets weights, with networks of its shape."""
    with contextlib.ExitStack() as stack:
        if script.weights:
            stack.enter_context(_use_probe_models(train, script.weights))
        agents = stack.enter_context(capture_calls(train, "build_agent"))

        def locate() -> dict[str, TensorLocation]:
            return locate_tensors(algorithm, agents[0]) if agents else {}

        def stored() -> Mapping[str, NDArray[Any]]:
            return read_memory(agents[0])

        recorder = TorchRecorder(
            script, watch, locate, stored, read_before_update=algorithm == "ppo"
        )
        with recorder.record_training(), record_every_update(train):
            train.train(algorithm, native, context, script.world.make_env, watch)
        cfg = agents[0].cfg
        options = cfg if isinstance(cfg, dict) else vars(cfg)
        record = recorder.record({"tau": float(options.get("polyak", np.nan))})
        return dataclasses.replace(
            record, substitute_networks=PROBE_NETWORKS.get(algorithm, ()) if script.weights else ()
        )


PROBE_NETWORKS = {"ppo": ("policy", "value"), "sac": ("policy",)}
"""Per algorithm: networks of the recipe that `build_probe_models` replaces."""


@contextlib.contextmanager
def _use_probe_models(module: Any, weights: Parameters) -> Iterator[None]:
    before, started = module.build_agent, {}
    if "temperature.log" in weights:  # the agent computes with a copy, which is set here
        (log,) = weights["temperature.log"]
        started = {"SAC_CFG.initial_entropy_value": float(np.exp(log))}

    def build(algorithm: str, settings: Mapping[str, Any], spaces: ModelSpaces) -> Agent:
        lent = build_probe_models(algorithm, settings, spaces)
        agent: Agent = before(algorithm, {**settings, **started}, spaces, lent)
        return agent

    module.build_agent = build
    try:
        yield
    finally:
        module.build_agent = before


def locate_tensors(algorithm: str, agent: Agent) -> dict[str, TensorLocation]:
    """Return the locations of the agent's tensors by canonical name."""
    found: dict[str, TensorLocation] = {}
    for network, role in ROLES[algorithm].items():
        found |= locate_linear_layers(
            network, find_linear_layers(agent.models[role], algorithm, network)
        )
    if algorithm == "ppo":
        found["policy.log_std"] = TensorLocation(agent.models["policy"].log_std_parameter)
    if algorithm == "sac":
        found["temperature.log"] = TensorLocation(agent.log_entropy_coefficient)
    return found


def find_linear_layers(model: Any, algorithm: str, network: str) -> dict[str, torch.nn.Linear]:
    """Return layers by their canonical names."""
    linear = [layer for layer in model.net if isinstance(layer, torch.nn.Linear)]
    if isinstance(model, TwoHeadedActor):
        heads = {"mean": model.mean, "std": model.log_std}
    elif isinstance(model, DuelingQValueModel):
        parts: dict[str, Any] = {"advantage": model.advantage, "value": model.value}
        heads = {f"{name}0": part[0] for name, part in parts.items()}
        heads |= {name: part[-1] for name, part in parts.items()}
    else:
        heads = {"mean" if (algorithm, network) == ("sac", "policy") else "out": linear.pop()}
    return {str(number): layer for number, layer in enumerate(linear)} | heads


def read_memory(agent: Agent) -> Mapping[str, NDArray[Any]]:
    """Return the stored transitions under canonical names."""
    names = {
        "observations": STATE_NAME,
        "actions": "actions",
        "log_probs": "log_prob",
        "rewards": "rewards",
        "values": "values",
        "advantages": "advantages",
        "returns": "returns",
        "next_observations": f"next_{STATE_NAME}",
        "terminated": "terminated",
    }
    tensors, count = agent.memory.tensors_view, len(agent.memory)
    arrays = {
        ours: np.array(tensors[theirs][:count].detach().cpu(), dtype=float)
        for ours, theirs in names.items()
        if theirs in tensors
    }
    wide = ("observations", "actions", "next_observations")
    arrays = {name: array if name in wide else array[:, 0] for name, array in arrays.items()}
    if "advantages" in arrays:  # stored after standardisation; returns were computed before it
        arrays["advantage_weights"] = arrays["advantages"]
        arrays["advantages"] = arrays["returns"] - arrays["values"]
    return arrays
