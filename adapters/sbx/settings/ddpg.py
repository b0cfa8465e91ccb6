"""DDPG."""

from adapters.sb3_common.settings import action_noise, networks, rounds_of_all_copies
from adapters.sbx.settings.common import off_policy
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DDPG

own_defaults = rounds_of_all_copies


def settings(t: Translation, hp: DDPG, context: Context) -> Native:
    """Arguments of `sbx.DDPG`."""
    t.aligned("policy_learning_rate", "learning_rate")
    t.aligned("critic_learning_rate", "qf_learning_rate")
    for field in ("policy_weight_decay", "critic_weight_decay"):
        t.constant(field, 0.0, "optax.adam has none")
    action_noise(t, hp.exploration_noise_kind, hp.exploration_noise)
    t.part_of("exploration_noise_kind", "action_noise")
    t.constant("policy_delay", 1)
    networks(t)
    return off_policy(t, hp, context)
