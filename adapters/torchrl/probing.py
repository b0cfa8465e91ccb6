"""Locations of networks, optimizers and buffers in TorchRL's components, for probes."""

import contextlib
import dataclasses
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parallax.adapters.torch_common.recording import TensorLocation, TorchRecorder
from parallax.adapters.torchrl import loop
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.probing.protocol import ProbeMonitor, ProbeRecord, ProbeScript
from parallax.harness.contract.probing.recorder import capture_calls
from parallax.harness.contract.translation import NativeConfig
from parallax.harness.replay.prioritized import ProportionalStrategy

# An algorithm's module is imported when it is probed: older releases lack what others need.
if TYPE_CHECKING:
    from parallax.adapters.torchrl.r2d2 import R2D2Components
    from parallax.adapters.torchrl.recurrent import SequenceReplayBuffer

_LSTM_NAMES = {
    "lstm_input.weight": "weight_ih_l0",
    "lstm_input.bias": "bias_ih_l0",
    "lstm_state.weight": "weight_hh_l0",
    "lstm_state.bias": "bias_hh_l0",
}


def locate_sequence_tensors(components: "R2D2Components") -> dict[str, TensorLocation]:
    """Return locations in the learner, its target and the actor by canonical name."""
    loss = components.loss
    networks = {
        "critic1": loss.value_network_params.flatten_keys("."),
        "critic1_target": loss.target_value_network_params.flatten_keys("."),
        "actor": dict(components.actor.named_parameters()),
    }
    return {
        f"{network}.{name}": TensorLocation(tensors[native])
        for network, tensors in networks.items()
        for name, native in _find_native_names(tensors).items()
    }


def _find_native_names(tensors: Mapping[str, Any]) -> dict[str, str]:
    layers = {"0": "module.0.module.layers.0"}
    if "module.2.module.0.weight" in tensors.keys():  # noqa: SIM118
        layers |= {"1": "module.2.module.0", "out": "module.2.module.2"}
    else:
        for head in ("value", "advantage"):
            layers |= {f"{head}{n}": f"module.2.module.{head}.{m}" for n, m in (("0", 0), ("", 2))}
    found = {f"{n}.{kind}": f"{m}.{kind}" for n, m in layers.items() for kind in ("weight", "bias")}
    return found | {name: f"module.1.lstm.{native}" for name, native in _LSTM_NAMES.items()}


def read_stored_sequences(memory: "SequenceReplayBuffer") -> Mapping[str, NDArray[Any]]:
    """Return each sequence's start in its episode, its length, and its sampling probability."""
    count = len(memory.buffer)
    if not count:
        return {}
    stored, strategy = memory.buffer[:], memory.strategy
    assert isinstance(strategy, ProportionalStrategy)
    places = np.arange(count, dtype=np.int64)
    return {
        "begins": stored["begin"].numpy(),
        "lengths": stored["length"].numpy(),
        "burned": stored["burned"].numpy(),
        "probabilities": strategy.compute_probabilities(places),
    }


_HIDDEN_LAYERS = ("0", "2")
_OUTPUT_LAYER = "4"


def probe_training(
    algorithm: str,
    native: NativeConfig,
    context: RunContext,
    script: ProbeScript,
    watch: ProbeMonitor,
) -> ProbeRecord:
    """Train while a recorder watches."""
    module: Any = importlib.import_module(f"parallax.adapters.torchrl.{algorithm}")
    if algorithm == "r2d2":
        return _probe_sequences(module, native, context, script, watch)
    with contextlib.ExitStack() as stack:
        built = stack.enter_context(capture_calls(module, "build_components"))
        if algorithm == "ppo":
            rollouts = stack.enter_context(capture_calls(module, "iterate_minibatches", argument=2))
            reported = stack.enter_context(capture_calls(module, "update"))
        else:
            buffers = stack.enter_context(capture_calls(loop, "make_replay_buffer"))
        recorder = TorchRecorder(
            script,
            watch,
            lambda: locate_tensors(algorithm, built[0].loss, context.task.action_size),
            lambda: (
                _read_rollout(rollouts[-1], built[0].loss.tensor_keys.sample_log_prob)
                if algorithm == "ppo"
                else _read_replay(algorithm, buffers[0])
            ),
            read_before_update=algorithm == "ppo",
        )
        with recorder.record_training():
            module.train(native, context, script.world.make_env, watch)
    targets = getattr(built[0], "targets", None)
    tau = getattr(targets, "eps", None)
    record = recorder.record({} if tau is None else {"tau": float(tau)})
    if algorithm == "ppo":
        # The recipe reports means over a rollout; these are the values of each update.
        metrics = tuple({name: float(value) for name, value in each.items()} for each in reported)
        record = dataclasses.replace(record, metrics=metrics)
    return record


def _probe_sequences(
    module: Any, native: NativeConfig, context: RunContext, script: ProbeScript, watch: ProbeMonitor
) -> ProbeRecord:
    with contextlib.ExitStack() as stack:
        built = stack.enter_context(capture_calls(module, "build_components"))
        memories = stack.enter_context(capture_calls(module, "SequenceReplayBuffer"))
        recorder = TorchRecorder(
            script,
            watch,
            lambda: locate_sequence_tensors(built[0]),
            lambda: read_stored_sequences(memories[0]),
        )
        with recorder.record_training():
            module.train(native, context, script.world.make_env, watch)
    return recorder.record()


def locate_tensors(algorithm: str, loss: Any, action_size: int) -> dict[str, TensorLocation]:
    """Return the locations of the loss's tensors by canonical name."""
    if algorithm == "dqn":
        return _locate_q_networks(loss)
    if algorithm == "ppo":
        policy = _get_network_tensors(loss, "actor_network", "")
        value = _get_network_tensors(loss, "critic_network", "")
        log_std = TensorLocation(policy["module.0.module.1.state_independent_scale"])
        return {
            **_locate_layers(policy, "policy", "module.0.module.0."),
            "policy.log_std": log_std,
            **_locate_layers(value, "value", "module."),
        }
    if algorithm == "sac":
        policy = _get_network_tensors(loss, "actor_network", "")
        heads = {"mean": slice(None, action_size), "std": slice(action_size, None)}
        return {
            **_locate_layers(policy, "policy", "module.0.module.0.", sac_rows=heads),
            **_locate_critics(loss, action_size),
            "temperature.log": TensorLocation(loss.log_alpha),
        }
    found: dict[str, TensorLocation] = {}
    for suffix in ("", "_target"):
        policy = _get_network_tensors(loss, "actor_network", suffix)
        found |= _locate_layers(policy, f"policy{suffix}", "module.0.module.")
    if algorithm == "td3":
        return found | _locate_critics(loss, action_size)
    for suffix in ("", "_target"):
        critic = _get_network_tensors(loss, "value_network", suffix)
        found |= _locate_layers(critic, f"critic1{suffix}", "module.", action_size=action_size)
    return found


def _locate_q_networks(loss: Any) -> dict[str, TensorLocation]:
    found: dict[str, TensorLocation] = {}
    for suffix in ("", "_target"):
        values = _get_network_tensors(loss, "value_network", suffix)
        if "module.0.module.2.advantage.0.weight" in values.keys():  # noqa: SIM118
            found |= _locate_dueling_layers(values, f"critic1{suffix}")
        else:
            found |= _locate_layers(values, f"critic1{suffix}", "module.0.module.")
    return found


def _locate_critics(loss: Any, action_size: int) -> dict[str, TensorLocation]:
    """Return the locations of two critics, which TorchRL stacks in one tensor, and of targets."""
    found: dict[str, TensorLocation] = {}
    for suffix in ("", "_target"):
        critics = _get_network_tensors(loss, "qvalue_network", suffix)
        for i in (0, 1):
            found |= _locate_layers(critics, f"critic{i + 1}{suffix}", "module.", i, action_size)
    return found


def _get_network_tensors(loss: Any, network: str, suffix: str) -> Mapping[str, Any]:
    prefix = "target_" if suffix else ""
    tensors: Mapping[str, Any] = getattr(loss, f"{prefix}{network}_params").flatten_keys(".")
    return tensors


def _locate_dueling_layers(tensors: Mapping[str, Any], network: str) -> dict[str, TensorLocation]:
    """Return the tensors of a shared layer and of two heads with one hidden layer each."""
    layers = {"0": "0.0"}
    for head in ("advantage", "value"):
        layers |= {f"{head}0": f"2.{head}.0", head: f"2.{head}.2"}
    return {
        f"{network}.{name}.{kind}": TensorLocation(tensors[f"module.0.module.{native}.{kind}"])
        for name, native in layers.items()
        for kind in ("weight", "bias")
    }


def _locate_layers(
    tensors: Mapping[str, Any],
    network: str,
    prefix: str,
    member: Any = ...,
    action_size: int = 0,
    sac_rows: Mapping[str, Any] | None = None,
) -> dict[str, TensorLocation]:
    found = {}
    for kind in ("weight", "bias"):
        for name, native in zip(("0", "1"), _HIDDEN_LAYERS, strict=True):
            tensor, columns = tensors[f"{prefix}{native}.{kind}"], None
            if action_size and name == "0" and kind == "weight":
                # Critics take the action first; the canonical order is the observation first.
                columns = np.roll(np.arange(tensor.shape[-1]), -action_size)
            found[f"{network}.{name}.{kind}"] = TensorLocation(tensor, member, columns)
        for name, rows in (sac_rows or {"out": member}).items():
            found[f"{network}.{name}.{kind}"] = TensorLocation(
                tensors[f"{prefix}{_OUTPUT_LAYER}.{kind}"], rows
            )
    return found


def _read_rollout(rollout: Any, log_prob: str) -> Mapping[str, NDArray[Any]]:
    names = {
        "observations": "observation",
        "actions": "action",
        "log_probs": log_prob,
        "rewards": ("next", "reward"),
        "values": "state_value",
        "advantages": "advantage",
        "returns": "value_target",
    }
    flat = rollout.reshape(-1)
    return _read_arrays(flat, names)


def _read_replay(algorithm: str, buffer: Any) -> Mapping[str, NDArray[Any]]:
    names = {
        "observations": "observation",
        "actions": "action",
        "rewards": ("next", "reward"),
        "next_observations": ("next", "observation"),
        "terminated": ("next", "terminated"),
    }
    found = _read_arrays(buffer[:], names)
    if algorithm == "dqn":  # one-hot
        found["actions"] = found["actions"].argmax(axis=-1).astype(float)
    return found


def _read_arrays(data: Any, names: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    arrays = {ours: np.array(data[theirs].detach().cpu(), float) for ours, theirs in names.items()}
    rows = {"observations", "actions", "next_observations"}
    return {name: a if name in rows else a.reshape(-1) for name, a in arrays.items()}
