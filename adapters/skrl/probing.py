"""Where skrl keeps what probes look at."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skrl.agents.torch import Agent

from adapters.skrl import train
from adapters.skrl.lent import TwoHeads, models
from adapters.skrl.models import Spaces
from adapters.torch_common.recording import Recorder, Slot, linears
from harness.contract.adapter import Context, Native
from harness.probes.contract import Parameters, Record, Script, Watch
from harness.probes.recording import captured

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


def probe(algorithm: str, native: Native, context: Context, script: Script, watch: Watch) -> Record:
    """Trains while a recorder watches; with weights of the probe's, on networks of its shape."""
    with contextlib.ExitStack() as stack:
        if script.weights:
            stack.enter_context(_lending(train, script.weights))
        agents = stack.enter_context(captured(train, "build"))

        def locate() -> dict[str, Slot]:
            return slots(algorithm, agents[0]) if agents else {}

        def stored() -> Mapping[str, NDArray[Any]]:
            return memory(agents[0])

        recorder = Recorder(script, watch, locate, stored, early=algorithm == "ppo")
        with recorder.watching(), _every_update(train):
            train.train(algorithm, native, context, script.world.make_env, watch)
        record = recorder.record({"tau": float(getattr(agents[0].cfg, "polyak", np.nan))})
        return dataclasses.replace(record, lent=LENT.get(algorithm, ()) if script.weights else ())


LENT = {"ppo": ("policy", "value"), "sac": ("policy",)}
"""Per algorithm: networks that are lent; see `adapters.skrl.lent`."""


@contextlib.contextmanager
def _lending(module: Any, weights: Parameters) -> Iterator[None]:
    before, started = module.build, {}
    if "temperature.log" in weights:  # the agent computes with a copy, which is told here
        (log,) = weights["temperature.log"]
        started = {"SAC_CFG.initial_entropy_value": float(np.exp(log))}

    def build(algorithm: str, settings: Mapping[str, Any], spaces: Spaces) -> Agent:
        lent = models(algorithm, settings, spaces)
        agent: Agent = before(algorithm, {**settings, **started}, spaces, lent)
        return agent

    module.build = build
    try:
        yield
    finally:
        module.build = before


@contextlib.contextmanager
def _every_update(module: Any) -> Iterator[None]:
    # The trace has what each hundredth step left; here is each.
    before, module.RECORD_EVERY = module.RECORD_EVERY, 1
    try:
        yield
    finally:
        module.RECORD_EVERY = before


def slots(algorithm: str, agent: Agent) -> dict[str, Slot]:
    """Canonical names to the agent's tensors."""
    found: dict[str, Slot] = {}
    for network, role in ROLES[algorithm].items():
        found |= linears(network, layers(agent.models[role], algorithm, network))
    if algorithm == "ppo":
        found["policy.log_std"] = Slot(agent.models["policy"].log_std_parameter)
    if algorithm == "sac":
        found["temperature.log"] = Slot(agent.log_entropy_coefficient)
    return found


def layers(model: Any, algorithm: str, network: str) -> dict[str, torch.nn.Linear]:
    """Layers by their canonical names."""
    linear = [layer for layer in model.net if isinstance(layer, torch.nn.Linear)]
    if isinstance(model, TwoHeads):
        heads = {"mean": model.mean, "std": model.log_std}
    else:
        heads = {"mean" if (algorithm, network) == ("sac", "policy") else "out": linear.pop()}
    return {str(number): layer for number, layer in enumerate(linear)} | heads


def memory(agent: Agent) -> Mapping[str, NDArray[Any]]:
    """What is stored, in canonical names."""
    names = {
        "observations": "observations",
        "actions": "actions",
        "log_probs": "log_prob",
        "rewards": "rewards",
        "values": "values",
        "advantages": "advantages",
        "returns": "returns",
        "next_observations": "next_observations",
        "terminated": "terminated",
    }
    kept, count = agent.memory.tensors_view, len(agent.memory)
    arrays = {
        ours: np.array(kept[theirs][:count].detach().cpu(), dtype=float)
        for ours, theirs in names.items()
        if theirs in kept
    }
    wide = ("observations", "actions", "next_observations")
    arrays = {name: array if name in wide else array[:, 0] for name, array in arrays.items()}
    if "advantages" in arrays:  # kept when they are standardised; returns were made of them before
        arrays["advantage_weights"] = arrays["advantages"]
        arrays["advantages"] = arrays["returns"] - arrays["values"]
    return arrays
