"""SAC."""

from collections.abc import Mapping
from typing import Any

from adapters.cleanrl.settings.common import finish, off_policy, times
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import SAC

SCRIPT = (
    "sac_continuous_action.py",
    "02df7cfef19d728542403718484b75cfc833cafcc1be1dc34c4e8de112b32027",
)
NETWORKS = ("actor", "qf1", "qf2", "qf1_target", "qf2_target")


def settings(t: Translation, hp: SAC, context: Context) -> Native:
    """Arguments of SAC's script."""
    t.aligned("policy_learning_rate", "policy-lr")
    t.aligned("critic_learning_rate", "q-lr")
    t.tied("temperature_learning_rate", hp.critic_learning_rate, "shares q-lr")
    t.aligned("policy_delay", "policy-frequency", note="made up for by as many steps at once")
    t.aligned("target_update_interval", "target-network-frequency")
    t.constant("initial_temperature", 1.0, "autotune starts at log_alpha = 0")
    t.constant("target_entropy", None, "minus the number of actions")
    off_policy(t, hp, context)
    return finish(
        t,
        hp,
        context,
        policy_updates=times(hp, context, hp.policy_delay) * hp.policy_delay,
        target_updates=times(hp, context, hp.target_update_interval),
    )


def greedy(names: Mapping[str, Any], observations: Any, context: Context) -> Any:
    """The squashed mean; `get_action` would draw random numbers even for it."""
    actor = names["actor"]
    mean, _ = actor(observations)
    return (mean.tanh() * actor.action_scale + actor.action_bias).cpu().numpy()
