"""Unified hyperparameters to the arguments of SB3's classes.

Arguments that are objects in SB3 stand as `{class name: its arguments}`, so that settings
can be written down; `adapters.sb3.train` makes the objects.
"""

import math
from typing import Any

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import PPO, SAC, TD3, Hyperparameters


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run.

    Raises:
        SpecError: A value that SB3 cannot honour.
    """
    translation = Translation("sb3", hyperparameters)
    translation.extra(seed=context.seed, device="cpu")
    match hyperparameters:
        case PPO():
            return _ppo(translation, hyperparameters, context)
        case TD3():
            return _td3(translation, hyperparameters, context)
        case SAC():
            return _sac(translation, hyperparameters, context)


def _ppo(t: Translation, hp: PPO, context: Context) -> Native:
    t.aligned(
        "learning_rate", "learning_rate", _schedule(hp.learning_rate, hp.learning_rate_schedule)
    )
    t.part_of("learning_rate_schedule", "learning_rate")
    steps_each = _per_copy(t, "rollout_steps", hp.rollout_steps, context.n_envs)
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
    _networks(t, hp)
    rollouts = math.ceil(context.steps / hp.rollout_steps)
    return t.finish(rollouts * hp.rollout_steps)


def _td3(t: Translation, hp: TD3, context: Context) -> Native:
    t.aligned("policy_learning_rate", "learning_rate")
    t.tied("critic_learning_rate", hp.policy_learning_rate, "one learning_rate for both")
    noise = {"NormalActionNoise": hp.exploration_noise} if hp.exploration_noise else None
    t.aligned("exploration_noise", "action_noise", noise)
    t.aligned("policy_delay", "policy_delay")
    t.aligned("target_policy_noise", "target_policy_noise")
    t.aligned("target_noise_clip", "target_noise_clip")
    return _off_policy(t, hp, context)


def _sac(t: Translation, hp: SAC, context: Context) -> Native:
    t.aligned("policy_learning_rate", "learning_rate")
    for field in ("critic_learning_rate", "temperature_learning_rate"):
        t.tied(field, hp.policy_learning_rate, "one learning_rate for all three")
    t.constant("policy_delay", 1)
    t.aligned("target_update_interval", "target_update_interval", note="counted in each round")
    if hp.gradient_steps_per_round % hp.target_update_interval:
        t.refuse(
            "target_update_interval",
            "counted anew in each round: it must divide gradient_steps_per_round="
            f"{hp.gradient_steps_per_round}",
        )
    initial = "auto" if hp.initial_temperature == 1 else f"auto_{hp.initial_temperature}"
    t.aligned("initial_temperature", "ent_coef", initial)
    entropy = "auto" if hp.target_entropy is None else hp.target_entropy
    t.aligned("target_entropy", "target_entropy", entropy)
    return _off_policy(t, hp, context)


def _off_policy(t: Translation, hp: TD3 | SAC, context: Context) -> Native:
    t.aligned("batch_size", "batch_size")
    t.aligned("buffer_size", "buffer_size")
    every = hp.env_steps_per_round
    first_update = (hp.learning_starts // every + 1) * every
    note = f"first update after step {first_update}"
    t.aligned("learning_starts", "learning_starts", note=note)
    t.aligned("tau", "tau")
    t.aligned("gamma", "gamma")
    steps_each = _per_copy(t, "env_steps_per_round", hp.env_steps_per_round, context.n_envs)
    t.aligned("env_steps_per_round", "train_freq", steps_each, note="per copy of the environment")
    t.aligned("gradient_steps_per_round", "gradient_steps")
    t.aligned(
        "bootstrap_truncation",
        "replay_buffer_kwargs.handle_timeout_termination",
    )
    _networks(t, hp)
    total = math.ceil(context.steps / every) * every
    return t.finish(total, cadence=hp.cadence(total, first_update))


def _networks(t: Translation, hp: Hyperparameters) -> None:
    t.aligned("hidden_sizes", "policy_kwargs.net_arch", list(hp.hidden_sizes))
    t.aligned("adam_eps", "policy_kwargs.optimizer_kwargs.eps")


def _per_copy(t: Translation, field: str, transitions: int, n_envs: int) -> int:
    if transitions % n_envs:
        t.refuse(field, f"counted per copy of the environment: n_envs={n_envs} must divide it")
    return transitions // n_envs


def _schedule(start: float, schedule: str) -> Any:
    return start if schedule == "constant" else {"LinearSchedule": [start, 0.0, 1.0]}


def _norm(max_grad_norm: float | None) -> float:
    return math.inf if max_grad_norm is None else max_grad_norm
