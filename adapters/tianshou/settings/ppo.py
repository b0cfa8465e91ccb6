"""PPO."""

import math

from adapters.tianshou.settings.common import finish, networks, shared_by_copies
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import PPO


def settings(t: Translation, hp: PPO, context: Context) -> Native:
    """Arguments of `tianshou.algorithm.PPO` and what it is put together with."""
    total = math.ceil(context.steps / hp.rollout_steps) * hp.rollout_steps
    t.aligned("learning_rate", "AdamOptimizerFactory.lr")
    linear = hp.learning_rate_schedule == "linear"
    factory = {"LRSchedulerFactoryLinear": [1, total, hp.rollout_steps]} if linear else None
    note = "lowered after each rollout" if linear else ""
    t.aligned("learning_rate_schedule", "with_lr_scheduler_factory", factory, note)
    shared_by_copies(t, "rollout_steps", hp.rollout_steps, context)
    t.aligned("rollout_steps", "OnPolicyTrainerParams.collection_step_num_env_steps")
    t.aligned("minibatch_size", "OnPolicyTrainerParams.batch_size")
    if hp.rollout_steps % hp.minibatch_size:
        reason = "the last minibatch takes the remainder too, so it must divide"
        t.refuse("minibatch_size", f"a size that varies: {reason} rollout_steps={hp.rollout_steps}")
    note = "advantages are computed anew in each"
    t.aligned("epochs", "OnPolicyTrainerParams.update_step_num_repetitions", note=note)
    t.aligned("gamma", "PPO.gamma")
    t.aligned("gae_lambda", "PPO.gae_lambda")
    t.aligned("clip_range", "PPO.eps_clip")
    t.constant("clip_range_schedule", "constant")
    clips = hp.value_clip_range is not None
    note = "around the predictions at the start of an epoch" if clips else ""
    t.aligned("value_clip_range", "PPO.value_clip", clips, note)
    if hp.value_clip_range not in (None, hp.clip_range):
        t.refuse("value_clip_range", f"null or equal to clip_range={hp.clip_range}")
    t.aligned("normalize_advantage", "PPO.advantage_normalization", note="per minibatch")
    t.aligned("ent_coef", "PPO.ent_coef")
    t.aligned("vf_coef", "PPO.vf_coef", note="times the mean squared error")
    t.aligned("max_grad_norm", "PPO.max_grad_norm")
    t.constant("target_kl", None, "no early end of the epochs")
    t.extra(**{"PPO.recompute_advantage": True, "ReplayBuffer.size": hp.rollout_steps})
    networks(t)
    return finish(t, "OnPolicyTrainerParams", total, 0, hp.cadence(total))
