"""Trains with d3rlpy's `fit_online`; this file runs where d3rlpy is installed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy.algos import NormalNoise, TD3Config
from d3rlpy.dataset import create_fifo_replay_buffer
from d3rlpy.logging import NoopAdapterFactory
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.optimizers import AdamFactory
from d3rlpy.preprocessing import MinMaxActionScaler
from numpy.typing import NDArray

from parallax.adapters.torch_common.state import load_weights, weights_from_parameters
from parallax.harness.contract.adapter import MakeEnv, Monitor, PolicyIO, RunContext, Weights
from parallax.harness.contract.translation import NativeConfig

METRICS = {"critic_loss": "loss/critic", "actor_loss": "loss/policy"}
"""d3rlpy's names to those in the trace."""
RECORD_EVERY = 100
"""Gradient steps between records of the trace."""


def train(
    algorithm: str, native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Trains to the end."""
    settings = native.settings
    d3rlpy.seed(settings["seed"])
    env = make_env()
    d3rlpy.envs.seed_env(env, settings["seed"])
    env.action_space.seed(settings["seed"])
    model = build(settings, env)
    report(model, monitor)
    monitor.attach(
        lambda observations: greedy(model, observations),
        lambda: weights(model),
        PolicyIO(
            lambda values: load_weights(parameters(model), values),
            lambda path: save(model, path),
            ".d3",
        ),
    )
    model.fit_online(
        env,
        create_fifo_replay_buffer(env=env, **options(settings, "create_fifo_replay_buffer")),
        NormalNoise(**options(settings, "NormalNoise")),
        n_steps=native.total_steps,
        n_steps_per_epoch=native.total_steps + 1,  # no epoch ends, so that nothing is saved
        logger_adapter=NoopAdapterFactory(),
        show_progress=False,
        **options(settings, "fit_online"),
    )


def build(settings: Mapping[str, Any], env: Any) -> Any:
    """The algorithm that settings describe, with its networks."""
    optimizer = AdamFactory(**options(settings, "AdamFactory"))
    encoder = VectorEncoderFactory(**options(settings, "VectorEncoderFactory"))
    scaler = MinMaxActionScaler(minimum=env.action_space.low, maximum=env.action_space.high)
    model = TD3Config(
        action_scaler=scaler,
        actor_optim_factory=optimizer,
        critic_optim_factory=optimizer,
        actor_encoder_factory=encoder,
        critic_encoder_factory=encoder,
        **options(settings, "TD3Config"),
    ).create(device="cpu:0")
    model.build_with_env(env)
    return model


def options(settings: Mapping[str, Any], component: str) -> dict[str, Any]:
    """Arguments of one component, by name."""
    parts = {name: name.partition(".") for name in settings}
    return {part[2]: settings[name] for name, part in parts.items() if part[0] == component}


def report(model: Any, monitor: Monitor) -> None:
    """Hands on what each hundredth update tells, which d3rlpy keeps for the end of an epoch."""
    update, count = model.update, 0

    def updating(batch: Any) -> Any:
        nonlocal count
        told = update(batch)
        count += 1
        if count % RECORD_EVERY == 0:
            monitor.record({METRICS[n]: float(v) for n, v in told.items() if n in METRICS})
        return told

    model.update = updating


def greedy(model: Any, observations: NDArray[np.float32]) -> NDArray[Any]:
    """d3rlpy's own prediction."""
    return np.asarray(model.predict(observations), np.float32)


def parameters(model: Any) -> dict[str, torch.Tensor]:
    """Every parameter, as the tensor that the algorithm computes with."""
    modules = vars(model.impl.modules)
    return {
        f"{network.replace('targ_', 'target_')}.{name}": value
        for network, module in modules.items()
        if isinstance(module, torch.nn.Module)
        for name, value in module.named_parameters()
    }


def weights(model: Any) -> Weights:
    """Copies of all parameters."""
    return weights_from_parameters(parameters(model))


def save(model: Any, path: Path) -> None:
    """Writes d3rlpy's own file, which `d3rlpy.load_learnable` reads."""
    model.save(str(path))
