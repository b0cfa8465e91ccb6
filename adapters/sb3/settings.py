"""Unified hyperparameters to the arguments of SB3's classes, a function per algorithm.

Arguments that are objects become `{class name: its arguments}`, so that settings can be written
to a file; `adapters.sb3_common.model.resolve_arguments` makes the objects.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from parallax.adapters.sb3_common import settings
from parallax.harness.contract.adapter import RunContext, scale_cycle_to_envs
from parallax.harness.contract.algorithms.base import OffPolicy
from parallax.harness.contract.algorithms.ddpg import DDPG
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.algorithms.ppo import PPO
from parallax.harness.contract.algorithms.sac import SAC
from parallax.harness.contract.algorithms.td3 import TD3
from parallax.harness.contract.translation import AlgorithmSettings, ConfigTranslator, NativeConfig


def set_run_options(translation: ConfigTranslator, context: RunContext) -> None:
    """Set the options that every run has: the seed and the options requested by the context."""
    translation.set_extra_options(seed=context.seed, device=context.device)
    if not context.replay.is_uniform:
        strategy = {**context.replay.to_dict(), "steps": context.steps, "seed": context.seed}
        translation.set_extra_options(replay_buffer_class={"StrategicBuffer": strategy})


def translate_off_policy(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, **counts: int
) -> NativeConfig:
    """Translate the options that all algorithms with a replay buffer share, and finish."""
    settings.translate_replay_fields(t, hp, context)
    t.set_option("hidden_sizes", "policy_kwargs.net_arch", list(t.value("hidden_sizes")))
    return settings.finish_off_policy(t, hp, context, **counts)


def translate_ppo(t: ConfigTranslator, hp: PPO, context: RunContext) -> NativeConfig:
    """Return the arguments of `stable_baselines3.PPO`."""
    settings.translate_rollout_fields(t, hp, context)
    t.set_option("value_clip_range", "clip_range_vf")
    # SB3 clips the prediction and has no maximum of both losses (`train` in ppo/ppo.py).
    t.convert_meaning("value_clip_range", "larger-value-loss")
    t.set_option("normalize_advantage", "normalize_advantage")
    t.set_option("ent_coef", "ent_coef")
    t.set_option("vf_coef", "vf_coef")
    settings.translate_max_grad_norm(t, hp)
    # SB3 ends the epochs at 1.5 times its target_kl (stable_baselines3/ppo/ppo.py).
    converts = hp.target_kl is not None and context.converts_meanings
    limit = hp.target_kl / 1.5 if converts else hp.target_kl  # type: ignore[operator]
    t.set_option("target_kl", "target_kl", limit, "SB3 stops at 1.5 times it" if converts else "")
    t.set_option("adam_eps", "policy_kwargs.optimizer_kwargs.eps")
    _translate_images(t, context, "ImageEncoder")
    if context.task.image:
        name = "policy_kwargs.features_extractor_kwargs.hidden_sizes"
        t.set_option("hidden_sizes", name, list(hp.hidden_sizes), "shared, after the convolutions")
    return settings.finish_on_policy(t, hp, context)


def translate_td3(t: ConfigTranslator, hp: TD3, context: RunContext) -> NativeConfig:
    """Return the arguments of `stable_baselines3.TD3`."""
    t.set_option("policy_learning_rate", "learning_rate")
    t.declare_tied("critic_learning_rate", hp.policy_learning_rate, "the policy's learning_rate")
    settings.translate_action_noise(t, "gaussian", hp.exploration_noise)
    t.set_option("policy_delay", "policy_delay")
    t.set_option("target_policy_noise", "target_policy_noise")
    t.set_option("target_noise_clip", "target_noise_clip")
    return translate_off_policy(t, hp, context)


def couple_defaults_sac(defaults: SAC, context: RunContext) -> SAC:
    """Return the defaults with one `learning_rate` for all three optimizers."""
    shared = defaults.policy_learning_rate
    tied = dataclasses.replace(
        defaults, critic_learning_rate=shared, temperature_learning_rate=shared
    )
    return scale_cycle_to_envs(tied, context)


def translate_sac(t: ConfigTranslator, hp: SAC, context: RunContext) -> NativeConfig:
    """Return the arguments of `stable_baselines3.SAC`."""
    t.set_option("policy_learning_rate", "learning_rate")
    for field in ("critic_learning_rate", "temperature_learning_rate"):
        t.declare_tied(field, hp.policy_learning_rate, "the policy's learning_rate")
    t.declare_constant("policy_delay", 1, "policy and temperature are updated at every step")
    t.set_option("target_update_interval", "target_update_interval", note="within an update cycle")
    if hp.gradient_steps % hp.target_update_interval:
        t.reject_value(
            "target_update_interval",
            f"a divisor of gradient_steps={hp.gradient_steps}: each update cycle counts from 0",
        )
    t.convert_meaning("target_update_interval", "targets-after-whole-interval", unless=1)
    settings.translate_temperature(t, hp)
    # The first step updates targets; see `target_update_interval` in patches.yaml.
    critic_steps = settings.count_critic_steps(hp, context)
    target_updates = math.ceil(critic_steps / hp.target_update_interval)
    return translate_off_policy(t, hp, context, target_updates=target_updates)


def couple_defaults_ddpg(defaults: DDPG, context: RunContext) -> DDPG:
    """Return the defaults with one `learning_rate` for policy and critic."""
    shared = defaults.policy_learning_rate
    tied = dataclasses.replace(defaults, critic_learning_rate=shared)
    return scale_cycle_to_envs(tied, context)


def translate_ddpg(t: ConfigTranslator, hp: DDPG, context: RunContext) -> NativeConfig:
    """Return the arguments of `stable_baselines3.DDPG`."""
    t.set_option("policy_learning_rate", "learning_rate")
    t.declare_tied("critic_learning_rate", hp.policy_learning_rate, "the policy's learning_rate")
    t.set_option("policy_weight_decay", "policy_kwargs.optimizer_kwargs.weight_decay")
    # TD3Policy (td3/policies.py) passes optimizer_kwargs to the optimizers of both networks.
    t.declare_tied("critic_weight_decay", hp.policy_weight_decay, "the policy's weight_decay")
    settings.translate_action_noise(t, hp.exploration_noise_kind, hp.exploration_noise)
    t.share_option("exploration_noise_kind", "action_noise")
    t.declare_constant("policy_delay", 1)
    return translate_off_policy(t, hp, context)


def translate_dqn(t: ConfigTranslator, hp: DQN, context: RunContext) -> NativeConfig:
    """Return the arguments of `stable_baselines3.DQN`."""
    settings.translate_dqn_fields(t, hp, context)
    settings.translate_max_grad_norm(t, hp)
    t.emulate_other_values(
        "dueling",
        False,
        "policy_class",
        allowed=context.patch_constants,
        native={"DuelingPolicy": []},
        note="separate heads of the last layer's size, in Parallax's policy class",
    )
    _translate_images(t, context, "Convolutions")
    return translate_off_policy(
        t, hp, context, target_updates=settings.count_dqn_target_updates(hp, context)
    )


def _translate_images(t: ConfigTranslator, context: RunContext, extractor: str) -> None:
    """Set this project's features extractor for images; SB3 divides images of bytes by 255."""
    note = "in Parallax's features extractor"
    t.set_conv_filters("policy_kwargs.features_extractor_kwargs.filters", context.task, note)
    if context.task.image:
        described: dict[str, Any] = {extractor: []}
        t.set_extra_options(**{"policy_kwargs.features_extractor_class": described})
        t.set_extra_options(**{"policy_kwargs.normalize_images": context.task.brightest > 1})


ALGORITHMS: Mapping[str, AlgorithmSettings] = {
    "ppo": AlgorithmSettings(translate_ppo, extra_action_spaces=frozenset({"discrete"})),
    "td3": AlgorithmSettings(translate_td3, scale_cycle_to_envs),
    "sac": AlgorithmSettings(translate_sac, couple_defaults_sac),
    "ddpg": AlgorithmSettings(translate_ddpg, couple_defaults_ddpg),
    "dqn": AlgorithmSettings(translate_dqn, scale_cycle_to_envs),
}
