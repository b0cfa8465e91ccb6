"""Where Tianshou keeps what probes look at."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm import PPO

from adapters.tianshou import train
from adapters.torch_common.recording import Recorder, Slot, linears
from harness.contract.adapter import Context, Native
from harness.probes.contract import Record, Script, Watch
from harness.probes.recording import captured
from harness.probes.world import Choices, World

_BODY = ("preprocess.model.model.0", "preprocess.model.model.2")
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
"""Per algorithm: layers that a policy ends with."""


def probe(algorithm: str, native: Native, context: Context, script: Script, watch: Watch) -> Record:
    """Trains while a recorder watches."""
    with contextlib.ExitStack() as stack:
        models = stack.enter_context(captured(train, "build"))
        buffers = stack.enter_context(captured(train, "make_buffer"))
        rollouts = stack.enter_context(captured(PPO, "_preprocess_batch"))

        def locate() -> dict[str, Slot]:
            if not buffers:  # environments are reset once when they are seeded
                return {}
            _dictate_choices(buffers[0], script.world)
            return slots(algorithm, models[0])

        def stored() -> Mapping[str, NDArray[Any]]:
            return _rollout(rollouts[-1]) if algorithm == "ppo" else _replay(buffers[0])

        recorder = Recorder(script, watch, locate, stored, early=algorithm == "ppo")
        with recorder.watching(), _every_update(train):
            train.train(algorithm, native, context, script.world.make_env, watch)
        return recorder.record({"tau": _tau(algorithm, models[0])})


def _tau(algorithm: str, model: Any) -> float:
    return float(getattr(model, "tau", np.nan))


@contextlib.contextmanager
def _every_update(module: Any) -> Iterator[None]:
    # The trace has every hundredth training step of Tianshou's; here is each.
    before, module.RECORD_EVERY = module.RECORD_EVERY, 1
    try:
        yield
    finally:
        module.RECORD_EVERY = before


def _dictate_choices(buffer: Any, world: World) -> None:
    for part in (buffer, *getattr(buffer, "buffers", ())):
        part._random_state = Choices(world)


def slots(algorithm: str, model: Any) -> dict[str, Slot]:
    """Canonical names to the model's tensors."""
    if algorithm == "dqn":
        return _values(model.policy.model, "critic1") | _values(
            model.model_old.module, "critic1_target"
        )
    found: dict[str, Slot] = {}
    for network, name in NETWORKS[algorithm].items():
        is_policy = network.startswith("policy")
        heads = HEADS[algorithm] if is_policy else {"out": "last.model.0"}
        for layer, path in {"0": _BODY[0], "1": _BODY[1], **heads}.items():
            module = model.get_submodule(f"{name}.{path}")
            for kind in ("weight", "bias"):
                found[f"{network}.{layer}.{kind}"] = Slot(getattr(module, kind))
    if algorithm == "ppo":
        found["policy.log_std"] = Slot(model.policy.actor.sigma_param, (slice(None), 0))
    if algorithm == "sac":
        found["temperature.log"] = Slot(model.alpha._log_alpha, np.newaxis)
    return found


def _values(net: Any, network: str) -> dict[str, Slot]:
    # A network of any depth; with heads of their own for the value and the advantages.
    *hidden, last = _linear_layers(net.model)
    if net.use_dueling:
        hidden, last = [*hidden, last], None
    layers = {str(number): layer for number, layer in enumerate(hidden)}
    if last is not None:
        return linears(network, layers | {"out": last})
    for head, part in (("advantage", net.Q), ("value", net.V)):
        before, final = _linear_layers(part)
        layers |= {f"{head}0": before, head: final}
    return linears(network, layers)


def _linear_layers(mlp: Any) -> list[Any]:
    return [layer for layer in mlp.model if isinstance(layer, torch.nn.Linear)]


def _rollout(batch: Any) -> Mapping[str, NDArray[Any]]:
    names = {
        "observations": "obs",
        "actions": "act",
        "log_probs": "logp_old",
        "rewards": "rew",
        "values": "v_s",
        "advantages": "adv",
        "returns": "returns",
    }
    return {ours: _numbers(batch[theirs]) for ours, theirs in names.items()}


def _numbers(array: Any) -> NDArray[Any]:
    plain = array.detach().numpy() if isinstance(array, torch.Tensor) else array
    return np.array(plain, dtype=float)


def _replay(buffer: Any) -> Mapping[str, NDArray[Any]]:
    names = {
        "observations": "obs",
        "actions": "act",
        "rewards": "rew",
        "next_observations": "obs_next",
        "terminated": "terminated",
    }
    data = buffer[buffer.sample_indices(0)] if hasattr(buffer, "buffers") else buffer[: len(buffer)]
    return {ours: np.array(data[theirs], dtype=float) for ours, theirs in names.items()}
