"""Unified hyperparameters to the command-line arguments of CleanRL's scripts."""

import dataclasses
import math
from typing import Any

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import PPO, SAC, TD3, Cadence, Hyperparameters
from harness.contract.fields import SpecError


def translate(algorithm: str, hyperparameters: Hyperparameters, context: Context) -> Native:
    """Native settings of one run: argument names without dashes, and their values.

    Raises:
        SpecError: A value that the script cannot honour.
    """
    translation = Translation("cleanrl", hyperparameters)
    translation.extra(
        **{
            "env-id": context.task.env_id,
            "seed": context.seed,
            "total-timesteps": context.steps,
            "cuda": False,
        }
    )
    match hyperparameters:
        case PPO():
            return _ppo(translation, hyperparameters, context)
        case TD3():
            return _td3(translation, hyperparameters, context)
        case SAC():
            return _sac(translation, hyperparameters, context)


def script_arguments(native: Native) -> list[str]:
    """The settings as a command line; an argument whose value is None is left out."""
    pairs = [(f"--{name}", value) for name, value in native.settings.items() if value is not None]
    return [text for name, value in pairs for text in (name, str(value))]


def _ppo(t: Translation, hp: PPO, context: Context) -> Native:
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


def _td3(t: Translation, hp: TD3, context: Context) -> Native:
    t.aligned("policy_learning_rate", "learning-rate")
    t.tied("critic_learning_rate", hp.policy_learning_rate, "one learning-rate for both")
    t.aligned("exploration_noise", "exploration-noise", note="times half the action range")
    t.aligned("policy_delay", "policy-frequency")
    t.aligned("target_policy_noise", "policy-noise", note="times half the action range")
    t.aligned("target_noise_clip", "noise-clip", note="times half the action range")
    return _off_policy(t, hp, context)


def _sac(t: Translation, hp: SAC, context: Context) -> Native:
    t.aligned("policy_learning_rate", "policy-lr")
    t.aligned("critic_learning_rate", "q-lr")
    t.tied("temperature_learning_rate", hp.critic_learning_rate, "shares q-lr")
    t.aligned("policy_delay", "policy-frequency", note="made up for by as many steps at once")
    t.aligned("target_update_interval", "target-network-frequency")
    t.constant("initial_temperature", 1.0, "autotune starts at log_alpha = 0")
    t.constant("target_entropy", None, "minus the number of actions")
    return _off_policy(t, hp, context)


def _off_policy(t: Translation, hp: TD3 | SAC, context: Context) -> Native:
    t.aligned("batch_size", "batch-size")
    t.aligned("buffer_size", "buffer-size")
    t.aligned("learning_starts", "learning-starts", note="first update two steps later")
    t.aligned("tau", "tau")
    t.aligned("gamma", "gamma")
    if context.n_envs != 1:
        raise SpecError(
            f"n_envs={context.n_envs}: cleanrl's scripts of td3 and sac have one environment. "
            "Use n_envs=1, or ppo."
        )
    t.constant("env_steps_per_round", 1)
    t.constant("gradient_steps_per_round", 1)
    t.constant("adam_eps", 1e-8)
    t.constant("hidden_sizes", (256, 256))
    t.constant("bootstrap_truncation", True)
    return t.finish(context.steps, cadence=_cadence(hp, context.steps))


def _cadence(hp: TD3 | SAC, steps: int) -> Cadence:
    # The script's counter is one behind the transitions, and updates once it is above
    # learning-starts; what is delayed waits for a multiple of its frequency in that counter.
    def times(frequency: int) -> int:
        return (steps - 1) // frequency - hp.learning_starts // frequency

    policy = times(hp.policy_delay)
    if isinstance(hp, TD3):
        changes = {"policy_updates": policy, "target_updates": policy}
    else:
        targets = times(hp.target_update_interval)
        changes = {"policy_updates": policy * hp.policy_delay, "target_updates": targets}
    counts = hp.cadence(steps, hp.learning_starts + 2)
    return dataclasses.replace(counts, **changes)


def _norm(max_grad_norm: float | None) -> Any:
    return math.inf if max_grad_norm is None else max_grad_norm
