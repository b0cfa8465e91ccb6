"""Unified hyperparameters to the arguments of Tianshou's classes.

Settings are named `Class.argument`. What no hyperparameter stands for has the value of
Tianshou's MuJoCo examples.
"""

import dataclasses
import math

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import PPO, SAC, TD3, Cadence, Hyperparameters


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run.

    Raises:
        SpecError: A value that Tianshou cannot honour.
    """
    translation = Translation("tianshou", hyperparameters)
    translation.extra(**{"seed": context.seed, "ReplayBuffer.random_seed": context.seed})
    match hyperparameters:
        case PPO():
            return _ppo(translation, hyperparameters, context)
        case TD3():
            return _td3(translation, hyperparameters, context)
        case SAC():
            return _sac(translation, hyperparameters, context)


def _ppo(t: Translation, hp: PPO, context: Context) -> Native:
    total = math.ceil(context.steps / hp.rollout_steps) * hp.rollout_steps
    t.aligned("learning_rate", "AdamOptimizerFactory.lr")
    linear = hp.learning_rate_schedule == "linear"
    factory = {"LRSchedulerFactoryLinear": [1, total, hp.rollout_steps]} if linear else None
    note = "lowered after each rollout" if linear else ""
    t.aligned("learning_rate_schedule", "with_lr_scheduler_factory", factory, note)
    _shared_by_copies(t, "rollout_steps", hp.rollout_steps, context)
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
    _networks(t, hp)
    return _finish(t, "OnPolicyTrainerParams", total, 0, hp.cadence(total))


def _td3(t: Translation, hp: TD3, context: Context) -> Native:
    t.aligned("exploration_noise", "GaussianNoise.sigma", note="stored actions are not cut")
    t.aligned("policy_delay", "TD3.update_actor_freq", note="counted from the first update on")
    t.aligned("target_policy_noise", "TD3.policy_noise", note="target actions are not cut")
    t.aligned("target_noise_clip", "TD3.noise_clip")
    if hp.target_noise_clip == 0 and hp.target_policy_noise:
        t.refuse("target_noise_clip", "no clipping at all: use target_policy_noise=0 for no noise")
    return _off_policy(t, hp, context, "TD3")


def _sac(t: Translation, hp: SAC, context: Context) -> Native:
    t.aligned("temperature_learning_rate", "AdamOptimizerFactory(alpha).lr")
    t.constant("policy_delay", 1)
    t.constant("target_update_interval", 1)
    log_alpha = math.log(hp.initial_temperature)
    t.aligned("initial_temperature", "AutoAlpha.log_alpha", log_alpha, note="its logarithm")
    entropy = -context.task.action_size if hp.target_entropy is None else hp.target_entropy
    note = "of actions scaled to +-1"
    t.aligned("target_entropy", "AutoAlpha.target_entropy", float(entropy), note)
    return _off_policy(t, hp, context, "SAC")


def _off_policy(t: Translation, hp: TD3 | SAC, context: Context, name: str) -> Native:
    t.aligned("policy_learning_rate", "AdamOptimizerFactory(policy).lr")
    t.aligned("critic_learning_rate", "AdamOptimizerFactory(critic).lr")
    t.aligned("batch_size", "OffPolicyTrainerParams.batch_size")
    note = "shared out among copies of the environment" if context.n_envs > 1 else ""
    t.aligned("buffer_size", "ReplayBuffer.size", note=note)
    frames = hp.env_steps_per_round
    warm_up = math.ceil(min(hp.learning_starts, context.steps) / context.n_envs) * context.n_envs
    note = f"first update after step {warm_up + frames}"
    t.aligned("learning_starts", "Collector.collect.n_step", warm_up, note)
    t.aligned("tau", f"{name}.tau")
    t.aligned("gamma", f"{name}.gamma")
    _shared_by_copies(t, "env_steps_per_round", frames, context)
    t.aligned("env_steps_per_round", "OffPolicyTrainerParams.collection_step_num_env_steps")
    per_step = "OffPolicyTrainerParams.update_step_num_gradient_steps_per_sample"
    t.aligned("gradient_steps_per_round", per_step, hp.gradient_steps_per_round / frames)
    _networks(t, hp)
    rounds = math.ceil(max(context.steps - warm_up, 0) / frames)
    total = warm_up + rounds * frames
    cadence = hp.cadence(total, first_update=warm_up + frames)
    late = dataclasses.replace(cadence, random_steps=warm_up)
    if isinstance(hp, TD3):  # the first update counts as number 0, and has the policy in it
        delayed = math.ceil(cadence.gradient_steps / hp.policy_delay)
        late = dataclasses.replace(late, policy_updates=delayed, target_updates=delayed)
    return _finish(t, "OffPolicyTrainerParams", rounds * frames, warm_up, late)


def _networks(t: Translation, hp: Hyperparameters) -> None:
    t.aligned("adam_eps", "AdamOptimizerFactory.eps")
    t.aligned("hidden_sizes", "Net.hidden_sizes", list(hp.hidden_sizes))
    t.constant("bootstrap_truncation", True)


def _shared_by_copies(t: Translation, field: str, transitions: int, context: Context) -> None:
    if transitions % context.n_envs:
        t.refuse(field, f"collected over all copies: n_envs={context.n_envs} must divide it")


def _finish(t: Translation, params: str, trained: int, warm_up: int, cadence: Cadence) -> Native:
    t.extra(**{f"{params}.max_epochs": 1, f"{params}.epoch_num_steps": trained})
    return t.finish(warm_up + trained, framework_steps=trained, cadence=cadence)
