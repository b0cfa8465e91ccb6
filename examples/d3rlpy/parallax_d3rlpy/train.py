"""Train with d3rlpy's `fit_online`; this file runs where d3rlpy is installed."""

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
from parallax.harness.contract.translation import NativeConfig, select_options

METRICS = {"critic_loss": "loss/critic", "actor_loss": "loss/policy"}
"""d3rlpy's names to those in the trace."""
RECORD_EVERY = 100
"""Gradient steps between records of the trace."""


def train(
    algorithm: str, native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Train to the end."""
    settings = native.settings
    d3rlpy.seed(settings["seed"])
    env = make_env()
    d3rlpy.envs.seed_env(env, settings["seed"])
    env.action_space.seed(settings["seed"])
    model = build_model(settings, env)
    report_metrics(model, monitor)
    monitor.attach(
        lambda observations: predict_actions(model, observations),
        lambda: copy_weights(model),
        PolicyIO(
            lambda values: load_weights(get_parameters(model), values),
            lambda path: save_model(model, path),
            ".d3",
        ),
    )
    model.fit_online(
        env,
        create_fifo_replay_buffer(env=env, **select_options(settings, "create_fifo_replay_buffer")),
        NormalNoise(**select_options(settings, "NormalNoise")),
        n_steps=native.total_steps,
        n_steps_per_epoch=native.total_steps + 1,  # no epoch ends, so that nothing is saved
        logger_adapter=NoopAdapterFactory(),
        show_progress=False,
        **select_options(settings, "fit_online"),
    )


def build_model(settings: Mapping[str, Any], env: Any) -> Any:
    """Build the algorithm that `settings` describe, with its networks."""
    optimizer = AdamFactory(**select_options(settings, "AdamFactory"))
    encoder = VectorEncoderFactory(**select_options(settings, "VectorEncoderFactory"))
    scaler = MinMaxActionScaler(minimum=env.action_space.low, maximum=env.action_space.high)
    model = TD3Config(
        action_scaler=scaler,
        actor_optim_factory=optimizer,
        critic_optim_factory=optimizer,
        actor_encoder_factory=encoder,
        critic_encoder_factory=encoder,
        **select_options(settings, "TD3Config"),
    ).create(device="cpu:0")
    model.build_with_env(env)
    return model


def report_metrics(model: Any, monitor: Monitor) -> None:
    """Record the metrics of every hundredth update; d3rlpy reports them per epoch only."""
    update, count = model.update, 0

    def update_and_report(batch: Any) -> Any:
        nonlocal count
        metrics = update(batch)
        count += 1
        if count % RECORD_EVERY == 0:
            monitor.record({METRICS[n]: float(v) for n, v in metrics.items() if n in METRICS})
        return metrics

    model.update = update_and_report


def predict_actions(model: Any, observations: NDArray[np.float32]) -> NDArray[Any]:
    """Return d3rlpy's own prediction."""
    return np.asarray(model.predict(observations), np.float32)


def get_parameters(model: Any) -> dict[str, torch.Tensor]:
    """Return every parameter, as the tensor that the algorithm computes with."""
    modules = vars(model.impl.modules)
    return {
        f"{network.replace('targ_', 'target_')}.{name}": value
        for network, module in modules.items()
        if isinstance(module, torch.nn.Module)
        for name, value in module.named_parameters()
    }


def copy_weights(model: Any) -> Weights:
    """Return copies of all parameters."""
    return weights_from_parameters(get_parameters(model))


def save_model(model: Any, path: Path) -> None:
    """Write d3rlpy's own file, which `d3rlpy.load_learnable` reads."""
    model.save(str(path))
