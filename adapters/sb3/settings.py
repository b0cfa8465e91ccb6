"""Unified hyperparameters to the arguments of SB3's classes, a module per algorithm.

Each has `settings(t, hp, context)`; `own_defaults(defaults, context)` where SB3 couples values.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from parallax.adapters.sb3_common.settings import (
    divide_among_envs,
    finish_off_policy,
    scale_cycle_to_envs,
    translate_action_noise,
    translate_adam_eps,
    translate_network_sizes,
    translate_replay_fields,
)
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms.base import OffPolicy
from parallax.harness.contract.algorithms.ddpg import DDPG
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.algorithms.ppo import PPO
from parallax.harness.contract.algorithms.sac import SAC
from parallax.harness.contract.algorithms.td3 import TD3
from parallax.harness.contract.translation import (
    AlgorithmSettings,
    ConfigTranslator,
    NativeConfig,
)


def set_run_options(translation: ConfigTranslator, context: RunContext) -> None:
    """Set the options that every run has: the seed, and what the context asks for."""
    translation.set_extra_options(seed=context.seed, device=context.device)
    if not context.replay.is_uniform:
        strategy = {**context.replay.to_dict(), "steps": context.steps, "seed": context.seed}
        translation.set_extra_options(replay_buffer_class={"StrategicBuffer": strategy})


def translate_off_policy(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, **counts: int
) -> NativeConfig:
    """What all algorithms with a replay buffer share; finishes the translation.

    Args:
        t: The translation.
        hp: Hyperparameters.
        context: The run.
        counts: Parts of the update_schedule that are otherwise in SB3.
    """
    translate_replay_fields(t, hp, context)
    translate_network_sizes(t)
    translate_adam_eps(t)
    return finish_off_policy(t, hp, context, **counts)


def translate_ppo(t: ConfigTranslator, hp: PPO, context: RunContext) -> NativeConfig:
    """Arguments of `stable_baselines3.PPO`."""
    t.set_option(
        "learning_rate",
        "learning_rate",
        _make_schedule(hp.learning_rate, hp.learning_rate_schedule),
    )
    t.share_option("learning_rate_schedule", "learning_rate")
    steps_each = divide_among_envs(t, "rollout_steps", hp.rollout_steps, context.n_envs)
    t.set_option("rollout_steps", "n_steps", steps_each, note="per copy of the environment")
    t.set_option("minibatch_size", "batch_size")
    t.set_option("epochs", "n_epochs")
    t.set_option("gamma", "gamma")
    t.set_option("gae_lambda", "gae_lambda")
    t.set_option("clip_range", "clip_range", _make_schedule(hp.clip_range, hp.clip_range_schedule))
    t.share_option("clip_range_schedule", "clip_range")
    t.set_option("value_clip_range", "clip_range_vf")
    t.set_option("normalize_advantage", "normalize_advantage")
    t.set_option("ent_coef", "ent_coef")
    t.set_option("vf_coef", "vf_coef")
    t.set_option(
        "max_grad_norm", "max_grad_norm", _convert_max_norm(hp.max_grad_norm), note="inf is off"
    )
    t.set_option("target_kl", "target_kl")
    t.declare_constant("bootstrap_truncation", True)
    for field in ("rollout_steps", "minibatch_size"):
        if hp.normalize_advantage and getattr(hp, field) < 2:
            t.reject_value(field, "at least 2 wherever advantages are normalised")
    translate_network_sizes(t)
    translate_adam_eps(t)
    rollouts = math.ceil(context.steps / hp.rollout_steps)
    return t.finish(rollouts * hp.rollout_steps)


def _make_schedule(start: float, schedule: str) -> Any:
    return start if schedule == "constant" else {"LinearSchedule": [start, 0.0, 1.0]}


def _convert_max_norm(max_grad_norm: float | None) -> float:
    return math.inf if max_grad_norm is None else max_grad_norm


couple_defaults_td3 = scale_cycle_to_envs


def translate_td3(t: ConfigTranslator, hp: TD3, context: RunContext) -> NativeConfig:
    """Arguments of `stable_baselines3.TD3`."""
    t.set_option("policy_learning_rate", "learning_rate")
    t.declare_tied("critic_learning_rate", hp.policy_learning_rate, "one learning_rate for both")
    translate_action_noise(t, "gaussian", hp.exploration_noise)
    t.set_option("policy_delay", "policy_delay")
    t.set_option("target_policy_noise", "target_policy_noise")
    t.set_option("target_noise_clip", "target_noise_clip")
    return translate_off_policy(t, hp, context)


def couple_defaults_sac(defaults: SAC, context: RunContext) -> SAC:
    """The three optimisers share one `learning_rate`."""
    shared = defaults.policy_learning_rate
    tied = dataclasses.replace(
        defaults, critic_learning_rate=shared, temperature_learning_rate=shared
    )
    return scale_cycle_to_envs(tied, context)


def translate_sac(t: ConfigTranslator, hp: SAC, context: RunContext) -> NativeConfig:
    """Arguments of `stable_baselines3.SAC`."""
    t.set_option("policy_learning_rate", "learning_rate")
    for field in ("critic_learning_rate", "temperature_learning_rate"):
        t.declare_tied(field, hp.policy_learning_rate, "one learning_rate for all three")
    t.declare_constant("policy_delay", 1)
    t.set_option("target_update_interval", "target_update_interval", note="counted in each round")
    if hp.gradient_steps % hp.target_update_interval:
        t.reject_value(
            "target_update_interval",
            f"counted anew in each round: it must divide gradient_steps={hp.gradient_steps}",
        )
    initial = "auto" if hp.initial_temperature == 1 else f"auto_{hp.initial_temperature}"
    t.set_option("initial_temperature", "ent_coef", initial)
    entropy = "auto" if hp.target_entropy is None else hp.target_entropy
    t.set_option("target_entropy", "target_entropy", entropy)
    return translate_off_policy(t, hp, context)


def couple_defaults_ddpg(defaults: DDPG, context: RunContext) -> DDPG:
    """Policy and critic share one `learning_rate`."""
    shared = defaults.policy_learning_rate
    tied = dataclasses.replace(defaults, critic_learning_rate=shared)
    return scale_cycle_to_envs(tied, context)


def translate_ddpg(t: ConfigTranslator, hp: DDPG, context: RunContext) -> NativeConfig:
    """Arguments of `stable_baselines3.DDPG`."""
    t.set_option("policy_learning_rate", "learning_rate")
    t.declare_tied("critic_learning_rate", hp.policy_learning_rate, "one learning_rate for both")
    t.set_option("policy_weight_decay", "policy_kwargs.optimizer_kwargs.weight_decay")
    t.declare_tied("critic_weight_decay", hp.policy_weight_decay, "one weight_decay for both")
    translate_action_noise(t, hp.exploration_noise_kind, hp.exploration_noise)
    t.share_option("exploration_noise_kind", "action_noise")
    t.declare_constant("policy_delay", 1)
    return translate_off_policy(t, hp, context)


couple_defaults_dqn = scale_cycle_to_envs


def translate_dqn(t: ConfigTranslator, hp: DQN, context: RunContext) -> NativeConfig:
    """Arguments of `stable_baselines3.DQN`."""
    t.set_option("learning_rate", "learning_rate")
    t.set_option("target_update_interval", "target_update_interval")
    if hp.target_update_interval % context.n_envs:
        t.reject_value(
            "target_update_interval",
            f"counted per copy of the environment: n_envs={context.n_envs} must divide it",
        )
    t.set_option("exploration_initial", "exploration_initial_eps")
    t.set_option("exploration_final", "exploration_final_eps")
    note = "as a share of the run's steps"
    share = hp.exploration_steps / context.steps
    t.set_option("exploration_steps", "exploration_fraction", share, note)
    t.declare_constant("double_q", False)
    t.declare_constant("dueling", False)
    t.declare_constant("huber_delta", 1.0)
    norm = math.inf if hp.max_grad_norm is None else hp.max_grad_norm
    t.set_option("max_grad_norm", "max_grad_norm", norm, note="inf is off")
    _translate_images(t, context)
    return translate_off_policy(t, hp, context, target_updates=_count_target_updates(hp, context))


def _translate_images(t: ConfigTranslator, context: RunContext) -> None:
    """A features extractor of ours for images; SB3 divides those of bytes by 255."""
    note = "in a features extractor of one's own"
    t.set_conv_filters("policy_kwargs.features_extractor_kwargs.filters", context.task, note)
    if context.task.image:
        extractor: dict[str, Any] = {"Convolutions": []}
        t.set_extra_options(**{"policy_kwargs.features_extractor_class": extractor})
        t.set_extra_options(**{"policy_kwargs.normalize_images": context.task.brightest > 1})


def _count_target_updates(hp: DQN, context: RunContext) -> int:
    """How often a target moves: at multiples of the interval, if there was an update since."""
    every, interval = hp.train_freq, hp.target_update_interval
    total = math.ceil(context.steps / every) * every
    first = (hp.learning_starts // every + 1) * every
    if hp.tau < 1:  # it never arrives
        return max(0, total // interval - first // interval)
    moves = {update // interval + 1 for update in range(first, total + 1, every)}
    return sum(move * interval <= total for move in moves)


ALGORITHMS: Mapping[str, AlgorithmSettings] = {
    "ppo": AlgorithmSettings(translate_ppo, extra_action_spaces=frozenset({"discrete"})),
    "td3": AlgorithmSettings(translate_td3, couple_defaults_td3),
    "sac": AlgorithmSettings(translate_sac, couple_defaults_sac),
    "ddpg": AlgorithmSettings(translate_ddpg, couple_defaults_ddpg),
    "dqn": AlgorithmSettings(translate_dqn, couple_defaults_dqn),
}
