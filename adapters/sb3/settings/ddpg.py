"""DDPG."""

import dataclasses

from adapters.sb3.settings.common import off_policy
from adapters.sb3_common.settings import action_noise, rounds_of_all_copies
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DDPG


def own_defaults(defaults: DDPG, context: Context) -> DDPG:
    """Policy and critic share one `learning_rate`."""
    shared = defaults.policy_learning_rate
    tied = dataclasses.replace(defaults, critic_learning_rate=shared)
    return rounds_of_all_copies(tied, context)


def settings(t: Translation, hp: DDPG, context: Context) -> Native:
    """Arguments of `stable_baselines3.DDPG`."""
    t.aligned("policy_learning_rate", "learning_rate")
    t.tied("critic_learning_rate", hp.policy_learning_rate, "one learning_rate for both")
    t.aligned("policy_weight_decay", "policy_kwargs.optimizer_kwargs.weight_decay")
    t.tied("critic_weight_decay", hp.policy_weight_decay, "one weight_decay for both")
    action_noise(t, hp.exploration_noise_kind, hp.exploration_noise)
    t.part_of("exploration_noise_kind", "action_noise")
    t.constant("policy_delay", 1)
    return off_policy(t, hp, context)
