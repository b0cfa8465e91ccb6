"""Unified hyperparameters to the arguments of Tianshou's classes, a function per algorithm.

Settings are named `Class.argument`. Options without a hyperparameter have the values of Tianshou's
examples. `adapters.tianshou.algorithms` builds what the settings describe.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms.base import OffPolicy, UpdateSchedule
from parallax.harness.contract.algorithms.ddpg import DDPG
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.algorithms.ppo import PPO
from parallax.harness.contract.algorithms.sac import SAC
from parallax.harness.contract.algorithms.td3 import TD3
from parallax.harness.contract.translation import AlgorithmSettings, ConfigTranslator, NativeConfig


def set_run_options(translation: ConfigTranslator, context: RunContext) -> None:
    """Set the options that every run has: the seed and the options requested by the context."""
    translation.set_extra_options(
        **{"seed": context.seed, "ReplayBuffer.random_seed": context.seed}
    )
    if not context.replay.is_uniform:
        translation.set_extra_options(PrioritizedReplayBuffer=context.replay.to_dict())


Defaults = TypeVar("Defaults", bound=OffPolicy)


def translate_off_policy_fields(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, name: str
) -> None:
    """Translate the options that off-policy algorithms share; `name` is Tianshou's class."""
    t.set_option("batch_size", "OffPolicyTrainerParams.batch_size")
    note = "divided among environments" if context.n_envs > 1 else ""
    t.set_option("buffer_size", "ReplayBuffer.size", note=note)
    frames = hp.train_freq
    warm_up, _ = count_steps(hp, context)
    note = f"first update after step {warm_up + frames}"
    t.set_option("learning_starts", "Collector.collect.n_step", warm_up, note)
    for field in ("buffer_size", "learning_starts"):
        t.declare_rounded(field, math.ceil(t.value(field) / context.n_envs) * context.n_envs)
    t.set_option("gamma", f"{name}.gamma")
    require_divisible_by_envs(t, "train_freq", frames, context)
    t.set_option("train_freq", "OffPolicyTrainerParams.collection_step_num_env_steps")
    per_step = "OffPolicyTrainerParams.update_step_num_gradient_steps_per_sample"
    # The trainer multiplies by the steps that it has collected, and rounds.
    t.set_option("gradient_steps", per_step, hp.gradient_steps / frames)
    translate_networks(t)


def translate_actor_critic_fields(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, name: str
) -> None:
    """Translate the options that actor-critics share, whose targets are updated by tau."""
    t.set_option("policy_learning_rate", "AdamOptimizerFactory(policy).lr")
    t.set_option("critic_learning_rate", "AdamOptimizerFactory(critic).lr")
    t.set_option("tau", f"{name}.tau")
    translate_off_policy_fields(t, hp, context, name)


def finish_off_policy(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, **counts: int
) -> NativeConfig:
    """Return the native settings, with the counts in which Tianshou deviates."""
    _, total = count_steps(hp, context)
    update_schedule = dataclasses.replace(make_update_schedule(hp, context), **counts)
    trained = total - update_schedule.random_steps
    return finish_translation(
        t, "OffPolicyTrainerParams", trained, update_schedule.random_steps, update_schedule
    )


def make_update_schedule(hp: OffPolicy, context: RunContext) -> UpdateSchedule:
    """Return the update schedule: the first update comes one cycle after the warm-up."""
    warm_up, total = count_steps(hp, context)
    update_schedule = hp.compute_update_schedule(total, first_update=warm_up + hp.train_freq)
    return dataclasses.replace(update_schedule, random_steps=warm_up)


def count_steps(hp: OffPolicy, context: RunContext) -> tuple[int, int]:
    """Return the steps of the warm-up and in total, rounded to whole update cycles."""
    warm_up = math.ceil(min(hp.learning_starts, context.steps) / context.n_envs) * context.n_envs
    rounds = math.ceil(max(context.steps - warm_up, 0) / hp.train_freq)
    return warm_up, warm_up + rounds * hp.train_freq


def translate_networks(t: ConfigTranslator) -> None:
    """Translate the hidden sizes of networks and Adam's epsilon."""
    t.set_option("adam_eps", "AdamOptimizerFactory.eps")
    t.set_option("hidden_sizes", "Net.hidden_sizes", list(t.value("hidden_sizes")))
    t.declare_constant("bootstrap_truncation", True)


def require_divisible_by_envs(
    t: ConfigTranslator, field: str, transitions: int, context: RunContext
) -> None:
    """Raise an error for values that are not divisible by the number of environments."""
    if transitions % context.n_envs:
        t.reject_value(field, f"a multiple of n_envs={context.n_envs}: environments step together")


def finish_translation(
    t: ConfigTranslator, params: str, trained: int, warm_up: int, update_schedule: UpdateSchedule
) -> NativeConfig:
    """Return the native settings; the whole run is one epoch."""
    t.set_extra_options(**{f"{params}.max_epochs": 1, f"{params}.epoch_num_steps": trained})
    return t.finish(warm_up + trained, framework_steps=trained, update_schedule=update_schedule)


def scale_cycle_and_updates_to_envs(defaults: Defaults, context: RunContext) -> Defaults:
    """Scale an update cycle to one step of each environment, with one update per transition."""
    changes: dict[str, Any] = {
        "train_freq": defaults.train_freq * context.n_envs,
        "gradient_steps": defaults.gradient_steps * context.n_envs,
    }
    return dataclasses.replace(defaults, **changes)


def translate_ppo(t: ConfigTranslator, hp: PPO, context: RunContext) -> NativeConfig:
    """Return the arguments of `tianshou.algorithm.PPO` and its components."""
    total = math.ceil(context.steps / hp.rollout_steps) * hp.rollout_steps
    decay_steps = total
    if context.converts_meanings:  # the schema's schedules reach 0 after the last whole rollout
        decay_steps = context.steps // hp.rollout_steps * hp.rollout_steps
    t.set_option("learning_rate", "AdamOptimizerFactory.lr")
    linear = hp.learning_rate_schedule == "linear"
    factory = {"LRSchedulerFactoryLinear": [1, decay_steps, hp.rollout_steps]} if linear else None
    note = "decays after each rollout" if linear else ""
    t.set_option("learning_rate_schedule", "with_lr_scheduler_factory", factory, note)
    require_divisible_by_envs(t, "rollout_steps", hp.rollout_steps, context)
    t.set_option("rollout_steps", "OnPolicyTrainerParams.collection_step_num_env_steps")
    t.set_option("minibatch_size", "OnPolicyTrainerParams.batch_size")
    if hp.rollout_steps % hp.minibatch_size:
        reason = f"a divisor of rollout_steps={hp.rollout_steps}"
        t.reject_value(
            "minibatch_size", f"{reason}: else the last minibatch has the remainder, too"
        )
    note = "advantages are recomputed in each epoch"
    t.set_option("epochs", "OnPolicyTrainerParams.update_step_num_repetitions", note=note)
    t.set_option("gamma", "PPO.gamma")
    t.set_option("gae_lambda", "PPO.gae_lambda")
    t.set_option("clip_range", "PPO.eps_clip")
    t.emulate_other_values(
        "clip_range_schedule",
        "constant",
        "training_fn.clip_range_steps",
        allowed=context.patch_constants,
        native=decay_steps,
        note="through training_fn, decays after each rollout",
    )
    clips = hp.value_clip_range is not None
    note = "around the predictions at the start of each epoch" if clips else ""
    t.set_option("value_clip_range", "PPO.value_clip", clips, note)
    is_clip_range_linear = hp.clip_range_schedule == "linear"
    if clips and (is_clip_range_linear or hp.value_clip_range != hp.clip_range):
        reason = f"the clip range of the ratio: null or equal to clip_range={hp.clip_range}"
        t.reject_value("value_clip_range", f"{reason}, which is constant")
    t.set_option("normalize_advantage", "PPO.advantage_normalization", note="per minibatch")
    t.set_option("ent_coef", "PPO.ent_coef")
    t.set_option("vf_coef", "PPO.vf_coef", note="times the mean squared error")
    t.set_option("max_grad_norm", "PPO.max_grad_norm")
    t.declare_constant("target_kl", None, "no early stopping")
    t.set_extra_options(**{"PPO.recompute_advantage": True, "ReplayBuffer.size": hp.rollout_steps})
    t.set_conv_filters("Convolutions.filters", context.task, "in Parallax's network, shared")
    translate_networks(t)
    return finish_translation(
        t, "OnPolicyTrainerParams", total, 0, hp.compute_update_schedule(total)
    )


def translate_td3(t: ConfigTranslator, hp: TD3, context: RunContext) -> NativeConfig:
    """Return the arguments of `tianshou.algorithm.TD3` and its components."""
    t.set_option("exploration_noise", "GaussianNoise.sigma", note="stored actions are not clipped")
    t.set_option("policy_delay", "TD3.update_actor_freq", note="counted from the first update")
    t.convert_meaning("policy_delay", "delay-from-the-second-update", unless=1)
    # Upstream does not clip if noise_clip is 0.
    noise = hp.target_policy_noise if hp.target_noise_clip else 0.0
    note = "target actions are not clipped"
    t.set_option("target_policy_noise", "TD3.policy_noise", noise, note)
    t.set_option("target_noise_clip", "TD3.noise_clip")
    translate_actor_critic_fields(t, hp, context, "TD3")
    # The first update has number 0 and includes the policy: `_cnt % update_actor_freq == 0` in
    # tianshou/algorithm/modelfree/td3.py.
    delayed = math.ceil(make_update_schedule(hp, context).total_gradient_steps / hp.policy_delay)
    return finish_off_policy(t, hp, context, policy_updates=delayed, target_updates=delayed)


def translate_sac(t: ConfigTranslator, hp: SAC, context: RunContext) -> NativeConfig:
    """Return the arguments of `tianshou.algorithm.SAC` and its components."""
    t.set_option("temperature_learning_rate", "AdamOptimizerFactory(alpha).lr")
    t.declare_constant("policy_delay", 1, "policy and temperature are updated at every step")
    t.declare_constant("target_update_interval", 1)
    log_alpha = math.log(hp.initial_temperature)
    t.set_option("initial_temperature", "AutoAlpha.log_alpha", log_alpha, note="as its logarithm")
    entropy = -context.task.action_size if hp.target_entropy is None else hp.target_entropy
    note = "for actions scaled to the range from -1 to 1"
    t.set_option("target_entropy", "AutoAlpha.target_entropy", float(entropy), note)
    translate_actor_critic_fields(t, hp, context, "SAC")
    return finish_off_policy(t, hp, context)


NOISE_CLASSES = {"gaussian": "GaussianNoise", "ornstein-uhlenbeck": "OUNoise"}


def translate_ddpg(t: ConfigTranslator, hp: DDPG, context: RunContext) -> NativeConfig:
    """Return the arguments of `tianshou.algorithm.DDPG` and its components."""
    name = f"{NOISE_CLASSES[hp.exploration_noise_kind]}.sigma"
    t.set_option("exploration_noise", name, note="stored actions are not clipped")
    t.share_option("exploration_noise_kind", name)
    t.set_option("policy_weight_decay", "AdamOptimizerFactory(policy).weight_decay")
    t.set_option("critic_weight_decay", "AdamOptimizerFactory(critic).weight_decay")
    t.declare_constant("policy_delay", 1)
    translate_actor_critic_fields(t, hp, context, "DDPG")
    return finish_off_policy(t, hp, context)


def translate_dqn(t: ConfigTranslator, hp: DQN, context: RunContext) -> NativeConfig:
    """Return the arguments of `tianshou.algorithm.DQN` and its components."""
    t.set_option("learning_rate", "AdamOptimizerFactory.lr")
    t.declare_constant("tau", 1.0)
    interval = hp.target_interval_in_updates()
    note = "in gradient steps; updated before the gradient step"
    t.set_option("target_update_interval", "DQN.target_update_freq", interval or 1, note)
    is_within_cycle = hp.target_update_interval % hp.train_freq != 0
    if interval is None or (is_within_cycle and context.converts_meanings):
        t.reject_value(
            "target_update_interval",
            "a number of gradient steps: there are "
            f"{hp.gradient_steps} in {hp.train_freq} environment steps",
        )
    t.set_option("exploration_initial", "DiscreteQLearningPolicy.eps_training")
    note = "through training_fn, as in upstream's Atari example"
    t.emulate_option("exploration_final", "training_fn.final", note=note)
    t.emulate_option("exploration_steps", "training_fn.steps", note=note)
    t.set_extra_options(**{"training_fn.initial": hp.exploration_initial})
    warm_up, _ = count_steps(hp, context)
    t.set_extra_options(
        **{
            "training_fn.taken": warm_up,
            "training_fn.falls_within_cycle": context.converts_meanings,
        }
    )
    t.set_option("double_q", "DQN.is_double")
    t.set_option(
        "dueling", "Net.dueling_param", hp.dueling, note="separate heads of the last layer's size"
    )
    t.set_option("huber_delta", "DQN.huber_loss_delta")
    if hp.huber_delta is not None and not context.replay.is_uniform:
        option = f"replay={context.replay.name}"
        t.reject_value("huber_delta", f"a loss without importance weights: {option} needs null")
    t.declare_constant("max_grad_norm", None)
    t.set_conv_filters("Convolutions.filters", context.task, "in Parallax's network")
    translate_off_policy_fields(t, hp, context, "DQN")
    updates = make_update_schedule(hp, context).total_gradient_steps
    if is_within_cycle and context.patch_constants:
        cycles = max(updates // hp.gradient_steps - 1, 0)
        moves = min(cycles, cycles * hp.train_freq // hp.target_update_interval)
    else:
        # Upstream copies before updates 0, n, 2n, ... (`_update_with_batch` in dqn.py); at update 0
        # both networks are still equal, which is not counted.
        moves = max(updates - 1, 0) // (interval or 1)
    return finish_off_policy(t, hp, context, target_updates=moves)


ALGORITHMS: Mapping[str, AlgorithmSettings] = {
    "ppo": AlgorithmSettings(translate_ppo, extra_action_spaces=frozenset({"discrete"})),
    "td3": AlgorithmSettings(translate_td3, scale_cycle_and_updates_to_envs),
    "sac": AlgorithmSettings(translate_sac, scale_cycle_and_updates_to_envs),
    "ddpg": AlgorithmSettings(translate_ddpg, scale_cycle_and_updates_to_envs),
    "dqn": AlgorithmSettings(translate_dqn, scale_cycle_and_updates_to_envs),
}
