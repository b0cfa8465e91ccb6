"""Where sbx keeps what probes look at."""

from collections.abc import Mapping

import numpy as np

from adapters.jax_common.recording import Arrays, Recorder, Slot, linears
from adapters.sb3_common.buffers import stored
from adapters.sbx import train
from harness.contract.adapter import Context, Native
from harness.probes.contract import Record, Script, Watch
from harness.probes.recording import captured

_CRITICS = {"td3": 2, "sac": 2, "ddpg": 1}
_SQUASHED = {"0": "Dense_0", "1": "Dense_1", "mean": "Dense_2", "std": "Dense_3"}
_LAYERS = {"0": "Dense_0", "1": "Dense_1", "out": "Dense_2"}


def probe(algorithm: str, native: Native, context: Context, script: Script, watch: Watch) -> Record:
    """Trains while a recorder watches."""
    with captured(train, "build") as models:

        def locate() -> Arrays | None:
            if not models:
                return None
            model = models[0]
            return Arrays(
                slots(algorithm),
                lambda: train.states(model),
                lambda weights: train.restore(model, weights),
            )

        recorder = Recorder(
            script,
            watch,
            locate,
            lambda: stored(algorithm, models[0]),
            early=algorithm == "ppo",
        )
        with recorder.watching():
            train.train(algorithm, native, context, script.world.make_env, watch)
            models[0].logger.dump()  # an update is reported at the end of the next rollout
    return recorder.record({"tau": float(getattr(models[0], "tau", np.nan))})


def slots(algorithm: str) -> dict[str, Slot]:
    """Canonical names to those of sbx's arrays."""
    if algorithm == "ppo":
        found = _network("policy", "policy") | _network("value", "value")
        return found | {"policy.log_std": Slot("policy.log_std")}
    if algorithm == "dqn":
        return _network("critic1", "critic") | _network("critic1_target", "critic_target")
    found = dict[str, Slot]()
    for suffix in ("", "_target"):
        for number in range(_CRITICS[algorithm]):
            name = f"critic{suffix}.VmapContinuousCritic_0"
            found |= _network(f"critic{number + 1}{suffix}", name, index=number)
    if algorithm == "sac":
        temperature = {"temperature.log": Slot("temperature.log_ent_coef")}
        return found | _network("policy", "policy", _SQUASHED) | temperature
    return found | _network("policy", "policy") | _network("policy_target", "policy_target")


def _network(
    network: str, holder: str, layers: Mapping[str, str] = _LAYERS, index: int | None = None
) -> dict[str, Slot]:
    names = {ours: f"{holder}.{theirs}" for ours, theirs in layers.items()}
    return linears(network, names, ... if index is None else index)
