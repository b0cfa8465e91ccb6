"""Trains with sbx's public classes; nothing of sbx is replaced."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import sbx
from sbx.common.policies import BaseJaxPolicy
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import Monitor as SB3Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from parallax.adapters.jax_common.eager_execution import make_updates_visible
from parallax.adapters.jax_common.parameters import (
    JAX_CODECS,
    TYPES,
    configure_jax,
    replace_weights,
    weights_from_states,
)
from parallax.adapters.sb3_common.model import (
    SafePointCallback,
    log_to_monitor,
    predict_actions,
    resolve_arguments,
    save_model,
)
from parallax.adapters.sbx import networks
from parallax.adapters.torch_common.state import make_checkpointable, record_envs
from parallax.harness.contract.adapter import MakeEnv, Monitor, PolicyIO, RunContext, Weights
from parallax.harness.contract.algorithms import image_encoder
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.translation import NativeConfig

SBX_CLASSES = (sbx.PPO, sbx.TD3, sbx.SAC, sbx.DDPG, sbx.DQN)

_POLICY_STATES = {"policy": "actor_state", "value": "vf_state", "critic": "qf_state"}
"""Attributes of a model's policy with the train states of its networks."""
_MODEL_STATES = {"temperature": "ent_coef_state"}
"""The same of the model itself."""

LATER_ARGUMENTS: Mapping[str, Any] = {
    "target_entropy": "auto",  # SAC, 0.15.0
    "replay_buffer_kwargs": {"handle_timeout_termination": True},  # DQN, 0.22.0
}
"""Arguments that older releases lack, and the only values that those releases have."""


def train(
    algorithm: str, native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Train to the end."""
    configure_jax(context.device)
    make_env, envs = record_envs(make_env)
    model = build_model(algorithm, native, context, make_env)
    callback = SafePointCallback(monitor)
    log_to_monitor(model, monitor)
    monitor.attach(
        lambda observations: predict_actions(model, observations),
        lambda: copy_weights(model),
        PolicyIO(
            lambda values: load_weights(model, values),
            lambda path: save_model(model, path, (networks, image_encoder)),
            ".zip",
        ),
        make_checkpointable(
            {"model": model}, lambda: [monitor, callback, *envs], *JAX_CODECS, types=TYPES
        ),
    )
    with make_updates_visible(
        update_classes=[kind for kind in type(model).__mro__ if kind in SBX_CLASSES],
        query_classes=[type(model.policy), BaseJaxPolicy],
    ):
        model.learn(total_timesteps=context.steps, callback=callback)


def build_model(
    algorithm: str, native: NativeConfig, context: RunContext, make_env: MakeEnv
) -> BaseAlgorithm:
    """Return the sbx model that `native` describes."""
    model_class: Any = getattr(sbx, algorithm.upper())
    # SB3 itself wraps single environments like this; here for any number of them.
    envs = DummyVecEnv([lambda: SB3Monitor(make_env())] * context.n_envs)
    described = native.settings.get("policy_kwargs.features_extractor_class")
    classes = {}
    if described:
        if "share_features_extractor" not in inspect.signature(model_class._one_update).parameters:
            raise SpecError(
                f"env={context.task.env_id} shows images, and {model_class.__name__} of this "
                "release of sbx does not share layers between policy and value network, as all "
                "others do. Install a later one."
            )
        encoder = functools.partial(
            networks.ImageEncoder, name=networks.SHARED_NAME, **described["ImageEncoder"]
        )
        classes["ImageEncoder"] = encoder
    arguments = resolve_arguments(native.settings, context.task.action_size, classes)
    policy = "CnnPolicy" if described else "MlpPolicy"
    model: BaseAlgorithm = model_class(policy, envs, **drop_later_arguments(model_class, arguments))
    return model


def drop_later_arguments(model_class: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the installed release takes.

    Raises:
        SpecError: It lacks an argument, and its behaviour differs from the requested value.
    """
    known = inspect.signature(model_class).parameters
    for name in arguments.keys() - known.keys():
        if name not in LATER_ARGUMENTS or arguments[name] != LATER_ARGUMENTS[name]:
            raise SpecError(
                f"framework=sbx: {model_class.__name__} has no argument {name} in this release, "
                f"and {name}={arguments[name]} is not what it does. Install a later one."
            )
    return {name: value for name, value in arguments.items() if name in known}


def copy_weights(model: BaseAlgorithm) -> Weights:
    """Return copies of all parameters of the policy, critics, targets, and the temperature."""
    return weights_from_states(get_train_states(model))


def get_train_states(model: Any) -> dict[str, Any]:
    """Return the model's train states by what they train."""
    found = {}
    for owner, names in ((model.policy, _POLICY_STATES), (model, _MODEL_STATES)):
        for label, name in names.items():
            if hasattr(owner, name):
                found[label] = getattr(owner, name)
    return found


def load_weights(model: Any, values: Weights) -> None:
    """Overwrite the values of all parameters."""
    for label, state in replace_weights(get_train_states(model), values).items():
        owner = model.policy if label in _POLICY_STATES else model
        name = (_POLICY_STATES | _MODEL_STATES)[label]
        # JAX computes asynchronously: the arrays must be there before upstream's next step.
        setattr(owner, name, jax.block_until_ready(state))
