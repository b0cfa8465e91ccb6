"""DDPG."""

from adapters.tianshou.settings.common import (
    actor_critic,
    finish_off_policy,
    rounds_of_all_copies,
)
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DDPG

own_defaults = rounds_of_all_copies
NOISES = {"gaussian": "GaussianNoise", "ornstein-uhlenbeck": "OUNoise"}


def settings(t: Translation, hp: DDPG, context: Context) -> Native:
    """Arguments of `tianshou.algorithm.DDPG` and what it is put together with."""
    name = f"{NOISES[hp.exploration_noise_kind]}.sigma"
    t.aligned("exploration_noise", name, note="stored actions are not cut")
    t.part_of("exploration_noise_kind", name)
    t.aligned("policy_weight_decay", "AdamOptimizerFactory(policy).weight_decay")
    t.aligned("critic_weight_decay", "AdamOptimizerFactory(critic).weight_decay")
    t.constant("policy_delay", 1)
    actor_critic(t, hp, context, "DDPG")
    return finish_off_policy(t, hp, context)
