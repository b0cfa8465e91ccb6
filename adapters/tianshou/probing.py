"""Locations of networks, optimizers and buffers in Tianshou's policies, for probes."""

from parallax.adapters.tianshou.versions import IS_BEFORE_2

# isort: split
import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm import PPO, Algorithm

from parallax.adapters.tianshou import train
from parallax.adapters.torch_common.recording import (
    TensorLocation,
    TorchRecorder,
    locate_linear_layers,
)
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.probing.protocol import ProbeMonitor, ProbeRecord, ProbeScript
from parallax.harness.contract.probing.recorder import capture_calls, record_every_update
from parallax.harness.contract.probing.scripted_rng import ScriptedChoiceGenerator
from parallax.harness.contract.translation import NativeConfig

_HIDDEN_LAYERS = ("preprocess.model.model.0", "preprocess.model.model.2")
_CRITICS = {
    f"critic{i}{suffix}": f"critic{number}{old}"
    for i, number in ((1, ""), (2, "2"))
    for suffix, old in (("", ""), ("_target", "_old.module"))
}
NETWORKS: Mapping[str, Mapping[str, str]] = {
    "ppo": {"policy": "policy.actor", "value": "critic"},
    "td3": {"policy": "policy.actor", "policy_target": "actor_old.module"} | _CRITICS,
    "sac": {"policy": "policy.actor"} | _CRITICS,
    "ddpg": {
        "policy": "policy.actor",
        "policy_target": "actor_old.module",
        "critic1": "critic",
        "critic1_target": "critic_old.module",
    },
}
"""Per algorithm: canonical networks to Tianshou's names."""
HEADS = {
    "ppo": {"out": "mu.model.0"},
    "td3": {"out": "last.model.0"},
    "sac": {"mean": "mu.model.0", "std": "sigma.model.0"},
    "ddpg": {"out": "last.model.0"},
}
"""Per algorithm: output layers of a policy."""


def probe_training(
    algorithm: str,
    native: NativeConfig,
    context: RunContext,
    script: ProbeScript,
    watch: ProbeMonitor,
) -> ProbeRecord:
    """Train while a recorder watches."""
    if "temperature.log" in script.weights:  # before 2.0 the policy computes with a copy
        (log,) = script.weights["temperature.log"]
        settings = {**native.settings, "AutoAlpha.log_alpha": float(log)}
        native = dataclasses.replace(native, settings=settings)
    with contextlib.ExitStack() as stack:
        models = stack.enter_context(capture_calls(train, "build_algorithm"))
        buffers = stack.enter_context(capture_calls(train, "make_buffer"))
        owner = (PPO.args[0], "process_fn") if IS_BEFORE_2 else (PPO, "_preprocess_batch")
        rollouts = stack.enter_context(capture_calls(*owner))

        def locate() -> dict[str, TensorLocation]:
            if not buffers:  # environments are reset once when they are seeded
                return {}
            if not script.world.scripted_data.own_rng:
                for part in (buffers[0], *getattr(buffers[0], "buffers", ())):
                    part._random_state = ScriptedChoiceGenerator(script.world)
            return locate_tensors(algorithm, models[0])

        def stored() -> Mapping[str, NDArray[Any]]:
            return _read_rollout(rollouts[-1]) if algorithm == "ppo" else _read_replay(buffers[0])

        recorder = TorchRecorder(
            script, watch, locate, stored, read_before_update=algorithm == "ppo"
        )
        with recorder.record_training(), record_every_update(train):
            train.train(algorithm, native, context, script.world.make_env, watch)
        return recorder.record({"tau": float(getattr(models[0], "tau", np.nan))})


def locate_tensors(algorithm: str, model: Any) -> dict[str, TensorLocation]:
    """Return the locations of the model's tensors by canonical name."""
    if algorithm == "dqn":
        return _locate_q_network(model.policy.model, "critic1") | _locate_q_network(
            getattr(model.model_old, "module", model.model_old), "critic1_target"
        )
    found: dict[str, TensorLocation] = {}
    for network, name in NETWORKS[algorithm].items():
        is_policy = network.startswith("policy")
        heads = HEADS[algorithm] if is_policy else {"out": "last.model.0"}
        for layer, path in {"0": _HIDDEN_LAYERS[0], "1": _HIDDEN_LAYERS[1], **heads}.items():
            if IS_BEFORE_2:
                name = name.removeprefix("policy.").removesuffix(".module")
            module = model.get_submodule(f"{name}.{path}")
            for kind in ("weight", "bias"):
                found[f"{network}.{layer}.{kind}"] = TensorLocation(getattr(module, kind))
    if algorithm == "ppo":
        found["policy.log_std"] = TensorLocation(model.policy.actor.sigma_param, (slice(None), 0))
    if algorithm == "sac":
        log = (model.log_alpha,) if IS_BEFORE_2 else (model.alpha._log_alpha, np.newaxis)
        found["temperature.log"] = TensorLocation(*log)
    return found


def _locate_q_network(net: Any, network: str) -> dict[str, TensorLocation]:
    # A network of any depth, perhaps with separate heads for the value and the advantages.
    *hidden, last = _find_linear_layers(net.model)
    if net.use_dueling:
        hidden, last = [*hidden, last], None
    layers = {str(number): layer for number, layer in enumerate(hidden)}
    if last is not None:
        return locate_linear_layers(network, layers | {"out": last})
    for head, part in (("advantage", net.Q), ("value", net.V)):
        before, final = _find_linear_layers(part)
        layers |= {f"{head}0": before, head: final}
    return locate_linear_layers(network, layers)


def _find_linear_layers(mlp: Any) -> list[Any]:
    return [layer for layer in mlp.model if isinstance(layer, torch.nn.Linear)]


def _read_rollout(batch: Any) -> Mapping[str, NDArray[Any]]:
    names = {
        "observations": "obs",
        "actions": "act",
        "log_probs": "logp_old",
        "rewards": "rew",
        "values": "v_s",
        "advantages": "adv",
        "returns": "returns",
    }
    return {ours: _to_float_array(batch[theirs]) for ours, theirs in names.items()}


def _to_float_array(array: Any) -> NDArray[Any]:
    plain = array.detach().cpu().numpy() if isinstance(array, torch.Tensor) else array
    return np.array(plain, dtype=float)


def _read_replay(buffer: Any) -> Mapping[str, NDArray[Any]]:
    names = {
        "observations": "obs",
        "actions": "act",
        "rewards": "rew",
        "next_observations": "obs_next",
    }
    parallel = hasattr(buffer, "buffers")
    indices = buffer.sample_indices(0) if parallel else np.arange(len(buffer))
    data = buffer[indices]
    rows = {ours: np.array(data[theirs], dtype=float) for ours, theirs in names.items()}
    # The buffer stores both kinds of end; this mask decides which rows count as terminal.
    return rows | {"terminated": 1.0 - Algorithm.value_mask(buffer, indices)}
