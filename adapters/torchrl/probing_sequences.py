"""Where R2D2's networks and sequences are, for probes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.torch_common.recording import Slot
from adapters.torchrl.r2d2 import Components
from adapters.torchrl.sequences import SequenceMemory
from harness.replay.proportional import Proportional

_MEMORY = {
    "lstm_input.weight": "weight_ih_l0",
    "lstm_input.bias": "bias_ih_l0",
    "lstm_state.weight": "weight_hh_l0",
    "lstm_state.bias": "bias_hh_l0",
}


def slots(components: Components) -> dict[str, Slot]:
    """Canonical names to the tensors of the learner, its target and the actor."""
    loss = components.loss
    networks = {
        "critic1": loss.value_network_params.flatten_keys("."),
        "critic1_target": loss.target_value_network_params.flatten_keys("."),
        "actor": dict(components.actor.named_parameters()),
    }
    return {
        f"{network}.{name}": Slot(tensors[native])
        for network, tensors in networks.items()
        for name, native in _names(tensors).items()
    }


def _names(tensors: Mapping[str, Any]) -> dict[str, str]:
    layers = {"0": "module.0.module.layers.0"}
    if "module.2.module.0.weight" in tensors.keys():  # noqa: SIM118
        layers |= {"1": "module.2.module.0", "out": "module.2.module.2"}
    else:
        for head in ("value", "advantage"):
            layers |= {f"{head}{n}": f"module.2.module.{head}.{m}" for n, m in (("0", 0), ("", 2))}
    found = {f"{n}.{kind}": f"{m}.{kind}" for n, m in layers.items() for kind in ("weight", "bias")}
    return found | {name: f"module.1.lstm.{native}" for name, native in _MEMORY.items()}


def stored(memory: SequenceMemory) -> Mapping[str, NDArray[Any]]:
    """Of each sequence: where in its episode it begins, how long it is, how likely it is drawn."""
    count = len(memory.buffer)
    if not count:
        return {}
    held, strategy = memory.buffer[:], memory.strategy
    assert isinstance(strategy, Proportional)
    places = np.arange(count, dtype=np.int64)
    return {
        "begins": held["begin"].numpy(),
        "lengths": held["length"].numpy(),
        "burned": held["burned"].numpy(),
        "probabilities": strategy.probabilities(places),
    }
