"""DDPG."""

import dataclasses

from adapters.torchrl.settings.common import action_units, half_range, off_policy, soft_targets
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DDPG

NOISES = {
    "gaussian": "AdditiveGaussianModule.std",
    "ornstein-uhlenbeck": "OrnsteinUhlenbeckProcessModule.sigma",
}


def own_defaults(defaults: DDPG, context: Context) -> DDPG:
    """Noise is in action units: on a wider action range the same is a smaller share of it."""
    half = half_range(context.task)
    if half is None:
        return defaults
    return dataclasses.replace(defaults, exploration_noise=defaults.exploration_noise / half)


def settings(t: Translation, hp: DDPG, context: Context) -> Native:
    """Arguments of the components of DDPG's recipe."""
    t.aligned("policy_learning_rate", "Adam(actor).lr")
    t.aligned("critic_learning_rate", "Adam(critic).lr")
    t.aligned("policy_weight_decay", "Adam(actor).weight_decay")
    t.aligned("critic_weight_decay", "Adam(critic).weight_decay")
    name = NOISES[hp.exploration_noise_kind]
    action_units(t, context, "exploration_noise", name)
    process = hp.exploration_noise_kind == "ornstein-uhlenbeck"
    note = "shrinks to a tenth over the first 1,000,000 steps" if process else ""
    t.part_of("exploration_noise_kind", name, note)
    t.constant("policy_delay", 1)
    soft_targets(t)
    return off_policy(t, hp, context)
