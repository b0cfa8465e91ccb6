"""Trains with SB3's public classes; with uniform replay nothing of SB3 is replaced."""

import contextlib
import importlib
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import stable_baselines3
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor as SB3Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from adapters.sb3 import images
from adapters.sb3.replay import StrategicBuffer, errors_of
from adapters.sb3.translate import SETTINGS
from adapters.sb3_common.arguments import resolve
from adapters.sb3_common.reporting import MonitorWriter, Rounds
from adapters.torch_common import convolutions
from adapters.torch_common.parameters import copies, lay_in
from adapters.torch_common.state import resumable
from adapters.torch_common.strategic import accounted
from harness.contract.adapter import Context, Loadable, MakeEnv, Monitor, Native, Weights
from harness.contract.algorithms import convolutions as contract_convolutions
from harness.contract.parts import load_part

METRICS = {
    "train/learning_rate": "learning_rate",
    "train/policy_gradient_loss": "loss/policy",
    "train/actor_loss": "loss/policy",
    "train/value_loss": "loss/value",
    "train/critic_loss": "loss/critic",
    "train/ent_coef_loss": "loss/temperature",
    "train/ent_coef": "temperature",
    "train/approx_kl": "policy/approx_kl",
    "train/clip_fraction": "policy/clip_fraction",
    "train/explained_variance": "value/explained_variance",
    "train/std": "policy/std",
}
"""SB3's names of logged values to those of the trace."""


def train(
    algorithm: str, native: Native, context: Context, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Trains to the end."""
    made: list[Any] = []

    def make() -> Any:
        made.append(make_env())
        return made[-1]

    model = build(algorithm, native, context, make)
    rounds = Rounds(monitor)
    model.set_logger(Logger(folder=None, output_formats=[MonitorWriter(monitor, METRICS)]))
    monitor.attach(
        lambda observations: greedy(model, observations),
        lambda: weights(model),
        Loadable(
            lambda values: lay_in(parameters(model), values),
            lambda path: save(model, path),
            ".zip",
        ),
        resumable({"model": model}, outside=lambda: [monitor, rounds, *made]),
    )
    buffer = getattr(model, "replay_buffer", None)
    with contextlib.ExitStack() as stack:
        if isinstance(buffer, StrategicBuffer):
            stack.enter_context(accounted(buffer.replayer, monitor))
        model.learn(total_timesteps=context.steps, callback=rounds)


def build(algorithm: str, native: Native, context: Context, make_env: MakeEnv) -> BaseAlgorithm:
    """The SB3 model that `native` describes."""
    model_class = class_of(algorithm)
    # What SB3 itself does to a single environment, for any number of them.
    envs = DummyVecEnv([lambda: SB3Monitor(make_env())] * context.n_envs)
    classes = {"Convolutions": images.Convolutions}
    arguments = resolve(native.settings, context.task.action_size, classes)
    # The same class but for the features extractor, which is ours for images.
    policy = "CnnPolicy" if context.task.image else "MlpPolicy"
    model = model_class(policy, envs, **with_strategy(arguments))
    buffer = getattr(model, "replay_buffer", None)
    if isinstance(buffer, StrategicBuffer):
        buffer.measure_with(errors_of(algorithm, model))
    return model


def class_of(algorithm: str) -> type[BaseAlgorithm]:
    """SB3's class, or that which the algorithm's module of settings names in `MODEL`.

    A package may bring an algorithm whose class follows SB3's, such as one of sb3-contrib's.
    """
    own = f"{stable_baselines3.__name__}:{algorithm.upper()}"
    module, _, name = getattr(load_part(SETTINGS, algorithm), "MODEL", own).partition(":")
    found: type[BaseAlgorithm] = getattr(importlib.import_module(module), name)
    return found


def with_strategy(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments in which a way of replaying is told, with the buffer that it stands for."""
    described = arguments.get("replay_buffer_class")
    if described is None:
        return arguments
    settings = {"told": described["StrategicBuffer"]}
    return arguments | {
        "replay_buffer_class": StrategicBuffer,
        "replay_buffer_kwargs": arguments["replay_buffer_kwargs"] | settings,
    }


def save(model: BaseAlgorithm, path: Path) -> None:
    """Writes SB3's own file, which loads without this project.

    What it holds of ours is in it; a replay buffer of ours is left out.
    """
    own = (images, convolutions, contract_convolutions)
    is_ours = isinstance(getattr(model, "replay_buffer", None), StrategicBuffer)
    left_out = ["replay_buffer_class", "replay_buffer_kwargs"] if is_ours else None
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        model.save(path, exclude=left_out)
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


def greedy(model: BaseAlgorithm, observations: NDArray[np.float32]) -> NDArray[Any]:
    """SB3's own deterministic prediction, bounds included."""
    actions, _ = model.predict(observations, deterministic=True)
    return np.asarray(actions, np.float32 if actions.ndim > 1 else np.int64)


def weights(model: BaseAlgorithm) -> Weights:
    """Copies of all parameters of the policy, its targets, and the temperature."""
    return copies(parameters(model))


def parameters(model: BaseAlgorithm) -> dict[str, torch.Tensor]:
    """The same as the tensors that the model computes with."""
    tensors: dict[str, torch.Tensor] = dict(model.policy.state_dict())
    log_ent_coef = getattr(model, "log_ent_coef", None)
    if isinstance(log_ent_coef, torch.Tensor):
        tensors["log_ent_coef"] = log_ent_coef
    return tensors
