"""Where TorchRL's components keep what probes look at."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.torch_common.recording import Recorder, Slot
from adapters.torchrl import ddpg, dqn, loop, ppo, probing_sequences, r2d2, sac, td3
from harness.contract.adapter import Context, Native
from harness.probes.contract import Record, Script, Watch
from harness.probes.recording import captured

MODULES: Mapping[str, Any] = {"ppo": ppo, "td3": td3, "sac": sac, "ddpg": ddpg, "dqn": dqn}
_HIDDEN = ("0", "2")
_LAST = "4"


def probe(algorithm: str, native: Native, context: Context, script: Script, watch: Watch) -> Record:
    """Trains while a recorder watches."""
    if algorithm == "r2d2":
        return _probe_sequences(native, context, script, watch)
    with contextlib.ExitStack() as stack:
        built = stack.enter_context(captured(MODULES[algorithm], "build"))
        buffers = stack.enter_context(captured(loop, "make_buffer"))
        rollouts = stack.enter_context(captured(ppo, "minibatches", argument=2))
        reported = stack.enter_context(captured(ppo, "update"))
        recorder = Recorder(
            script,
            watch,
            lambda: slots(algorithm, built[0].loss, context.task.action_size),
            lambda: (
                _rollout(rollouts[-1]) if algorithm == "ppo" else _replay(algorithm, buffers[0])
            ),
            early=algorithm == "ppo",
        )
        with recorder.watching():
            MODULES[algorithm].train(native, context, script.world.make_env, watch)
    targets = getattr(built[0], "targets", None)
    tau = getattr(targets, "eps", None)
    record = recorder.record({} if tau is None else {"tau": float(tau)})
    if algorithm == "ppo":
        # The recipe reports means over a rollout; here is what each update reported.
        record = dataclasses.replace(record, metrics=tuple(map(_plain, reported)))
    return record


def _probe_sequences(native: Native, context: Context, script: Script, watch: Watch) -> Record:
    with contextlib.ExitStack() as stack:
        built = stack.enter_context(captured(r2d2, "build"))
        memories = stack.enter_context(captured(r2d2, "SequenceMemory"))
        recorder = Recorder(
            script,
            watch,
            lambda: probing_sequences.slots(built[0]),
            lambda: probing_sequences.stored(memories[0]),
        )
        with recorder.watching():
            r2d2.train(native, context, script.world.make_env, watch)
    return recorder.record()


def _plain(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


def slots(algorithm: str, loss: Any, action_size: int) -> dict[str, Slot]:
    """Canonical names to the tensors of the loss."""
    found: dict[str, Slot] = {}
    if algorithm == "dqn":
        for suffix in ("", "_target"):
            values = _tensors(loss, "value_network", suffix)
            found |= _layers(values, f"critic1{suffix}", "module.0.module.")
        return found
    deterministic = algorithm in ("td3", "ddpg")
    actor = "module.0.module." if deterministic else "module.0.module.0."
    for suffix in ("", "_target") if deterministic else ("",):
        policy = _tensors(loss, "actor_network", suffix)
        found |= _layers(policy, f"policy{suffix}", actor, sac_rows=_rows(algorithm, action_size))
    if algorithm == "ppo":
        found["policy.log_std"] = Slot(policy["module.0.module.1.state_independent_scale"])
        return found | _layers(_tensors(loss, "critic_network", ""), "value", "module.")
    for suffix in ("", "_target"):
        if algorithm == "ddpg":
            critic = _tensors(loss, "value_network", suffix)
            size = action_size
            found |= _layers(critic, f"critic1{suffix}", "module.", action_size=size)
            continue
        critics = _tensors(loss, "qvalue_network", suffix)
        for i in (0, 1):
            found |= _layers(critics, f"critic{i + 1}{suffix}", "module.", i, action_size)
    if algorithm == "sac":
        found["temperature.log"] = Slot(loss.log_alpha)
    return found


def _rows(algorithm: str, action_size: int) -> Mapping[str, Any]:
    if algorithm != "sac":
        return {"out": ...}
    return {"mean": slice(None, action_size), "std": slice(action_size, None)}


def _tensors(loss: Any, network: str, suffix: str) -> Mapping[str, Any]:
    prefix = "target_" if suffix else ""
    tensors: Mapping[str, Any] = getattr(loss, f"{prefix}{network}_params").flatten_keys(".")
    return tensors


def _layers(
    tensors: Mapping[str, Any],
    network: str,
    prefix: str,
    member: Any = ...,
    action_size: int = 0,
    sac_rows: Mapping[str, Any] | None = None,
) -> dict[str, Slot]:
    found = {}
    for kind in ("weight", "bias"):
        for name, native in zip(("0", "1"), _HIDDEN, strict=True):
            tensor, columns = tensors[f"{prefix}{native}.{kind}"], None
            if action_size and name == "0" and kind == "weight":
                # Critics see the action first; canonical is the observation first.
                columns = np.roll(np.arange(tensor.shape[-1]), -action_size)
            found[f"{network}.{name}.{kind}"] = Slot(tensor, member, columns)
        for name, rows in (sac_rows or {"out": member}).items():
            found[f"{network}.{name}.{kind}"] = Slot(tensors[f"{prefix}{_LAST}.{kind}"], rows)
    return found


def _rollout(rollout: Any) -> Mapping[str, NDArray[Any]]:
    names = {
        "observations": "observation",
        "actions": "action",
        "log_probs": "action_log_prob",
        "rewards": ("next", "reward"),
        "values": "state_value",
        "advantages": "advantage",
        "returns": "value_target",
    }
    flat = rollout.reshape(-1)
    return _arrays(flat, names)


def _replay(algorithm: str, buffer: Any) -> Mapping[str, NDArray[Any]]:
    names = {
        "observations": "observation",
        "actions": "action",
        "rewards": ("next", "reward"),
        "next_observations": ("next", "observation"),
        "terminated": ("next", "terminated"),
    }
    found = _arrays(buffer[:], names)
    if algorithm == "dqn":  # one of several is 1
        found["actions"] = found["actions"].argmax(axis=-1).astype(float)
    return found


def _arrays(data: Any, names: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    arrays = {ours: data[theirs].detach().numpy().astype(float) for ours, theirs in names.items()}
    rows = {"observations", "actions", "next_observations"}
    return {name: a if name in rows else a.reshape(-1) for name, a in arrays.items()}
