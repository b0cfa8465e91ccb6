"""PPO."""

from adapters.skrl.settings.common import networks, nothing_besides
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import PPO

CFG = "PPO_CFG"


def settings(t: Translation, hp: PPO, context: Context) -> Native:
    """Arguments of `skrl.agents.torch.ppo.PPO_CFG` and what its agent is put together with."""
    t.aligned("learning_rate", f"{CFG}.learning_rate")
    _schedule(t, hp, context)
    t.aligned("rollout_steps", f"{CFG}.rollouts")
    t.extra(**{"RandomMemory.memory_size": hp.rollout_steps, "RandomMemory.replacement": False})
    t.aligned("minibatch_size", f"{CFG}.mini_batches", hp.rollout_steps // hp.minibatch_size)
    if hp.rollout_steps % hp.minibatch_size:
        why = f"a number of equal minibatches: it must divide rollout_steps={hp.rollout_steps}"
        t.refuse("minibatch_size", why)
    t.aligned("epochs", f"{CFG}.learning_epochs")
    t.aligned("gamma", f"{CFG}.discount_factor")
    t.aligned("gae_lambda", f"{CFG}.gae_lambda")
    t.aligned("clip_range", f"{CFG}.ratio_clip")
    t.constant("clip_range_schedule", "constant")
    clip, note = hp.value_clip_range or 0, "the clipped prediction alone; 0 is off"
    t.aligned("value_clip_range", f"{CFG}.value_clip", clip, note)
    t.constant("normalize_advantage", True, "over the whole rollout")
    t.aligned("ent_coef", f"{CFG}.entropy_loss_scale")
    t.aligned("vf_coef", f"{CFG}.value_loss_scale", note="times the mean squared error")
    t.aligned("max_grad_norm", f"{CFG}.grad_norm_clip", hp.max_grad_norm or 0, "0 is off")
    note = "ends this epoch, and not those after it; 0 is off"
    t.aligned("target_kl", f"{CFG}.kl_threshold", hp.target_kl or 0, note)
    note = "time_limit_bootstrap; without it advantages go on into the next episode"
    t.constant("bootstrap_truncation", True, note)
    t.extra(**{f"{CFG}.time_limit_bootstrap": True})
    nothing_besides(t, CFG, "value_preprocessor")
    networks(t)
    return t.finish(context.steps)


def _schedule(t: Translation, hp: PPO, context: Context) -> None:
    epochs = max(context.steps // hp.rollout_steps, 1) * hp.epochs
    linear = hp.learning_rate_schedule == "linear"
    option = f"{CFG}.learning_rate_scheduler"
    note = "lowered after each epoch" if linear else ""
    t.aligned("learning_rate_schedule", option, "LinearLR" if linear else None, note)
    to_zero = {"start_factor": 1.0, "end_factor": 0.0, "total_iters": epochs}
    t.extra(**{f"{CFG}.learning_rate_scheduler_kwargs": to_zero if linear else {}})
