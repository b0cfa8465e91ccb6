"""Trains with SB3's public classes; with uniform replay nothing of SB3 is replaced."""

import contextlib
import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stable_baselines3
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.monitor import Monitor as SB3Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from parallax.adapters.sb3 import networks as sb3_networks
from parallax.adapters.sb3_common.model import (
    SafePointCallback,
    log_to_monitor,
    predict_actions,
    resolve_arguments,
    save_model,
)
from parallax.adapters.torch_common import networks as torch_common_networks
from parallax.adapters.torch_common.acceleration import accelerate_networks
from parallax.adapters.torch_common.prioritized_buffer import (
    ErrorFunction,
    PrioritizedReplayMixin,
    ReplaySamples,
    record_replay_cost,
)
from parallax.adapters.torch_common.state import (
    load_weights,
    make_checkpointable,
    record_envs,
    select_distinct,
    weights_from_parameters,
)
from parallax.harness.contract.adapter import (
    MakeEnv,
    Monitor,
    PolicyIO,
    RunContext,
    Weights,
    load_package_module,
)
from parallax.harness.contract.algorithms import image_encoder as algorithms_image_encoder
from parallax.harness.contract.translation import NativeConfig


class PrioritizedReplayBuffer(PrioritizedReplayMixin, ReplayBuffer):
    """SB3's replay buffer, which returns the transitions that a strategy draws."""


def make_error_function(algorithm: str, model: Any, double_q: bool = False) -> ErrorFunction:
    """Return a function that computes the TD errors of all critics, as the update does."""
    compute_next_values: Callable[[Any, ReplaySamples], torch.Tensor]
    if algorithm == "dqn":
        compute_next_values = functools.partial(_compute_next_values_dqn, double_q=double_q)
    elif algorithm == "sac":
        compute_next_values = _compute_next_values_sac
    else:
        compute_next_values = _compute_next_values_td3

    def compute_errors(batch: ReplaySamples) -> torch.Tensor:
        # `dones` of the buffer are terminations: `read_batch` takes time limits out, as SB3 does.
        target = batch.rewards + (1 - batch.dones) * model.gamma * compute_next_values(model, batch)
        if algorithm == "dqn":
            predictions = (model.q_net(batch.observations).gather(1, batch.actions.long()),)
        else:
            predictions = model.critic(batch.observations, batch.actions)
        return torch.stack([(values - target).flatten() for values in predictions])

    return compute_errors


def _compute_next_values_dqn(model: Any, batch: ReplaySamples, double_q: bool) -> torch.Tensor:
    values: torch.Tensor = model.q_net_target(batch.next_observations)
    if not double_q:
        return values.amax(1, keepdim=True)
    return values.gather(1, model.q_net(batch.next_observations).argmax(1, keepdim=True))


def _compute_next_values_td3(model: Any, batch: ReplaySamples) -> torch.Tensor:
    limit = model.target_noise_clip
    noise = (torch.randn_like(batch.actions) * model.target_policy_noise).clamp(-limit, limit)
    # SB3 stores and computes scaled actions (`_sample_action` in common/off_policy_algorithm.py).
    actions = (model.actor_target(batch.next_observations) + noise).clamp(-1, 1)
    values = model.critic_target(batch.next_observations, actions)
    return torch.cat(values, 1).amin(1, keepdim=True)


def _compute_next_values_sac(model: Any, batch: ReplaySamples) -> torch.Tensor:
    actions, density = model.actor.action_log_prob(batch.next_observations)
    # A fixed ent_coef has no optimizer and no logarithm (`_setup_model` in sac/sac.py).
    is_learned = model.ent_coef_optimizer is not None
    temperature = model.log_ent_coef.exp() if is_learned else model.ent_coef_tensor
    values = torch.cat(model.critic_target(batch.next_observations, actions), 1)
    best: torch.Tensor = values.amin(1, keepdim=True) - temperature * density.reshape(-1, 1)
    return best


def train(
    algorithm: str, native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Train to the end."""
    make_env, envs = record_envs(make_env)
    model = build_model(algorithm, native, context, make_env)
    callback = SafePointCallback(monitor)
    log_to_monitor(model, monitor)
    monitor.attach(
        lambda observations: predict_actions(model, observations),
        lambda: copy_weights(model),
        PolicyIO(
            lambda values: load_weights(get_parameters(model), values),
            lambda path: save_sb3_model(model, path),
            ".zip",
        ),
        make_checkpointable({"model": model}, external_objects=lambda: [monitor, callback, *envs]),
    )
    buffer = getattr(model, "replay_buffer", None)
    with contextlib.ExitStack() as stack:
        if isinstance(buffer, PrioritizedReplayBuffer):
            stack.enter_context(record_replay_cost(buffer.replayer, monitor))
        model.learn(total_timesteps=context.steps, callback=callback)


def build_model(
    algorithm: str, native: NativeConfig, context: RunContext, make_env: MakeEnv
) -> BaseAlgorithm:
    """Return the SB3 model that `native` describes."""
    model_class = get_model_class(algorithm)
    # SB3 itself wraps single environments like this; here for any number of them.
    envs = DummyVecEnv([lambda: SB3Monitor(make_env())] * context.n_envs)
    classes = {
        "Convolutions": sb3_networks.ConvolutionalExtractor,
        "ImageEncoder": sb3_networks.ImageEncoder,
        "DuelingPolicy": sb3_networks.DuelingPolicy,
    }
    arguments = resolve_arguments(native.settings, context.task.action_size, classes)
    # Both names are the same class except for the features extractor, which is ours for images.
    default_policy = "CnnPolicy" if context.task.image else "MlpPolicy"
    policy = arguments.pop("policy_class", None) or default_policy
    model = model_class(policy, envs, **insert_replay_buffer(arguments))
    accelerate_networks(context.acceleration, model.policy)
    buffer = getattr(model, "replay_buffer", None)
    if isinstance(buffer, PrioritizedReplayBuffer):
        double_q = any(row.field == "double_q" and row.value for row in native.alignment)
        buffer.set_error_function(make_error_function(algorithm, model, double_q))
    return model


def get_model_class(algorithm: str) -> type[BaseAlgorithm]:
    """Return SB3's class, or the one that a package names in `MODEL` of its `sb3_settings`.

    A package may bring an algorithm whose class follows SB3's, such as one of sb3-contrib's.
    """
    own_class = f"{stable_baselines3.__name__}:{algorithm.upper()}"
    package_settings = load_package_module(algorithm, "sb3_settings")
    module, _, name = getattr(package_settings, "MODEL", own_class).partition(":")
    found: type[BaseAlgorithm] = getattr(importlib.import_module(module), name)
    return found


def insert_replay_buffer(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the serialized replay strategy in `arguments` by the buffer class it describes."""
    described = arguments.get("replay_buffer_class")
    if described is None:
        return arguments
    settings = {"replay_settings": described["StrategicBuffer"]}
    return arguments | {
        "replay_buffer_class": PrioritizedReplayBuffer,
        "replay_buffer_kwargs": arguments["replay_buffer_kwargs"] | settings,
    }


def save_sb3_model(model: BaseAlgorithm, path: Path) -> None:
    """Write SB3's own file with the code of our own classes, but without our replay buffer."""
    own = (sb3_networks, torch_common_networks, algorithms_image_encoder)
    is_ours = isinstance(getattr(model, "replay_buffer", None), PrioritizedReplayBuffer)
    save_model(model, path, own, ("replay_buffer_class", "replay_buffer_kwargs") if is_ours else ())


def copy_weights(model: BaseAlgorithm) -> Weights:
    """Return copies of all parameters of the policy, its targets, and the temperature."""
    return weights_from_parameters(get_parameters(model))


def get_parameters(model: BaseAlgorithm) -> dict[str, torch.Tensor]:
    """Return the parameters of `copy_weights` as the tensors that the model computes with."""
    tensors = select_distinct(model.policy.state_dict())
    log_ent_coef = getattr(model, "log_ent_coef", None)
    if isinstance(log_ent_coef, torch.Tensor):
        tensors["log_ent_coef"] = log_ent_coef
    return tensors
