"""SAC."""

import math

from adapters.tianshou.settings.common import (
    actor_critic,
    finish_off_policy,
    rounds_of_all_copies,
)
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import SAC

own_defaults = rounds_of_all_copies


def settings(t: Translation, hp: SAC, context: Context) -> Native:
    """Arguments of `tianshou.algorithm.SAC` and what it is put together with."""
    t.aligned("temperature_learning_rate", "AdamOptimizerFactory(alpha).lr")
    t.constant("policy_delay", 1)
    t.constant("target_update_interval", 1)
    log_alpha = math.log(hp.initial_temperature)
    t.aligned("initial_temperature", "AutoAlpha.log_alpha", log_alpha, note="its logarithm")
    entropy = -context.task.action_size if hp.target_entropy is None else hp.target_entropy
    note = "of actions scaled to +-1"
    t.aligned("target_entropy", "AutoAlpha.target_entropy", float(entropy), note)
    actor_critic(t, hp, context, "SAC")
    return finish_off_policy(t, hp, context)
