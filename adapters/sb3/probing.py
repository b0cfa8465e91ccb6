"""Locations of networks, optimizers and buffers in SB3's models, for probes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from parallax.adapters.sb3 import train
from parallax.adapters.sb3.networks import DuelingPolicy
from parallax.adapters.sb3_common.model import read_stored_data, reload_settings
from parallax.adapters.torch_common.recording import (
    TensorLocation,
    TorchRecorder,
    locate_linear_layers,
)
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.probing.protocol import ProbeMonitor, ProbeRecord, ProbeScript
from parallax.harness.contract.probing.recorder import capture_calls
from parallax.harness.contract.translation import NativeConfig

_PPO = {
    "policy": ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net"),
    "value": ("mlp_extractor.value_net.0", "mlp_extractor.value_net.2", "value_net"),
}
_CRITICS = {
    f"critic{i + 1}{suffix}": tuple(f"critic{suffix}.qf{i}.{j}" for j in (0, 2, 4))
    for i in (0, 1)
    for suffix in ("", "_target")
}
_TD3 = {
    f"policy{suffix}": tuple(f"actor{suffix}.mu.{j}" for j in (0, 2, 4))
    for suffix in ("", "_target")
} | _CRITICS
_SAC = {"policy": ("actor.latent_pi.0", "actor.latent_pi.2", "actor.mu")} | _CRITICS
_DQN = {
    f"critic1{suffix}": tuple(f"q_net{suffix}.q_net.{j}" for j in (0, 2, 4))
    for suffix in ("", "_target")
}
MODULES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ppo": _PPO,
    "td3": _TD3,
    "sac": _SAC,
    "ddpg": _TD3,
    "dqn": _DQN,
}
"""Per algorithm and canonical network: SB3's names of its two hidden layers and its output."""


def probe_training(
    algorithm: str,
    native: NativeConfig,
    context: RunContext,
    script: ProbeScript,
    watch: ProbeMonitor,
) -> ProbeRecord:
    """Train while a recorder watches."""
    with capture_calls(train, "build_model") as models:
        recorder = TorchRecorder(
            script,
            watch,
            lambda: locate_tensors(algorithm, models[0]),
            lambda: read_stored_data(algorithm, models[0]),
            read_before_update=algorithm == "ppo",
        )
        with recorder.record_training():
            train.train(algorithm, native, context, script.world.make_env, watch)
            models[0].logger.dump()  # SB3 reports an update at the end of the next rollout
    reloaded = reload_settings(models[0]) if script.reloads_model else {}
    return recorder.record({"tau": float(getattr(models[0], "tau", np.nan))}, reloaded)


def _list_dueling_layers(sequence: Any) -> dict[str, Any]:
    """Return the layers of a network with heads, each of which has one hidden layer."""
    *shared, head = sequence
    hidden = [layer for layer in shared if isinstance(layer, torch.nn.Linear)]
    found: dict[str, Any] = {str(number): layer for number, layer in enumerate(hidden)}
    for name, part in (("advantage", head.advantage), ("value", head.value)):
        found |= {f"{name}0": part[0], name: part[2]}
    return found


def locate_tensors(algorithm: str, model: Any) -> dict[str, TensorLocation]:
    """Return the locations of the model's tensors by canonical name."""
    last = "mean" if algorithm == "sac" else "out"
    found: dict[str, TensorLocation] = {}
    if algorithm == "dqn" and isinstance(model.policy, DuelingPolicy):
        nets = {"critic1": model.policy.q_net, "critic1_target": model.policy.q_net_target}
        for network, net in nets.items():
            found |= locate_linear_layers(network, _list_dueling_layers(net.q_net))
        return found
    module_names = {name for name, _ in model.policy.named_modules()}
    if "critic.qf2" in module_names:
        raise SpecError("its model has more than two critics")
    for network, names in MODULES[algorithm].items():
        if network.startswith("critic2") and names[0] not in module_names:
            continue  # the number of critics is a setting of the policy
        layers = [model.policy.get_submodule(name) for name in names]
        final = last if network == "policy" else "out"
        found |= locate_linear_layers(network, dict(zip(("0", "1", final), layers, strict=True)))
    if algorithm == "sac":
        found |= locate_linear_layers("policy", {"std": model.actor.log_std})
        found["temperature.log"] = TensorLocation(model.log_ent_coef)
    if algorithm == "ppo":
        found["policy.log_std"] = TensorLocation(model.policy.log_std)
    return found
