"""SAC."""

import dataclasses

from adapters.sb3.settings.common import off_policy
from adapters.sb3_common.settings import rounds_of_all_copies
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import SAC


def own_defaults(defaults: SAC, context: Context) -> SAC:
    """The three optimisers share one `learning_rate`."""
    shared = defaults.policy_learning_rate
    tied = dataclasses.replace(
        defaults, critic_learning_rate=shared, temperature_learning_rate=shared
    )
    return rounds_of_all_copies(tied, context)


def settings(t: Translation, hp: SAC, context: Context) -> Native:
    """Arguments of `stable_baselines3.SAC`."""
    t.aligned("policy_learning_rate", "learning_rate")
    for field in ("critic_learning_rate", "temperature_learning_rate"):
        t.tied(field, hp.policy_learning_rate, "one learning_rate for all three")
    t.constant("policy_delay", 1)
    t.aligned("target_update_interval", "target_update_interval", note="counted in each round")
    if hp.gradient_steps_per_round % hp.target_update_interval:
        t.refuse(
            "target_update_interval",
            "counted anew in each round: it must divide gradient_steps_per_round="
            f"{hp.gradient_steps_per_round}",
        )
    initial = "auto" if hp.initial_temperature == 1 else f"auto_{hp.initial_temperature}"
    t.aligned("initial_temperature", "ent_coef", initial)
    entropy = "auto" if hp.target_entropy is None else hp.target_entropy
    t.aligned("target_entropy", "target_entropy", entropy)
    return off_policy(t, hp, context)
