"""TD3."""

from collections.abc import Mapping
from typing import Any

from adapters.cleanrl.settings.common import finish, off_policy, times
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import TD3

SCRIPT = (
    "td3_continuous_action.py",
    "9526b31093901336e97859c89ef72aba53a911224a319d46db877cec8b8eee9b",
)
NETWORKS = ("actor", "qf1", "qf2", "target_actor", "qf1_target", "qf2_target")


def settings(t: Translation, hp: TD3, context: Context) -> Native:
    """Arguments of TD3's script."""
    t.aligned("policy_learning_rate", "learning-rate")
    t.tied("critic_learning_rate", hp.policy_learning_rate, "one learning-rate for both")
    t.aligned("exploration_noise", "exploration-noise", note="times half the action range")
    t.aligned("policy_delay", "policy-frequency")
    t.aligned("target_policy_noise", "policy-noise", note="times half the action range")
    t.aligned("target_noise_clip", "noise-clip", note="times half the action range")
    off_policy(t, hp, context)
    delayed = times(hp, context, hp.policy_delay)
    return finish(t, hp, context, policy_updates=delayed, target_updates=delayed)


def greedy(names: Mapping[str, Any], observations: Any, context: Context) -> Any:
    """The actor's own actions."""
    return names["actor"](observations).cpu().numpy()
