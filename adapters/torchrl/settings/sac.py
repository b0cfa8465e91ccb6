"""SAC."""

import dataclasses

from adapters.torchrl.settings.common import off_policy, soft_targets
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import SAC


def own_defaults(defaults: SAC, context: Context) -> SAC:
    """The script has one learning rate for its networks; the temperature's is a constant."""
    return dataclasses.replace(defaults, critic_learning_rate=defaults.policy_learning_rate)


def settings(t: Translation, hp: SAC, context: Context) -> Native:
    """Arguments of the components of SAC's recipe."""
    t.aligned("policy_learning_rate", "Adam(actor).lr")
    t.aligned("critic_learning_rate", "Adam(critic).lr")
    t.aligned("temperature_learning_rate", "Adam(alpha).lr")
    t.constant("policy_delay", 1)
    t.constant("target_update_interval", 1)
    t.aligned("initial_temperature", "SACLoss.alpha_init")
    entropy = "auto" if hp.target_entropy is None else hp.target_entropy
    t.aligned("target_entropy", "SACLoss.target_entropy", entropy, note="of actions in own units")
    soft_targets(t)
    return off_policy(t, hp, context)
