"""PPO."""

from adapters.torchrl.settings.common import whole_batches
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import PPO


def settings(t: Translation, hp: PPO, context: Context) -> Native:
    """Arguments of the components of PPO's recipe."""
    t.aligned("learning_rate", "Adam.lr")
    linear = hp.learning_rate_schedule == "linear"
    t.aligned("learning_rate_schedule", "script.anneal_lr", linear, note="at each minibatch")
    t.aligned("rollout_steps", "Collector.frames_per_batch")
    uneven = hp.rollout_steps % hp.minibatch_size
    note = "each epoch's last minibatch is smaller" if uneven else ""
    t.aligned("minibatch_size", "TensorDictReplayBuffer.batch_size", note=note)
    t.aligned("epochs", "script.ppo_epochs", note="advantages are computed anew in each")
    t.aligned("gamma", "GAE.gamma")
    t.aligned("gae_lambda", "GAE.lmbda")
    if hp.gamma * hp.gae_lambda < 1e-7:
        field = "gamma" if hp.gamma < hp.gae_lambda else "gae_lambda"
        t.refuse(field, "too small for its vectorised advantages: gamma gae_lambda is 1e-7 or more")
    t.aligned("clip_range", "ClipPPOLoss.clip_epsilon")
    linear = hp.clip_range_schedule == "linear"
    note = "at each minibatch, also with a constant learning rate" if linear else ""
    t.aligned("clip_range_schedule", "script.anneal_clip_epsilon", linear, note)
    note = "around the predictions at the start of an epoch" if hp.value_clip_range else ""
    t.aligned("value_clip_range", "ClipPPOLoss.clip_value", note=note)
    t.aligned("normalize_advantage", "ClipPPOLoss.normalize_advantage", note="per minibatch")
    t.aligned("ent_coef", "ClipPPOLoss.entropy_coeff")
    t.aligned("vf_coef", "ClipPPOLoss.critic_coeff", note="times the mean squared error")
    note = "torch's, over all parameters; upstream's script does not clip"
    t.emulated("max_grad_norm", "clip_grad_norm_.max_norm", note=note)
    t.constant("target_kl", None, "no early end of the epochs")
    t.aligned("adam_eps", "Adam.eps")
    t.aligned("hidden_sizes", "MLP.num_cells", list(hp.hidden_sizes))
    t.constant("bootstrap_truncation", True)
    # The script's schedules end with the last whole rollout; what is collected rounds up.
    t.extra(**{"script.total_frames": context.steps})
    return t.finish(whole_batches(t, "rollout_steps", hp.rollout_steps, context))
