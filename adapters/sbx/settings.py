"""Unified hyperparameters to the arguments of sbx's classes, a function per algorithm.

Arguments that are objects become `{class name: its arguments}`, so that settings can be written
to a file; `adapters.sb3_common.model.resolve_arguments` makes the objects.
"""

import dataclasses
from collections.abc import Mapping

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
    translation.set_extra_options(seed=context.seed)


def translate_off_policy(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, **counts: int
) -> NativeConfig:
    """Translate the options that all algorithms with a replay buffer share, and finish.

    Network sizes are not among them.
    """
    settings.translate_replay_fields(t, hp, context)
    return settings.finish_off_policy(t, hp, context, **counts)


def translate_ppo(t: ConfigTranslator, hp: PPO, context: RunContext) -> NativeConfig:
    """Return the arguments of `sbx.PPO`."""
    settings.translate_rollout_fields(t, hp, context)
    t.declare_constant("value_clip_range", None, "sbx ignores clip_range_vf")
    t.set_option("normalize_advantage", "normalize_advantage")
    t.set_option("ent_coef", "ent_coef")
    t.set_option("vf_coef", "vf_coef")
    settings.translate_max_grad_norm(t, hp)
    t.convert_meaning("max_grad_norm", "joint-grad-clip")  # one limit for each network upstream
    t.convert_meaning("value_clip_range", "larger-value-loss")
    t.declare_constant("target_kl", None, "sbx's target_kl adapts the learning rate instead")
    t.set_option("adam_eps", "policy_kwargs.optimizer_kwargs.eps")
    _translate_images(t, hp, context)
    return settings.finish_on_policy(t, hp, context)


def _translate_images(t: ConfigTranslator, hp: PPO, context: RunContext) -> None:
    """Set this project's features extractor; policy and value network each have a copy."""
    if not context.task.image:
        t.set_conv_filters("", context.task)
        return
    described = {
        "filters": list(hp.conv_filters or ()),
        "inner_sizes": list(hp.hidden_sizes[:-1]),
        "brightest": context.task.brightest,
    }
    note = "in Parallax's features extractor"
    extractor = "policy_kwargs.features_extractor_class"
    t.set_option("conv_filters", extractor, {"ImageEncoder": described}, note)
    note = "shared: sbx synchronizes both copies after each step of either network"
    t.set_option(
        "hidden_sizes",
        "policy_kwargs.features_extractor_kwargs.features_dim",
        hp.hidden_sizes[-1],
        note,
    )


def translate_td3(t: ConfigTranslator, hp: TD3, context: RunContext) -> NativeConfig:
    """Return the arguments of `sbx.TD3`."""
    t.set_option("policy_learning_rate", "learning_rate")
    t.set_option("critic_learning_rate", "qf_learning_rate")
    settings.translate_action_noise(t, "gaussian", hp.exploration_noise)
    t.set_option("policy_delay", "policy_delay", note="of the policy, not of target networks")
    # `_train` in sbx/td3/td3.py updates targets with each critic step.
    t.convert_meaning("policy_delay", "delayed-target-update", unless=1)
    t.set_option("target_policy_noise", "target_policy_noise")
    t.set_option("target_noise_clip", "target_noise_clip")
    t.set_option("hidden_sizes", "policy_kwargs.net_arch", list(t.value("hidden_sizes")))
    return translate_off_policy(
        t, hp, context, target_updates=settings.count_critic_steps(hp, context)
    )


def couple_defaults_sac(defaults: SAC, context: RunContext) -> SAC:
    """Return the defaults with the temperature's learning rate equal to the policy's."""
    tied = dataclasses.replace(defaults, temperature_learning_rate=defaults.policy_learning_rate)
    return scale_cycle_to_envs(tied, context)


def translate_sac(t: ConfigTranslator, hp: SAC, context: RunContext) -> NativeConfig:
    """Return the arguments of `sbx.SAC`."""
    t.set_option("policy_learning_rate", "learning_rate")
    t.set_option("critic_learning_rate", "qf_learning_rate")
    rate = hp.policy_learning_rate
    t.declare_tied("temperature_learning_rate", rate, "the policy's learning_rate")
    t.set_option("policy_delay", "policy_delay", note="of policy and temperature")
    t.declare_constant("target_update_interval", 1)
    settings.translate_temperature(t, hp)
    t.set_option("hidden_sizes", "policy_kwargs.net_arch", list(t.value("hidden_sizes")))
    return translate_off_policy(t, hp, context)


def translate_ddpg(t: ConfigTranslator, hp: DDPG, context: RunContext) -> NativeConfig:
    """Return the arguments of `sbx.DDPG`."""
    t.set_option("policy_learning_rate", "learning_rate")
    t.set_option("critic_learning_rate", "qf_learning_rate")
    for field in ("policy_weight_decay", "critic_weight_decay"):
        t.declare_constant(field, 0.0, "optax.adam has no weight decay")
    settings.translate_action_noise(t, hp.exploration_noise_kind, hp.exploration_noise)
    t.share_option("exploration_noise_kind", "action_noise")
    t.declare_constant("policy_delay", 1)
    t.set_option("hidden_sizes", "policy_kwargs.net_arch", list(t.value("hidden_sizes")))
    return translate_off_policy(t, hp, context)


def translate_dqn(t: ConfigTranslator, hp: DQN, context: RunContext) -> NativeConfig:
    """Return the arguments of `sbx.DQN`."""
    t.reject_images(context.task)
    settings.translate_dqn_fields(t, hp, context)
    t.declare_constant("dueling", False)
    t.declare_constant("max_grad_norm", None, "gradients are not clipped")
    t.set_option(
        "hidden_sizes",
        "policy_kwargs.net_arch",
        list(hp.hidden_sizes),
        note="two layers of equal width: sbx reads only the first number",
    )
    # The heads of dueling networks replace the last layer.
    # QNetwork in sbx/dqn/policies.py has two layers of n_units = net_arch[0].
    if len(hp.hidden_sizes) != 2 or len(set(hp.hidden_sizes)) > 1 or hp.dueling:
        t.reject_value("hidden_sizes", "two layers of equal width, such as [64,64]")
    return translate_off_policy(
        t, hp, context, target_updates=settings.count_dqn_target_updates(hp, context)
    )


ALGORITHMS: Mapping[str, AlgorithmSettings] = {
    "ppo": AlgorithmSettings(translate_ppo, extra_action_spaces=frozenset({"discrete"})),
    "td3": AlgorithmSettings(translate_td3, scale_cycle_to_envs),
    "sac": AlgorithmSettings(translate_sac, couple_defaults_sac),
    "ddpg": AlgorithmSettings(translate_ddpg, scale_cycle_to_envs),
    "dqn": AlgorithmSettings(translate_dqn, scale_cycle_to_envs),
}
