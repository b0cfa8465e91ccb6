"""TD3."""

from adapters.sb3.settings.common import off_policy
from adapters.sb3_common.settings import action_noise, rounds_of_all_copies
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import TD3

own_defaults = rounds_of_all_copies


def settings(t: Translation, hp: TD3, context: Context) -> Native:
    """Arguments of `stable_baselines3.TD3`."""
    t.aligned("policy_learning_rate", "learning_rate")
    t.tied("critic_learning_rate", hp.policy_learning_rate, "one learning_rate for both")
    action_noise(t, "gaussian", hp.exploration_noise)
    t.aligned("policy_delay", "policy_delay")
    t.aligned("target_policy_noise", "target_policy_noise")
    t.aligned("target_noise_clip", "target_noise_clip")
    return off_policy(t, hp, context)
