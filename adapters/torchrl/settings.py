"""Unified hyperparameters to the arguments of TorchRL's components, a function per algorithm.

Settings are named `Component.argument`, or `script.option` for options that upstream's training
script implements instead of a component; our loops implement them, too.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from parallax.adapters.torch_common.sum_tree import explain_missing_sum_tree
from parallax.envs.tasks import Task
from parallax.harness.contract.acceleration import NO_VMAP
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms.base import OffPolicy, PeriodicTargetUpdates
from parallax.harness.contract.algorithms.ddpg import DDPG
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.algorithms.ppo import PPO
from parallax.harness.contract.algorithms.r2d2 import R2D2
from parallax.harness.contract.algorithms.sac import SAC
from parallax.harness.contract.algorithms.td3 import TD3
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.translation import AlgorithmSettings, ConfigTranslator, NativeConfig


def set_run_options(translation: ConfigTranslator, context: RunContext) -> None:
    """Set the options that every run has: the seed and the options requested by the context."""
    translation.set_extra_options(seed=context.seed)
    if context.acceleration == NO_VMAP:
        translation.set_extra_options(deactivate_vmap=True)
    if not context.replay.is_uniform:
        strategy = {**context.replay.to_dict(), "steps": context.steps, "seed": context.seed}
        translation.set_extra_options(**{"ReplayBuffer.sampler": {"StrategicSampler": strategy}})


def translate_off_policy(
    t: ConfigTranslator,
    hp: OffPolicy,
    context: RunContext,
    learning_starts_name: str = "Collector.init_random_frames",
    **counts: int,
) -> NativeConfig:
    """Translate the options that all algorithms with a replay buffer share, and finish.

    Args:
        t: The translation.
        hp: Hyperparameters.
        context: The run.
        learning_starts_name: Option for `learning_starts`; with the default, actions are random
            until then.
        counts: Fields of the update schedule that differ in TorchRL.
    """
    t.set_option("batch_size", "TensorDictReplayBuffer.batch_size")
    t.set_option("buffer_size", "LazyTensorStorage.max_size")
    frames = hp.train_freq
    starts = math.ceil(hp.learning_starts / frames) * frames
    note = f"first update after step {max(starts, frames)}"
    t.set_option("learning_starts", learning_starts_name, starts, note)
    t.declare_rounded("learning_starts", starts)
    t.set_option("gamma", "make_value_estimator.gamma")
    t.set_option("train_freq", "Collector.frames_per_batch")
    note = "upstream's script: frames_per_batch times utd_ratio"
    t.set_option("gradient_steps", "script.num_updates", note=note)
    t.set_option("adam_eps", "Adam.eps")
    t.set_option("hidden_sizes", "MLP.num_cells", list(t.value("hidden_sizes")))
    emulate_in_loop(t, context, "bootstrap_truncation", True)
    total = round_up_to_batches(t, "train_freq", frames, context)
    counts = {"random_steps": min(starts, total), **counts}
    update_schedule = dataclasses.replace(hp.compute_update_schedule(total), **counts)
    return t.finish(total, update_schedule=update_schedule)


def emulate_in_loop(t: ConfigTranslator, context: RunContext, field: str, constant: Any) -> None:
    """Pass values that upstream's script does not support to an option of this adapter's loop."""
    t.emulate_other_values(
        field,
        constant,
        f"loop.{field}",
        allowed=context.patch_constants,
        note="in the adapter's loop",
    )


def translate_periodic_targets(
    t: ConfigTranslator, hp: PeriodicTargetUpdates, context: RunContext
) -> dict[str, Any]:
    """Translate targets that are updated at intervals, to TorchRL's `HardUpdate` if possible."""
    # HardUpdate counts gradient steps, so it can copy several times within an update cycle.
    is_within_cycle = hp.target_update_interval % hp.train_freq != 0
    is_soft = t.value("tau") < 1 and context.patch_constants
    if is_soft or (is_within_cycle and context.converts_meanings):
        note = "in the adapter's loop"
        t.emulate_option("target_update_interval", "loop.target_update_interval", note=note)
        translate_soft_targets(t)
        return {}
    t.declare_constant("tau", 1.0)
    interval = hp.target_interval_in_updates()
    # HardUpdate (torchrl/objectives/utils.py) copies once in interval + 1 calls.
    note = "in gradient steps, minus one"
    name = "HardUpdate.value_network_update_interval"
    t.set_option("target_update_interval", name, (interval or 1) - 1, note)
    if interval is None:
        t.reject_value(
            "target_update_interval",
            "a number of gradient steps: there are "
            f"{hp.gradient_steps} in {hp.train_freq} environment steps",
        )
    total = hp.compute_total_steps(context.steps)
    updates = hp.compute_update_schedule(total).total_gradient_steps
    return {"target_updates": updates // (interval or 1)}


def translate_soft_targets(t: ConfigTranslator) -> None:
    """Translate targets that are updated by tau at each update."""
    old_weight = 1 - t.value("tau")
    t.set_option("tau", "SoftUpdate.eps", old_weight, note="weight of the old target, 1 - tau")


def translate_to_action_units(
    t: ConfigTranslator, context: RunContext, field: str, name: str
) -> None:
    """Translate a value in units of half the action range to action units, as in TorchRL."""
    half = compute_half_range(context.task)
    t.set_option(field, name, t.value(field) * (1.0 if half is None else half), "in action units")
    if half is None:
        t.reject_value(field, "one number in action units: all dimensions need the same range")


def compute_half_range(task: Task) -> float | None:
    """Return half the action range in action units; None if dimensions differ in it."""
    bounds = zip(task.action_low, task.action_high, strict=True)
    halves = {(high - low) / 2 for low, high in bounds}
    return halves.pop() if len(halves) == 1 else None


def round_up_to_batches(
    t: ConfigTranslator, field: str, frames_per_batch: int, context: RunContext
) -> int:
    """Return the transitions of the whole run, rounded up to whole batches."""
    if frames_per_batch % context.n_envs:
        t.reject_value(field, f"a multiple of n_envs={context.n_envs}: environments step together")
    total = math.ceil(context.steps / frames_per_batch) * frames_per_batch
    t.set_extra_options(**{"Collector.total_frames": total})
    return total


def translate_ppo(t: ConfigTranslator, hp: PPO, context: RunContext) -> NativeConfig:
    """Return the arguments of the components of PPO's recipe."""
    t.set_option("learning_rate", "Adam.lr")
    linear = hp.learning_rate_schedule == "linear"
    fall = "at each minibatch"
    if context.converts_meanings:  # the schema's schedules decay after a rollout's updates
        fall = "after each rollout, in the adapter's loop"
        t.set_extra_options(**{"loop.anneal_after_rollouts": True})
    t.set_option("learning_rate_schedule", "script.anneal_lr", linear, note=fall)
    t.set_option("rollout_steps", "Collector.frames_per_batch")
    uneven = hp.rollout_steps % hp.minibatch_size
    note = "each epoch's last minibatch is smaller" if uneven else ""
    t.set_option("minibatch_size", "TensorDictReplayBuffer.batch_size", note=note)
    t.set_option("epochs", "script.ppo_epochs", note="advantages are recomputed in each epoch")
    t.set_option("gamma", "GAE.gamma")
    t.set_option("gae_lambda", "GAE.lmbda")
    t.set_option("clip_range", "ClipPPOLoss.clip_epsilon")
    linear = hp.clip_range_schedule == "linear"
    note = f"{fall}, also with a constant learning rate" if linear else ""
    t.set_option("clip_range_schedule", "script.anneal_clip_epsilon", linear, note)
    note = "around the predictions at the start of each epoch" if hp.value_clip_range else ""
    t.set_option("value_clip_range", "ClipPPOLoss.clip_value", note=note)
    t.set_option("normalize_advantage", "ClipPPOLoss.normalize_advantage", note="per minibatch")
    t.set_option("ent_coef", "ClipPPOLoss.entropy_coeff")
    t.set_option("vf_coef", "ClipPPOLoss.critic_coeff", note="times the mean squared error")
    note = "PyTorch's, over all parameters; upstream's script does not clip"
    t.emulate_option("max_grad_norm", "clip_grad_norm_.max_norm", note=note)
    emulate_in_loop(t, context, "target_kl", None)
    t.set_option("adam_eps", "Adam.eps")
    t.set_option("hidden_sizes", "MLP.num_cells", list(hp.hidden_sizes))
    t.set_conv_filters("ConvNet.num_cells", context.task, "with the hidden layers shared")
    emulate_in_loop(t, context, "bootstrap_truncation", True)
    # The script's schedules end with the last whole rollout; the steps collected are rounded up.
    t.set_extra_options(**{"script.total_frames": context.steps})
    return t.finish(round_up_to_batches(t, "rollout_steps", hp.rollout_steps, context))


TD3_NOISE_NAMES = {
    "exploration_noise": "AdditiveGaussianModule.std",
    "target_policy_noise": "TD3Loss.policy_noise",
    "target_noise_clip": "TD3Loss.noise_clip",
}


def couple_defaults_td3(defaults: TD3, context: RunContext) -> TD3:
    """Return the defaults with noise in units of half the action range; upstream: action units."""
    half = compute_half_range(context.task)
    if half is None:
        return defaults
    shares = {field: getattr(defaults, field) / half for field in TD3_NOISE_NAMES}
    return dataclasses.replace(defaults, **shares)


def translate_td3(t: ConfigTranslator, hp: TD3, context: RunContext) -> NativeConfig:
    """Return the arguments of the components of TD3's recipe."""
    t.set_option("policy_learning_rate", "Adam(actor).lr")
    t.set_option("critic_learning_rate", "Adam(critic).lr")
    for field, name in TD3_NOISE_NAMES.items():
        translate_to_action_units(t, context, field, name)
    t.set_option("policy_delay", "script.policy_update_delay")
    translate_soft_targets(t)
    return translate_off_policy(t, hp, context)


def couple_defaults_sac(defaults: SAC, context: RunContext) -> SAC:
    """Return the defaults with one learning rate for all networks, as in the script.

    The learning rate of the temperature is a constant there.
    """
    return dataclasses.replace(defaults, critic_learning_rate=defaults.policy_learning_rate)


def translate_sac(t: ConfigTranslator, hp: SAC, context: RunContext) -> NativeConfig:
    """Return the arguments of the components of SAC's recipe."""
    t.set_option("policy_learning_rate", "Adam(actor).lr")
    t.set_option("critic_learning_rate", "Adam(critic).lr")
    t.set_option("temperature_learning_rate", "Adam(alpha).lr")
    emulate_in_loop(t, context, "policy_delay", 1)
    emulate_in_loop(t, context, "target_update_interval", 1)
    t.set_option("initial_temperature", "SACLoss.alpha_init")
    entropy = "auto" if hp.target_entropy is None else hp.target_entropy
    t.set_option("target_entropy", "SACLoss.target_entropy", entropy, "for actions in task units")
    t.convert_entropy_unit(context.task)
    translate_soft_targets(t)
    return translate_off_policy(t, hp, context)


DDPG_NOISE_NAMES = {
    "gaussian": "AdditiveGaussianModule.std",
    "ornstein-uhlenbeck": "OrnsteinUhlenbeckProcessModule.sigma",
}


def couple_defaults_ddpg(defaults: DDPG, context: RunContext) -> DDPG:
    """Return the defaults with noise in units of half the action range; upstream: action units."""
    half = compute_half_range(context.task)
    if half is None:
        return defaults
    return dataclasses.replace(defaults, exploration_noise=defaults.exploration_noise / half)


def translate_ddpg(t: ConfigTranslator, hp: DDPG, context: RunContext) -> NativeConfig:
    """Return the arguments of the components of DDPG's recipe."""
    t.set_option("policy_learning_rate", "Adam(actor).lr")
    t.set_option("critic_learning_rate", "Adam(critic).lr")
    t.set_option("policy_weight_decay", "Adam(actor).weight_decay")
    t.set_option("critic_weight_decay", "Adam(critic).weight_decay")
    name = DDPG_NOISE_NAMES[hp.exploration_noise_kind]
    translate_to_action_units(t, context, "exploration_noise", name)
    process = hp.exploration_noise_kind == "ornstein-uhlenbeck"
    note = "decays to a tenth over the first 1,000,000 steps" if process else ""
    if process and context.converts_meanings:
        note = "does not decay"
        # The process' noise is multiplied by a factor that falls from 1 to eps_end.
        t.set_extra_options(**{"OrnsteinUhlenbeckProcessModule.eps_end": 1.0})
    t.share_option("exploration_noise_kind", name, note)
    emulate_in_loop(t, context, "policy_delay", 1)
    translate_soft_targets(t)
    return translate_off_policy(t, hp, context)


LOSS_FUNCTIONS = {None: "l2", 1.0: "smooth_l1"}


def translate_dqn(t: ConfigTranslator, hp: DQN, context: RunContext) -> NativeConfig:
    """Return the arguments of the components of DQN's recipe."""
    t.set_option("learning_rate", "Adam.lr")
    counts = translate_periodic_targets(t, hp, context)
    t.set_option("exploration_initial", "EGreedyModule.eps_init")
    t.set_option("exploration_final", "EGreedyModule.eps_end")
    note = "decays after each batch of the collector"
    t.set_option("exploration_steps", "EGreedyModule.annealing_num_steps", note=note)
    t.set_extra_options(**{"script.anneals_within_batch": context.converts_meanings})
    t.set_option("double_q", "DQNLoss.double_dqn")
    emulate_in_loop(t, context, "dueling", False)
    loss_function = LOSS_FUNCTIONS.get(hp.huber_delta, "smooth_l1")
    t.set_option("huber_delta", "DQNLoss.loss_function", loss_function)
    if hp.huber_delta not in LOSS_FUNCTIONS:
        t.reject_value("huber_delta", "null or 1.0")
    note = "PyTorch's, over all parameters; upstream's script does not clip"
    t.emulate_option("max_grad_norm", "clip_grad_norm_.max_norm", note=note)
    t.set_conv_filters("ConvNet.num_cells", context.task)
    return translate_off_policy(t, hp, context, **counts)


R2D2_NOTE = "in the adapter's loop; TorchRL has no R2D2"


def translate_r2d2(t: ConfigTranslator, hp: R2D2, context: RunContext) -> NativeConfig:
    """Return the arguments of TorchRL's components, and of the loop around them.

    Raises:
        SpecError: A value is not supported, or the sum tree is not installed.
    """
    if missing := explain_missing_sum_tree():
        raise SpecError(f"framework=torchrl algorithm=r2d2: {missing}.")
    t.set_option("learning_rate", "Adam.lr")
    counts = translate_periodic_targets(t, hp, context)
    t.set_option("value_rescaling", "signed_hyperbolic.epsilon")
    t.set_option("lstm_size", "LSTMModule.hidden_size")
    for field in ("burn_in", "head_sizes", *_R2D2_LOOP_FIELDS):
        native = list(hp.head_sizes) if field == "head_sizes" else t.value(field)
        t.emulate_option(field, _R2D2_NAMES.get(field, f"loop.{field}"), native, R2D2_NOTE)
    note = "PyTorch's, over all parameters"
    t.emulate_option("max_grad_norm", "clip_grad_norm_.max_norm", note=note)
    first = hp.sequence_length * context.n_envs
    if hp.learning_starts < first:
        t.reject_value(
            "learning_starts",
            f"at least sequence_length times n_envs, {first}: before, no sequence is stored",
        )
    return translate_off_policy(
        t, hp, context, learning_starts_name="loop.learning_starts", random_steps=0, **counts
    )


_R2D2_NAMES = {"burn_in": "BurnInTransform.burn_in", "head_sizes": "MLP.head.num_cells"}
_R2D2_LOOP_FIELDS = (
    *("n_step", "sequence_length", "overlap", "stored_state", "last_step_inputs"),
    *("priority_exponent", "importance_exponent", "max_error_share"),
    *("epsilon_base", "epsilon_exponent", "actor_refresh", "double_q", "dueling"),
)


ALGORITHMS: Mapping[str, AlgorithmSettings] = {
    "ppo": AlgorithmSettings(translate_ppo, extra_action_spaces=frozenset({"discrete"})),
    "td3": AlgorithmSettings(translate_td3, couple_defaults_td3),
    "sac": AlgorithmSettings(translate_sac, couple_defaults_sac),
    "ddpg": AlgorithmSettings(translate_ddpg, couple_defaults_ddpg),
    "dqn": AlgorithmSettings(translate_dqn),
    "r2d2": AlgorithmSettings(translate_r2d2),
}
