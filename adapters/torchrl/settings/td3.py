"""TD3."""

import dataclasses

from adapters.torchrl.settings.common import action_units, half_range, off_policy, soft_targets
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import TD3

NOISES = {
    "exploration_noise": "AdditiveGaussianModule.std",
    "target_policy_noise": "TD3Loss.policy_noise",
    "target_noise_clip": "TD3Loss.noise_clip",
}


def own_defaults(defaults: TD3, context: Context) -> TD3:
    """Noises are in action units: on a wider action range the same is a smaller share of it."""
    half = half_range(context.task)
    if half is None:
        return defaults
    shares = {field: getattr(defaults, field) / half for field in NOISES}
    return dataclasses.replace(defaults, **shares)


def settings(t: Translation, hp: TD3, context: Context) -> Native:
    """Arguments of the components of TD3's recipe."""
    t.aligned("policy_learning_rate", "Adam(actor).lr")
    t.aligned("critic_learning_rate", "Adam(critic).lr")
    for field, name in NOISES.items():
        action_units(t, context, field, name)
    t.aligned("policy_delay", "script.policy_update_delay")
    soft_targets(t)
    return off_policy(t, hp, context)
