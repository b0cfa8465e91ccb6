"""DDPG."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from adapters.cleanrl.settings.common import finish, off_policy, times
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import DDPG

SCRIPT = (
    "ddpg_continuous_action.py",
    "23fd0b93981096aaef39c971798f26040821f0d7dfd7d6a5ed2370aca9429386",
)
NETWORKS = ("actor", "qf1", "target_actor", "qf1_target")


def own_defaults(defaults: DDPG, context: Context) -> DDPG:
    """Policy and critic share one learning-rate."""
    return dataclasses.replace(defaults, critic_learning_rate=defaults.policy_learning_rate)


def settings(t: Translation, hp: DDPG, context: Context) -> Native:
    """Arguments of DDPG's script."""
    t.aligned("policy_learning_rate", "learning-rate")
    t.tied("critic_learning_rate", hp.policy_learning_rate, "one learning-rate for both")
    t.constant("policy_weight_decay", 0.0)
    t.constant("critic_weight_decay", 0.0)
    t.constant("exploration_noise_kind", "gaussian")
    t.aligned("exploration_noise", "exploration-noise", note="times half the action range")
    t.aligned("policy_delay", "policy-frequency")
    off_policy(t, hp, context)
    delayed = times(hp, context, hp.policy_delay)
    return finish(t, hp, context, policy_updates=delayed, target_updates=delayed)


def greedy(names: Mapping[str, Any], observations: Any, context: Context) -> Any:
    """The actor's own actions."""
    return names["actor"](observations).cpu().numpy()
