"""Unified hyperparameters to the arguments of skrl's classes, a function per algorithm.

Settings are named `Class.argument`. Options without a hyperparameter are set as well, so that
`run.json` lists them. They have the values of skrl's Gymnasium examples, or are off where the study
decides (KL-adaptive learning rate, scaled observations and values, decaying noise).
`adapters.skrl.agents` builds what the settings describe.
"""

import dataclasses
import math
from collections.abc import Mapping

from parallax.harness.contract.adapter import RunContext, scale_cycle_to_envs
from parallax.harness.contract.algorithms.base import OffPolicy
from parallax.harness.contract.algorithms.ddpg import DDPG
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.algorithms.ppo import PPO
from parallax.harness.contract.algorithms.sac import SAC
from parallax.harness.contract.algorithms.td3 import TD3
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.translation import AlgorithmSettings, ConfigTranslator, NativeConfig


def set_run_options(translation: ConfigTranslator, context: RunContext) -> None:
    """Set the options that every run has: the seed and the options requested by the context."""
    translation.set_extra_options(seed=context.seed)


NORMAL_INIT = {"method_name": "normal_", "mean": 0.0, "std": 0.1}
"""Initialization of all weights and biases in the examples with a replay buffer."""
ACTION_UNITS_NOTE = "in action units"


def disable_other_options(t: ConfigTranslator, cfg: str, *off: str) -> None:
    """Turn off options of `cfg` that have no hyperparameter, and those named in `off`."""
    fixed = {
        **dict.fromkeys(("observation_preprocessor", "state_preprocessor", "rewards_shaper")),
        **dict.fromkeys(off),
        "mixed_precision": False,
    }
    t.set_extra_options(**{f"{cfg}.{name}": value for name, value in fixed.items()})


def translate_networks(t: ConfigTranslator) -> None:
    """Translate the hidden sizes of networks and Adam's epsilon."""
    t.set_option("hidden_sizes", "models.hidden_sizes", list(t.value("hidden_sizes")))
    # skrl's agents make their optimizers with a learning rate only.
    t.declare_constant("adam_eps", 1e-8, "torch.optim.Adam's default; no option")


def translate_off_policy_fields(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, cfg: str
) -> None:
    """Translate the options that off-policy algorithms share; `cfg` is their class of options.

    Raises:
        SpecError: An update cycle is not a multiple of n_envs; no patch changes that.
    """
    n_envs = context.n_envs
    if hp.train_freq % n_envs:
        why = f"skrl steps all environments together. Use a multiple of n_envs={n_envs}."
        raise SpecError(f"hyperparameters.train_freq={hp.train_freq}: {why}")
    # Without replacement, skrl's minibatches are smaller while fewer transitions are stored.
    is_short = min(hp.learning_starts, t.value("buffer_size")) < t.value("batch_size")
    replaces = context.converts_meanings and is_short
    note = "with replacement" if replaces else "smaller while fewer transitions are stored"
    t.set_option("batch_size", f"{cfg}.batch_size", note=note)
    note = "times n_envs" if n_envs > 1 else ""
    rows = max(t.value("buffer_size") // n_envs, 1)
    t.set_option("buffer_size", "RandomMemory.memory_size", rows, note)
    t.declare_rounded("buffer_size", rows * n_envs)
    # Steps are counted from 0, and the first update follows the step with this number.
    warm_up = math.ceil(hp.learning_starts / n_envs)
    first = max(warm_up - 1, 0)
    t.set_option("learning_starts", f"{cfg}.learning_starts", first, "counted from 0")
    t.declare_rounded("learning_starts", warm_up * n_envs)
    t.set_extra_options(
        **{f"{cfg}.random_timesteps": warm_up, "RandomMemory.replacement": replaces}
    )
    set_memory_envs(t, context)
    t.set_extra_options(**{"Model.init_parameters": NORMAL_INIT})
    t.set_option("tau", f"{cfg}.polyak")
    t.set_option("gamma", f"{cfg}.discount_factor")
    t.set_option("gradient_steps", f"{cfg}.gradient_steps")
    t.declare_constant("bootstrap_truncation", True, "the memory stores terminations only")
    translate_networks(t)


def set_memory_envs(t: ConfigTranslator, context: RunContext) -> None:
    """Set the number of environments that the memory stores a step of, if there are several."""
    if context.n_envs > 1:
        t.set_extra_options(**{"RandomMemory.num_envs": context.n_envs})


def translate_actor_critic_fields(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, cfg: str, *rates: str
) -> None:
    """Translate the same for actor-critics; `rates` are learning rates in upstream's order."""
    translate_off_policy_fields(t, hp, context, cfg)
    option = f"{cfg}.learning_rate"
    rate_names = ", ".join(rate.removesuffix("_learning_rate") for rate in rates)
    t.set_option(rates[0], option, [t.value(rate) for rate in rates], rate_names)
    for rate in rates[1:]:
        t.share_option(rate, option)
    t.declare_constant("train_freq", context.n_envs, "agents update after every step")
    t.set_extra_options(**{f"{cfg}.grad_norm_clip": 0})
    disable_other_options(t, cfg, "learning_rate_scheduler")


def compute_half_range(t: ConfigTranslator, context: RunContext, field: str) -> float:
    """Return half the action range, the factor from unified units to action units."""
    task = context.task
    halves = {(high - low) / 2 for low, high in zip(task.action_low, task.action_high, strict=True)}
    if len(halves) > 1 and t.value(field):
        t.reject_value(field, "one value for all actions, but their ranges differ: use 0")
    return max(halves)


def translate_gaussian_noise(
    t: ConfigTranslator, hp: TD3 | DDPG, context: RunContext, cfg: str
) -> None:
    """Translate exploration noise to Gaussian noise that does not decay."""
    std = hp.exploration_noise * compute_half_range(t, context, "exploration_noise")
    kwargs = {"mean": 0.0, "std": std}
    t.set_option("exploration_noise", f"{cfg}.exploration_noise_kwargs", kwargs, ACTION_UNITS_NOTE)
    t.set_extra_options(**{f"{cfg}.exploration_noise": "GaussianNoise" if std else None})
    t.set_extra_options(**{f"{cfg}.exploration_scheduler": None})


def finish_off_policy(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, first_update: int | None = None
) -> NativeConfig:
    """Return the native settings; steps are rounded up to a multiple of the environments."""
    n_envs = context.n_envs
    taken = -(-context.steps // n_envs)
    warm_up = min(math.ceil(hp.learning_starts / n_envs), taken) * n_envs
    schedule = hp.compute_update_schedule(taken * n_envs, first_update)
    schedule = dataclasses.replace(schedule, random_steps=warm_up)
    return t.finish(taken * n_envs, framework_steps=taken, update_schedule=schedule)


def translate_ppo(t: ConfigTranslator, hp: PPO, context: RunContext) -> NativeConfig:
    """Return the arguments of `skrl.agents.torch.ppo.PPO_CFG` and of its agent's parts."""
    t.set_option("learning_rate", "PPO_CFG.learning_rate")
    _translate_schedule(t, hp, context)
    n_envs = context.n_envs
    rounds = hp.rollout_steps // n_envs
    note = "times n_envs" if n_envs > 1 else ""
    t.set_option("rollout_steps", "PPO_CFG.rollouts", rounds, note)
    if hp.rollout_steps % n_envs:
        t.reject_value("rollout_steps", f"a multiple of n_envs={n_envs}")
    t.set_extra_options(**{"RandomMemory.memory_size": rounds, "RandomMemory.replacement": False})
    set_memory_envs(t, context)
    t.set_option(
        "minibatch_size", "PPO_CFG.mini_batches", math.ceil(hp.rollout_steps / hp.minibatch_size)
    )
    if hp.rollout_steps % hp.minibatch_size:
        why = f"a divisor of rollout_steps={hp.rollout_steps}: minibatches have equal sizes"
        t.reject_value("minibatch_size", why)
    t.set_option("epochs", "PPO_CFG.learning_epochs")
    t.set_option("gamma", "PPO_CFG.discount_factor")
    t.set_option("gae_lambda", "PPO_CFG.gae_lambda")
    t.set_option("clip_range", "PPO_CFG.ratio_clip")
    t.declare_constant("clip_range_schedule", "constant")
    clip, note = hp.value_clip_range or 0, "only the clipped prediction; 0 is off"
    t.set_option("value_clip_range", "PPO_CFG.value_clip", clip, note)
    t.convert_meaning("value_clip_range", "larger-value-loss")
    t.declare_constant("normalize_advantage", True, "over the whole rollout")
    t.convert_meaning("normalize_advantage", "minibatch-advantage-normalization", unless=False)
    t.set_option("ent_coef", "PPO_CFG.entropy_loss_scale")
    t.set_option("vf_coef", "PPO_CFG.value_loss_scale", note="times the mean squared error")
    norm = hp.max_grad_norm or 0
    t.set_option("max_grad_norm", "PPO_CFG.grad_norm_clip", norm, "0 is off")
    note = "ends only the current epoch; 0 is off"
    t.set_option("target_kl", "PPO_CFG.kl_threshold", hp.target_kl or 0, note)
    t.convert_meaning("target_kl", "kl-stop-ends-rollout")
    note = "time_limit_bootstrap; without it, advantages continue into the next episode"
    t.declare_constant("bootstrap_truncation", True, note)
    t.set_extra_options(**{"PPO_CFG.time_limit_bootstrap": True})
    disable_other_options(t, "PPO_CFG", "value_preprocessor")
    t.set_conv_filters("models.conv_filters", context.task, "in Parallax's model, shared")
    translate_networks(t)
    taken = -(-context.steps // n_envs)
    return t.finish(taken * n_envs, framework_steps=taken)


def _translate_schedule(t: ConfigTranslator, hp: PPO, context: RunContext) -> None:
    epochs = max(context.steps // hp.rollout_steps, 1) * hp.epochs
    linear = hp.learning_rate_schedule == "linear"
    option = "PPO_CFG.learning_rate_scheduler"
    note = "decays after each epoch" if linear else ""
    t.set_option("learning_rate_schedule", option, "LinearLR" if linear else None, note)
    t.convert_meaning("learning_rate_schedule", "lr-decay-per-rollout", unless="constant")
    to_zero = {"start_factor": 1.0, "end_factor": 0.0, "total_iters": epochs}
    t.set_extra_options(**{"PPO_CFG.learning_rate_scheduler_kwargs": to_zero if linear else {}})


def translate_td3(t: ConfigTranslator, hp: TD3, context: RunContext) -> NativeConfig:
    """Return the arguments of `skrl.agents.torch.td3.TD3_CFG` and of its agent's parts."""
    translate_gaussian_noise(t, hp, context, "TD3_CFG")
    t.set_option("policy_delay", "TD3_CFG.policy_delay")
    smoothing = "TD3_CFG.smooth_regularization"
    std = hp.target_policy_noise * compute_half_range(t, context, "target_policy_noise")
    kwargs = {"mean": 0.0, "std": std}
    t.set_option("target_policy_noise", f"{smoothing}_noise_kwargs", kwargs, ACTION_UNITS_NOTE)
    t.set_extra_options(**{f"{smoothing}_noise": "GaussianNoise" if std else None})
    clip = hp.target_noise_clip * compute_half_range(t, context, "target_noise_clip")
    t.set_option("target_noise_clip", f"{smoothing}_clip", clip, ACTION_UNITS_NOTE)
    translate_actor_critic_fields(
        t, hp, context, "TD3_CFG", "policy_learning_rate", "critic_learning_rate"
    )
    return finish_off_policy(t, hp, context)


def translate_sac(t: ConfigTranslator, hp: SAC, context: RunContext) -> NativeConfig:
    """Return the arguments of `skrl.agents.torch.sac.SAC_CFG` and of its agent's parts."""
    t.declare_constant("policy_delay", 1)
    t.declare_constant("target_update_interval", 1)
    t.set_option("initial_temperature", "SAC_CFG.initial_entropy_value")
    entropy = -context.task.action_size if hp.target_entropy is None else hp.target_entropy
    note = "for actions in the task's units, before clipping"
    t.set_option("target_entropy", "SAC_CFG.target_entropy", float(entropy), note)
    t.convert_entropy_unit(context.task)
    t.set_extra_options(**{"SAC_CFG.learn_entropy": True})
    rates = ("policy_learning_rate", "critic_learning_rate", "temperature_learning_rate")
    translate_actor_critic_fields(t, hp, context, "SAC_CFG", *rates)
    return finish_off_policy(t, hp, context)


# Defaults of Stable-Baselines3's and Tianshou's processes.
OU_THETA, OU_TIME_STEP = 0.15, 0.01
"""Parameters of the schema's process; skrl's has a time step of 1, so its options include ours."""


def translate_ddpg(t: ConfigTranslator, hp: DDPG, context: RunContext) -> NativeConfig:
    """Return the arguments of `skrl.agents.torch.ddpg.DDPG_CFG` and of its agent's parts."""
    if hp.exploration_noise_kind == "gaussian":
        translate_gaussian_noise(t, hp, context, "DDPG_CFG")
    else:
        _translate_ou_noise(t, hp, context)
    t.share_option("exploration_noise_kind", "DDPG_CFG.exploration_noise")
    for field in ("policy_weight_decay", "critic_weight_decay"):
        t.declare_constant(field, 0.0, "torch.optim.Adam's default; no option")
    t.declare_constant("policy_delay", 1)
    translate_actor_critic_fields(
        t, hp, context, "DDPG_CFG", "policy_learning_rate", "critic_learning_rate"
    )
    return finish_off_policy(t, hp, context)


def _translate_ou_noise(t: ConfigTranslator, hp: DDPG, context: RunContext) -> None:
    sigma = hp.exploration_noise * compute_half_range(t, context, "exploration_noise")
    kwargs = {
        # Euler-Maruyama: x -= theta dt x, x += sigma sqrt(dt) N(0, 1); skrl's step has no dt.
        "theta": OU_THETA * OU_TIME_STEP,
        "sigma": sigma * OU_TIME_STEP**0.5,
        "base_scale": 1.0,
    }
    note = f"{ACTION_UNITS_NOTE}; the process continues across episode ends"
    t.set_option("exploration_noise", "DDPG_CFG.exploration_noise_kwargs", kwargs, note)
    t.set_extra_options(
        **{"DDPG_CFG.exploration_noise": "OrnsteinUhlenbeckNoise" if sigma else None}
    )
    t.set_extra_options(**{"DDPG_CFG.exploration_scheduler": None})


def translate_dqn(t: ConfigTranslator, hp: DQN, context: RunContext) -> NativeConfig:
    """Return the arguments of `skrl.agents.torch.dqn.DQN_CFG`, or of that of double DQN."""
    t.reject_images(context.task)
    n_envs = context.n_envs
    t.set_option("learning_rate", "DQN_CFG.learning_rate")
    t.set_option("double_q", "agent", "DDQN" if hp.double_q else "DQN", "a separate agent class")
    every = hp.train_freq // n_envs
    t.set_option("train_freq", "DQN_CFG.update_interval", every, "from the first step")
    interval = hp.target_interval_in_updates()
    t.set_option("target_update_interval", "DQN_CFG.target_update_interval", interval, "in updates")
    # An update cycle has no environment steps between its gradient steps. Other frameworks update
    # the target at most once per cycle, at its end; skrl's counter would also do so within a cycle.
    if interval is None or hp.target_update_interval % hp.train_freq:
        t.reject_value(
            "target_update_interval",
            f"a number of update cycles: there are {hp.gradient_steps} gradient steps in "
            f"{hp.train_freq} environment steps",
        )
    scheduler = "DQN_CFG.exploration_scheduler"
    steps = hp.exploration_steps if n_envs == 1 else hp.exploration_steps / n_envs
    falling = [hp.exploration_initial, hp.exploration_final, steps]
    t.set_option("exploration_initial", scheduler, falling, "a function of these values")
    t.share_option("exploration_final", scheduler)
    t.share_option("exploration_steps", scheduler)
    note = "separate heads of the last layer's size, in Parallax's models"
    t.emulate_option("dueling", "models.dueling", hp.dueling or None, note)
    t.declare_constant("huber_delta", None, "the mean squared error")
    t.declare_constant("max_grad_norm", None)
    translate_off_policy_fields(t, hp, context, "DQN_CFG")
    disable_other_options(t, "DQN_CFG", "learning_rate_scheduler")
    # Updates follow steps whose number, counted from 0, is a multiple of the interval.
    earliest = max(math.ceil(hp.learning_starts / n_envs) - 1, 0)
    first = (-(-earliest // every) * every + 1) * n_envs
    native = finish_off_policy(t, hp, context, first)
    cycles = native.update_schedule.total_gradient_steps // hp.gradient_steps
    moves = min(cycles, cycles * hp.train_freq // hp.target_update_interval)
    # skrl counts updates from 1 (`_update_counter` in dqn.py): no copy before the first.
    schedule = dataclasses.replace(native.update_schedule, target_updates=moves)
    return dataclasses.replace(native, update_schedule=schedule)


ALGORITHMS: Mapping[str, AlgorithmSettings] = {
    "ppo": AlgorithmSettings(translate_ppo, extra_action_spaces=frozenset({"discrete"})),
    "td3": AlgorithmSettings(translate_td3, scale_cycle_to_envs),
    "sac": AlgorithmSettings(translate_sac, scale_cycle_to_envs),
    "ddpg": AlgorithmSettings(translate_ddpg, scale_cycle_to_envs),
    "dqn": AlgorithmSettings(translate_dqn, scale_cycle_to_envs),
}
