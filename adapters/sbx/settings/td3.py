"""TD3."""

from adapters.sb3_common.settings import action_noise, networks, rounds_of_all_copies
from adapters.sbx.settings.common import critic_steps, off_policy
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import TD3

own_defaults = rounds_of_all_copies


def settings(t: Translation, hp: TD3, context: Context) -> Native:
    """Arguments of `sbx.TD3`."""
    t.aligned("policy_learning_rate", "learning_rate")
    t.aligned("critic_learning_rate", "qf_learning_rate")
    action_noise(t, "gaussian", hp.exploration_noise)
    t.aligned("policy_delay", "policy_delay", note="of the policy; targets move at each step")
    t.aligned("target_policy_noise", "target_policy_noise")
    t.aligned("target_noise_clip", "target_noise_clip")
    networks(t)
    return off_policy(t, hp, context, target_updates=critic_steps(hp, context))
