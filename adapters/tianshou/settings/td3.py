"""TD3."""

import math

from adapters.tianshou.settings.common import (
    actor_critic,
    finish_off_policy,
    late_cadence,
    rounds_of_all_copies,
)
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import TD3

own_defaults = rounds_of_all_copies


def settings(t: Translation, hp: TD3, context: Context) -> Native:
    """Arguments of `tianshou.algorithm.TD3` and what it is put together with."""
    t.aligned("exploration_noise", "GaussianNoise.sigma", note="stored actions are not cut")
    t.aligned("policy_delay", "TD3.update_actor_freq", note="counted from the first update on")
    t.aligned("target_policy_noise", "TD3.policy_noise", note="target actions are not cut")
    t.aligned("target_noise_clip", "TD3.noise_clip")
    if hp.target_noise_clip == 0 and hp.target_policy_noise:
        t.refuse("target_noise_clip", "no clipping at all: use target_policy_noise=0 for no noise")
    actor_critic(t, hp, context, "TD3")
    # The first update counts as number 0, and has the policy in it.
    delayed = math.ceil(late_cadence(hp, context).gradient_steps / hp.policy_delay)
    return finish_off_policy(t, hp, context, policy_updates=delayed, target_updates=delayed)
