"""PPO."""

import math
from typing import Any

from adapters.sb3_common.settings import networks, optimizers, per_copy
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import PPO, Actions

OTHER_ACTIONS: frozenset[Actions] = frozenset({"discrete"})
"""Its class takes choices as well, by a policy that is categorical there."""


def settings(t: Translation, hp: PPO, context: Context) -> Native:
    """Arguments of `stable_baselines3.PPO`."""
    t.aligned(
        "learning_rate", "learning_rate", _schedule(hp.learning_rate, hp.learning_rate_schedule)
    )
    t.part_of("learning_rate_schedule", "learning_rate")
    steps_each = per_copy(t, "rollout_steps", hp.rollout_steps, context.n_envs)
    t.aligned("rollout_steps", "n_steps", steps_each, note="per copy of the environment")
    t.aligned("minibatch_size", "batch_size")
    t.aligned("epochs", "n_epochs")
    t.aligned("gamma", "gamma")
    t.aligned("gae_lambda", "gae_lambda")
    t.aligned("clip_range", "clip_range", _schedule(hp.clip_range, hp.clip_range_schedule))
    t.part_of("clip_range_schedule", "clip_range")
    t.aligned("value_clip_range", "clip_range_vf")
    t.aligned("normalize_advantage", "normalize_advantage")
    t.aligned("ent_coef", "ent_coef")
    t.aligned("vf_coef", "vf_coef")
    t.aligned("max_grad_norm", "max_grad_norm", _norm(hp.max_grad_norm), note="inf is off")
    t.aligned("target_kl", "target_kl")
    t.constant("bootstrap_truncation", True)
    for field in ("rollout_steps", "minibatch_size"):
        if hp.normalize_advantage and getattr(hp, field) < 2:
            t.refuse(field, "at least 2 wherever advantages are normalised")
    networks(t)
    optimizers(t)
    rollouts = math.ceil(context.steps / hp.rollout_steps)
    return t.finish(rollouts * hp.rollout_steps)


def _schedule(start: float, schedule: str) -> Any:
    return start if schedule == "constant" else {"LinearSchedule": [start, 0.0, 1.0]}


def _norm(max_grad_norm: float | None) -> float:
    return math.inf if max_grad_norm is None else max_grad_norm
