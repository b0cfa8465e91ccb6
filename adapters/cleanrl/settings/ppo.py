"""PPO."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import PPO
from harness.contract.fields import SpecError

SCRIPT = (
    "ppo_continuous_action.py",
    "2b946196c16231f54051d211e74f5ed807e2194d56bd9cf79db0a5b08fd792e3",
)
NETWORKS = ("agent",)


def settings(t: Translation, hp: PPO, context: Context) -> Native:
    """Arguments of PPO's script."""
    t.aligned("learning_rate", "learning-rate")
    t.aligned("learning_rate_schedule", "anneal-lr", hp.learning_rate_schedule == "linear")
    t.extra(**{"num-envs": context.n_envs})
    t.aligned("rollout_steps", "num-steps", hp.rollout_steps // context.n_envs, "times num-envs")
    if hp.rollout_steps % context.n_envs:
        t.refuse("rollout_steps", f"a multiple of n_envs={context.n_envs}")
    t.aligned("minibatch_size", "num-minibatches", hp.rollout_steps // hp.minibatch_size)
    if hp.rollout_steps % hp.minibatch_size:
        t.refuse(
            "minibatch_size",
            f"a count of minibatches: it must divide rollout_steps={hp.rollout_steps}",
        )
    t.aligned("epochs", "update-epochs")
    t.aligned("gamma", "gamma")
    t.aligned("gae_lambda", "gae-lambda")
    t.aligned("clip_range", "clip-coef")
    t.constant("clip_range_schedule", "constant")
    t.aligned("value_clip_range", "clip-vloss", hp.value_clip_range is not None)
    if hp.value_clip_range not in (None, hp.clip_range):
        t.refuse("value_clip_range", f"null or equal to clip_range={hp.clip_range}")
    t.aligned("normalize_advantage", "norm-adv")
    t.aligned("ent_coef", "ent-coef")
    t.aligned("vf_coef", "vf-coef", note="times a further 1/2 in the script's value loss")
    t.aligned("max_grad_norm", "max-grad-norm", _norm(hp.max_grad_norm), note="inf is off")
    t.aligned("target_kl", "target-kl")
    t.constant("adam_eps", 1e-5)
    t.constant("hidden_sizes", (64, 64))
    t.constant("bootstrap_truncation", False)
    updates = context.steps // hp.rollout_steps
    if updates == 0:
        raise SpecError(
            f"steps={context.steps} is less than one rollout, and cleanrl trains on whole rollouts "
            f"only: ask for at least rollout_steps={hp.rollout_steps}."
        )
    return t.finish(updates * hp.rollout_steps)


def greedy(names: Mapping[str, Any], observations: Any, context: Context) -> Any:
    """The mean, bounded as the script bounds actions."""
    low = np.array(context.task.action_low, dtype=np.float32)
    high = np.array(context.task.action_high, dtype=np.float32)
    return np.clip(names["agent"].actor_mean(observations).cpu().numpy(), low, high)


def _norm(max_grad_norm: float | None) -> Any:
    return math.inf if max_grad_norm is None else max_grad_norm
