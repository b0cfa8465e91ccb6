"""Locations of networks, optimizers and buffers in sbx's models, for probes."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from parallax.adapters.jax_common.recording import (
    ArrayLocation,
    FlaxNetworks,
    JaxRecorder,
    locate_linear_layers,
)
from parallax.adapters.sb3_common.model import read_stored_data, reload_settings
from parallax.adapters.sbx import train
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.probing.protocol import ProbeMonitor, ProbeRecord, ProbeScript
from parallax.harness.contract.probing.recorder import capture_calls
from parallax.harness.contract.translation import NativeConfig

_SAC_POLICY_LAYERS = {"0": "Dense_0", "1": "Dense_1", "mean": "Dense_2", "std": "Dense_3"}
_LAYERS = {"0": "Dense_0", "1": "Dense_1", "out": "Dense_2"}


def probe_training(
    algorithm: str,
    native: NativeConfig,
    context: RunContext,
    script: ProbeScript,
    watch: ProbeMonitor,
) -> ProbeRecord:
    """Train while a recorder watches."""
    with capture_calls(train, "build_model") as models:

        def locate() -> FlaxNetworks | None:
            if not models:
                return None
            model, n_critics = models[0], count_critics(algorithm, models[0])
            return FlaxNetworks(
                locate_arrays(algorithm, has_dueling_heads(algorithm, model), n_critics),
                lambda: train.get_train_states(model),
                lambda weights: train.load_weights(model, weights),
            )

        if script.float64 and algorithm == "ppo":
            raise SpecError(
                "framework=sbx cannot train PPO in float64: TensorFlow Probability refuses its "
                "float32 weights beside float64. Drop --float64."
            )
        recorder = JaxRecorder(
            script,
            watch,
            locate,
            lambda: read_stored_data(algorithm, models[0]),
            read_before_update=algorithm == "ppo",
        )
        with recorder.record_training():
            train.train(algorithm, native, context, script.world.make_env, watch)
            models[0].logger.dump()  # an update is reported at the end of the next rollout
    reloaded = reload_settings(models[0]) if script.reloads_model else {}
    return recorder.record({"tau": float(getattr(models[0], "tau", np.nan))}, reloaded)


def has_dueling_heads(algorithm: str, model: Any) -> bool:
    """Return whether DQN's network was patched to have heads for the value and the advantages."""
    return algorithm == "dqn" and "Dense_4" in model.policy.qf_state.params["params"]


def count_critics(algorithm: str, model: Any) -> int:
    """Return the number of critics that a model's parameters are of.

    Raises:
        SpecError: It has more than two.
    """
    if algorithm in ("ppo", "dqn"):
        return 0
    count = len(jax.tree_util.tree_leaves(model.policy.qf_state.params)[0])
    if count > 2:
        raise SpecError(f"its model has {count} critics")
    return count


def locate_arrays(
    algorithm: str, is_dueling: bool = False, n_critics: int = 2
) -> dict[str, ArrayLocation]:
    """Return the locations of sbx's arrays by canonical name."""
    if algorithm == "ppo":
        found = _locate_network("policy", "policy") | _locate_network("value", "value")
        return found | {"policy.log_std": ArrayLocation("policy.log_std")}
    if is_dueling:  # flax numbers the layers as the patch makes them: the last one of a head first
        names = ("0", "advantage", "advantage0", "value", "value0")
        layers = {name: f"Dense_{number}" for number, name in enumerate(names)}
        return _locate_network("critic1", "critic", layers) | _locate_network(
            "critic1_target", "critic_target", layers
        )
    if algorithm == "dqn":
        return _locate_network("critic1", "critic") | _locate_network(
            "critic1_target", "critic_target"
        )
    found = dict[str, ArrayLocation]()
    for suffix in ("", "_target"):
        for number in range(n_critics):
            name = f"critic{suffix}.VmapContinuousCritic_0"
            found |= _locate_network(f"critic{number + 1}{suffix}", name, index=number)
    if algorithm == "sac":
        temperature = {"temperature.log": ArrayLocation("temperature.log_ent_coef")}
        return found | _locate_network("policy", "policy", _SAC_POLICY_LAYERS) | temperature
    return (
        found
        | _locate_network("policy", "policy")
        | _locate_network("policy_target", "policy_target")
    )


def _locate_network(
    network: str, holder: str, layers: Mapping[str, str] = _LAYERS, index: int | None = None
) -> dict[str, ArrayLocation]:
    names = {ours: f"{holder}.{theirs}" for ours, theirs in layers.items()}
    return locate_linear_layers(network, names, ... if index is None else index)
