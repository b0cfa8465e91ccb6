"""PPO."""

import math
from typing import Any

from adapters.sb3_common.settings import networks, per_copy
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import PPO


def settings(t: Translation, hp: PPO, context: Context) -> Native:
    """Arguments of `sbx.PPO`."""
    rate = _schedule(hp.learning_rate, hp.learning_rate_schedule)
    t.aligned("learning_rate", "learning_rate", rate)
    t.part_of("learning_rate_schedule", "learning_rate")
    steps_each = per_copy(t, "rollout_steps", hp.rollout_steps, context.n_envs)
    t.aligned("rollout_steps", "n_steps", steps_each, note="per copy of the environment")
    t.aligned("minibatch_size", "batch_size")
    t.aligned("epochs", "n_epochs")
    t.aligned("gamma", "gamma")
    t.aligned("gae_lambda", "gae_lambda")
    t.aligned("clip_range", "clip_range", _schedule(hp.clip_range, hp.clip_range_schedule))
    t.part_of("clip_range_schedule", "clip_range")
    t.constant("value_clip_range", None, "sbx takes clip_range_vf and does not use it")
    t.aligned("normalize_advantage", "normalize_advantage")
    t.aligned("ent_coef", "ent_coef")
    t.aligned("vf_coef", "vf_coef")
    norm = math.inf if hp.max_grad_norm is None else hp.max_grad_norm
    note = "inf is off; of policy and value network apart"
    t.aligned("max_grad_norm", "max_grad_norm", norm, note)
    t.constant("target_kl", None, "sbx's target_kl steers the learning rate instead")
    t.aligned("adam_eps", "policy_kwargs.optimizer_kwargs.eps")
    t.constant("bootstrap_truncation", True)
    for field in ("rollout_steps", "minibatch_size"):
        if hp.normalize_advantage and getattr(hp, field) < 2:
            t.refuse(field, "at least 2 wherever advantages are normalised")
    networks(t)
    rollouts = math.ceil(context.steps / hp.rollout_steps)
    return t.finish(rollouts * hp.rollout_steps)


def _schedule(start: float, schedule: str) -> Any:
    return start if schedule == "constant" else {"LinearSchedule": [start, 0.0, 1.0]}
