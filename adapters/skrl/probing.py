"""Where skrl keeps what probes look at."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skrl.agents.torch import Agent

from adapters.skrl import train
from adapters.torch_common.recording import Recorder, Slot, linears
from harness.contract.adapter import Context, Native
from harness.contract.fields import SpecError
from harness.probes.contract import Record, Script, Watch
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


UNSQUASHED = (
    "its policy is a Gaussian without tanh, and its deviation no output of the network; the probe "
    "reads a policy with both"
)
"""Why updates of SAC are not compared: differences would be told of code that has none."""


def probe(algorithm: str, native: Native, context: Context, script: Script, watch: Watch) -> Record:
    """Trains while a recorder watches.

    Raises:
        SpecError: The probe would read another policy than there is.
    """
    if algorithm == "sac" and script.weights:
        raise SpecError(UNSQUASHED)
    with contextlib.ExitStack() as stack:
        agents = stack.enter_context(captured(train, "build"))

        def locate() -> dict[str, Slot]:
            return slots(algorithm, agents[0]) if agents else {}

        def stored() -> Mapping[str, NDArray[Any]]:
            return memory(agents[0])

        recorder = Recorder(script, watch, locate, stored, early=algorithm == "ppo")
        with recorder.watching(), _every_update(train):
            train.train(algorithm, native, context, script.world.make_env, watch)
        return recorder.record({"tau": float(getattr(agents[0].cfg, "polyak", np.nan))})


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
        *hidden, last = (
            layer for layer in agent.models[role].net if isinstance(layer, torch.nn.Linear)
        )
        head = "mean" if (algorithm, network) == ("sac", "policy") else "out"
        layers = {str(number): layer for number, layer in enumerate(hidden)} | {head: last}
        found |= linears(network, layers)
    if algorithm == "ppo":
        found["policy.log_std"] = Slot(agent.models["policy"].log_std_parameter)
    if algorithm == "sac":
        # The deviation is a parameter; weights of a layer for it lie where nothing reads them.
        log_std = agent.models["policy"].log_std_parameter
        found["policy.std.weight"] = Slot(log_std.new_zeros(len(log_std), last.in_features))
        found["policy.std.bias"] = Slot(log_std)
        found["temperature.log"] = Slot(agent.log_entropy_coefficient)
    return found


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
    return {name: array if name in wide else array[:, 0] for name, array in arrays.items()}
