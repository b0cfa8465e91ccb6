"""Unified hyperparameters to the arguments of TorchRL's components.

Settings are named `Component.argument`, or `script.option` where upstream's own training
script, and not a component, carries out the option; our loops do so then.
"""

import dataclasses
import math

from envs.tasks import Task
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import PPO, SAC, TD3, Hyperparameters


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run.

    Raises:
        SpecError: A value that TorchRL cannot honour.
    """
    translation = Translation("torchrl", hyperparameters)
    translation.extra(seed=context.seed)
    match hyperparameters:
        case PPO():
            return _ppo(translation, hyperparameters, context)
        case TD3():
            return _td3(translation, hyperparameters, context)
        case SAC():
            return _sac(translation, hyperparameters, context)


def half_range(task: Task) -> float | None:
    """Half the action range in action units; None where dimensions differ in it."""
    bounds = zip(task.action_low, task.action_high, strict=True)
    halves = {(high - low) / 2 for low, high in bounds}
    return halves.pop() if len(halves) == 1 else None


def _ppo(t: Translation, hp: PPO, context: Context) -> Native:
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
    return t.finish(_whole_batches(t, "rollout_steps", hp.rollout_steps, context))


def _td3(t: Translation, hp: TD3, context: Context) -> Native:
    t.aligned("policy_learning_rate", "Adam(actor).lr")
    t.aligned("critic_learning_rate", "Adam(critic).lr")
    half = half_range(context.task)
    for field, name in (
        ("exploration_noise", "AdditiveGaussianModule.std"),
        ("target_policy_noise", "TD3Loss.policy_noise"),
        ("target_noise_clip", "TD3Loss.noise_clip"),
    ):
        native = getattr(hp, field) * (1.0 if half is None else half)
        t.aligned(field, name, native, note="in action units")
        if half is None:
            t.refuse(field, "one number in action units: all dimensions need the same range")
    t.aligned("policy_delay", "script.policy_update_delay")
    return _off_policy(t, hp, context)


def _sac(t: Translation, hp: SAC, context: Context) -> Native:
    t.aligned("policy_learning_rate", "Adam(actor).lr")
    t.aligned("critic_learning_rate", "Adam(critic).lr")
    t.aligned("temperature_learning_rate", "Adam(alpha).lr")
    t.constant("policy_delay", 1)
    t.constant("target_update_interval", 1)
    t.aligned("initial_temperature", "SACLoss.alpha_init")
    entropy = "auto" if hp.target_entropy is None else hp.target_entropy
    t.aligned("target_entropy", "SACLoss.target_entropy", entropy, note="of actions in own units")
    return _off_policy(t, hp, context)


def _off_policy(t: Translation, hp: TD3 | SAC, context: Context) -> Native:
    t.aligned("batch_size", "TensorDictReplayBuffer.batch_size")
    t.aligned("buffer_size", "LazyTensorStorage.max_size")
    frames = hp.env_steps_per_round
    starts = math.ceil(hp.learning_starts / frames) * frames
    note = f"first update after step {max(starts, frames)}"
    if starts != hp.learning_starts:
        note = f"up to a whole number of rounds of {frames}; {note}"
    t.aligned("learning_starts", "Collector.init_random_frames", starts, note)
    t.aligned("tau", "SoftUpdate.eps", 1 - hp.tau, note="weight of the old target, 1 - tau")
    t.aligned("gamma", "make_value_estimator.gamma")
    t.aligned("env_steps_per_round", "Collector.frames_per_batch")
    note = "upstream's script: frames_per_batch times utd_ratio"
    t.aligned("gradient_steps_per_round", "script.num_updates", note=note)
    t.aligned("adam_eps", "Adam.eps")
    t.aligned("hidden_sizes", "MLP.num_cells", list(hp.hidden_sizes))
    t.constant("bootstrap_truncation", True)
    total = _whole_batches(t, "env_steps_per_round", frames, context)
    cadence = dataclasses.replace(hp.cadence(total), random_steps=min(starts, total))
    return t.finish(total, cadence=cadence)


def _whole_batches(t: Translation, field: str, frames_per_batch: int, context: Context) -> int:
    if frames_per_batch % context.n_envs:
        t.refuse(field, f"collected over all copies: n_envs={context.n_envs} must divide it")
    total = math.ceil(context.steps / frames_per_batch) * frames_per_batch
    t.extra(**{"Collector.total_frames": total})
    return total
