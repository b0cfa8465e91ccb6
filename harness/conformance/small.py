"""Hyperparameters that train in a second, and other values to try."""

import dataclasses
from typing import Any

from envs.scripted import ENV_ID
from envs.tasks import load_task
from harness.adapter import Context, Native, load_adapter
from harness.fields import SpecError
from harness.recipes import load_recipe
from harness.spec import Hyperparameters

STEPS = 192

# Each hyperparameter must matter: a large step size makes ratios and values leave their clip
# ranges, a full buffer makes its size matter, three learning rates cannot be confused.
_SMALL: dict[str, Any] = {
    "rollout_steps": 64,
    "minibatch_size": 16,
    "learning_rate": 0.01,
    "epochs": 3,
    "value_clip_range": None,
    "hidden_sizes": (8, 8),
    "policy_learning_rate": 0.01,
    "critic_learning_rate": 0.005,
    "temperature_learning_rate": 0.03,
    "batch_size": 16,
    "buffer_size": 1000,
    "learning_starts": 64,
    "env_steps_per_round": 2,
    "gradient_steps_per_round": 2,
}

ALTERNATIVES: dict[str, tuple[Any, ...]] = {
    "learning_rate": (0.02,),
    "learning_rate_schedule": ("linear", "constant"),
    "rollout_steps": (96, 32),
    "minibatch_size": (32,),
    "epochs": (2,),
    "gamma": (0.9,),
    "gae_lambda": (0.5,),
    "clip_range": (0.05,),
    "clip_range_schedule": ("linear", "constant"),
    "value_clip_range": (0.05, 0.2, None),
    "normalize_advantage": (False, True),
    "ent_coef": (0.1,),
    "vf_coef": (1.0,),
    "max_grad_norm": (0.01,),
    "target_kl": (1e-6,),
    "adam_eps": (1e-3,),
    "hidden_sizes": ((12, 12),),
    "bootstrap_truncation": (False, True),
    "policy_learning_rate": (0.02,),
    "critic_learning_rate": (0.02,),
    "temperature_learning_rate": (0.02,),
    "batch_size": (24,),
    "buffer_size": (40,),
    "learning_starts": (96,),
    "tau": (0.5,),
    "env_steps_per_round": (4,),
    "gradient_steps_per_round": (4,),
    "exploration_noise": (0.5,),
    "policy_delay": (3,),
    "target_policy_noise": (0.9,),
    "target_noise_clip": (0.01,),
    "target_update_interval": (2,),
    "initial_temperature": (0.5,),
    "target_entropy": (-7.0,),
}
"""Other values to try per hyperparameter; the first that a framework accepts counts."""


def base_hyperparameters(framework: str, algorithm: str) -> Hyperparameters:
    """The framework's own recipe, made small where the framework lets it.

    Raises:
        SpecError: The framework refuses its own recipe, whatever is changed.
    """
    base = load_recipe(algorithm, framework)
    for field, value in _SMALL.items():
        base = with_value(framework, algorithm, base, field, value) or base
    translate(framework, algorithm, base)
    return base


def with_value(
    framework: str, algorithm: str, base: Hyperparameters, field: str, value: Any
) -> Hyperparameters | None:
    """`base` with another value of `field`; None where the framework refuses it.

    Learning rates that the framework ties to `field` go with it.
    """
    if field not in {known.name for known in dataclasses.fields(base)}:
        return None
    tied = _tied(framework, algorithm, base, field) if field.endswith("learning_rate") else []
    changed = dataclasses.replace(base, **dict.fromkeys([field, *tied], value))
    return changed if _accepted(framework, algorithm, changed) else None


def _tied(framework: str, algorithm: str, base: Hyperparameters, field: str) -> list[str]:
    if not _accepted(framework, algorithm, base):
        return []
    return [
        row.field
        for row in translate(framework, algorithm, base).alignment
        if row.kind == "constant"
        and row.field.endswith("learning_rate")
        and row.value == getattr(base, field)
    ]


def _accepted(framework: str, algorithm: str, hyperparameters: Hyperparameters) -> bool:
    try:
        translate(framework, algorithm, hyperparameters)
    except SpecError:
        return False
    return True


def translate(
    framework: str,
    algorithm: str,
    hyperparameters: Hyperparameters,
    steps: int = STEPS,
    seed: int = 0,
    env_id: str = ENV_ID,
    n_envs: int = 1,
) -> Native:
    """Native settings on a scripted task.

    Raises:
        SpecError: The framework refuses.
    """
    context = Context(load_task(env_id), steps, seed, n_envs)
    return load_adapter(framework).translate(algorithm, hyperparameters, context)
