"""SAC."""

import dataclasses

from adapters.sb3_common.settings import networks, rounds_of_all_copies
from adapters.sbx.settings.common import off_policy
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import SAC


def own_defaults(defaults: SAC, context: Context) -> SAC:
    """The temperature learns at the policy's rate."""
    tied = dataclasses.replace(defaults, temperature_learning_rate=defaults.policy_learning_rate)
    return rounds_of_all_copies(tied, context)


def settings(t: Translation, hp: SAC, context: Context) -> Native:
    """Arguments of `sbx.SAC`."""
    t.aligned("policy_learning_rate", "learning_rate")
    t.aligned("critic_learning_rate", "qf_learning_rate")
    rate = hp.policy_learning_rate
    t.tied("temperature_learning_rate", rate, "the learning_rate of the policy")
    t.aligned("policy_delay", "policy_delay", note="of policy and temperature")
    t.constant("target_update_interval", 1)
    initial = "auto" if hp.initial_temperature == 1 else f"auto_{hp.initial_temperature}"
    t.aligned("initial_temperature", "ent_coef", initial)
    entropy = "auto" if hp.target_entropy is None else hp.target_entropy
    t.aligned("target_entropy", "target_entropy", entropy)
    networks(t)
    return off_policy(t, hp, context)
