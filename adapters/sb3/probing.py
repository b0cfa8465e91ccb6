"""Where SB3 keeps what probes look at."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from adapters.sb3 import train
from adapters.sb3_common.buffers import stored
from adapters.torch_common.recording import Recorder, Slot, linears
from harness.contract.adapter import Context, Native
from harness.probes.contract import Record, Script, Watch
from harness.probes.recording import captured

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
_DDPG = {name: layers for name, layers in _TD3.items() if not name.startswith("critic2")}
_DQN = {
    f"critic1{suffix}": tuple(f"q_net{suffix}.q_net.{j}" for j in (0, 2, 4))
    for suffix in ("", "_target")
}
MODULES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ppo": _PPO,
    "td3": _TD3,
    "sac": _SAC,
    "ddpg": _DDPG,
    "dqn": _DQN,
}
"""Per algorithm and canonical network: SB3's names of its two hidden layers and its output."""


def probe(algorithm: str, native: Native, context: Context, script: Script, watch: Watch) -> Record:
    """Trains while a recorder watches."""
    with captured(train, "build") as models:
        recorder = Recorder(
            script,
            watch,
            lambda: slots(algorithm, models[0]),
            lambda: stored(algorithm, models[0]),
            early=algorithm == "ppo",
        )
        with recorder.watching():
            train.train(algorithm, native, context, script.world.make_env, watch)
            models[0].logger.dump()  # SB3 reports an update at the end of the next rollout
    return recorder.record({"tau": float(getattr(models[0], "tau", np.nan))})


def slots(algorithm: str, model: Any) -> dict[str, Slot]:
    """Canonical names to the model's tensors."""
    last = "mean" if algorithm == "sac" else "out"
    found: dict[str, Slot] = {}
    for network, names in MODULES[algorithm].items():
        layers = [model.policy.get_submodule(name) for name in names]
        final = last if network == "policy" else "out"
        found |= linears(network, dict(zip(("0", "1", final), layers, strict=True)))
    if algorithm == "sac":
        found |= linears("policy", {"std": model.actor.log_std})
        found["temperature.log"] = Slot(model.log_ent_coef)
    if algorithm == "ppo":
        found["policy.log_std"] = Slot(model.policy.log_std)
    return found
