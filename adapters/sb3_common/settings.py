"""Settings of SB3's classes and of sbx's, which are built on the same base classes."""

import dataclasses
import math
from typing import Any

from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms.base import OffPolicy
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.algorithms.ppo import PPO
from parallax.harness.contract.algorithms.sac import SAC
from parallax.harness.contract.translation import ConfigTranslator, NativeConfig


def translate_replay_fields(t: ConfigTranslator, hp: OffPolicy, context: RunContext) -> None:
    """Translate the options that all algorithms with a replay buffer share."""
    t.set_option("batch_size", "batch_size")
    t.set_option("buffer_size", "buffer_size")
    note = f"first update after step {compute_first_update(hp)}"
    t.set_option("learning_starts", "learning_starts", note=note)
    n_envs = context.n_envs
    # ReplayBuffer.__init__ (common/buffers.py) divides its size among environments.
    t.declare_rounded("buffer_size", max(t.value("buffer_size") // n_envs, 1) * n_envs)
    # `_sample_action` compares num_timesteps, which rises by n_envs at a time.
    t.declare_rounded("learning_starts", count_warm_up_steps(hp, context))
    t.set_option("tau", "tau")
    t.set_option("gamma", "gamma")
    steps_each = divide_among_envs(t, "train_freq", hp.train_freq, context.n_envs)
    t.set_option("train_freq", "train_freq", steps_each, note="per environment")
    t.set_option("gradient_steps", "gradient_steps")
    t.set_option("bootstrap_truncation", "replay_buffer_kwargs.handle_timeout_termination")


def finish_off_policy(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, **counts: int
) -> NativeConfig:
    """Finish a translation; `counts` of the update schedule differ upstream."""
    t.set_option("adam_eps", "policy_kwargs.optimizer_kwargs.eps")
    total = hp.compute_total_steps(context.steps)
    counts = {"random_steps": min(count_warm_up_steps(hp, context), total), **counts}
    schedule = hp.compute_update_schedule(total, compute_first_update(hp))
    return t.finish(total, update_schedule=dataclasses.replace(schedule, **counts))


def count_warm_up_steps(hp: OffPolicy, context: RunContext) -> int:
    """Return the random steps of the warm-up; each environment takes the same number."""
    return math.ceil(hp.learning_starts / context.n_envs) * context.n_envs


def count_critic_steps(hp: OffPolicy, context: RunContext) -> int:
    """Return the gradient steps of the critics in the whole run."""
    total = hp.compute_total_steps(context.steps)
    return hp.compute_update_schedule(total, compute_first_update(hp)).total_gradient_steps


def compute_first_update(hp: OffPolicy) -> int:
    """Return the environment steps at which the first update cycle after the warm-up ends."""
    # `learn` (common/off_policy_algorithm.py) requires num_timesteps > learning_starts.
    return (hp.learning_starts // hp.train_freq + 1) * hp.train_freq


def divide_among_envs(t: ConfigTranslator, field: str, transitions: int, n_envs: int) -> int:
    """Return transitions of all parallel environments as steps of each, as upstream counts."""
    if transitions % n_envs:
        t.reject_value(field, f"a multiple of n_envs={n_envs}: steps are counted per environment")
    return transitions // n_envs


_NOISE_CLASSES = {
    "gaussian": "NormalActionNoise",
    "ornstein-uhlenbeck": "OrnsteinUhlenbeckActionNoise",
}


def translate_action_noise(t: ConfigTranslator, kind: str, deviation: float) -> None:
    """Translate exploration noise, upstream also in units of half the action range; 0 is none."""
    noise = {_NOISE_CLASSES[kind]: deviation} if deviation else None
    t.set_option("exploration_noise", "action_noise", noise)


def translate_temperature(t: ConfigTranslator, hp: SAC) -> None:
    """Translate SAC's learned temperature, whose initial value upstream takes as `auto_VALUE`."""
    # `auto` begins at 1 (`_setup_model` in sac/sac.py).
    initial = "auto" if hp.initial_temperature == 1 else f"auto_{hp.initial_temperature}"
    t.set_option("initial_temperature", "ent_coef", initial)
    entropy = "auto" if hp.target_entropy is None else hp.target_entropy
    t.set_option("target_entropy", "target_entropy", entropy)


def translate_max_grad_norm(t: ConfigTranslator, hp: PPO | DQN) -> None:
    """Translate the norm at which gradients are clipped; inf turns clipping off upstream."""
    norm = math.inf if hp.max_grad_norm is None else hp.max_grad_norm
    t.set_option("max_grad_norm", "max_grad_norm", norm, "inf is off")


def make_schedule(start: float, schedule: str, lag: float = 0.0) -> Any:
    """Return, in upstream's format, a value that is constant or decays linearly to 0 in the run.

    Args:
        start: The value at the beginning.
        schedule: `constant` or `linear`.
        lag: Length of a rollout as a fraction of the run, if the value decays after each rollout,
            to 0 after the last whole one. 0 if it decays from the start.
    """
    if schedule == "constant":
        return start
    # 1e-9: 1 / (1 / n) can be rounded below n.
    whole = max(int(1 / lag + 1e-9), 1) if lag else 1
    if lag and whole * lag < 1 - 1e-9:  # upstream's last rollout ends after the run's steps
        return {"LinearSchedule": [start * (1 + 1 / whole), 0.0, (whole + 1) * lag]}
    return {"LinearSchedule": [start * (1 + lag), start * lag, 1.0]}


def translate_rollout_fields(t: ConfigTranslator, hp: PPO, context: RunContext) -> None:
    """Set the options of PPO that both frameworks have."""
    # Upstream's schedules decay before a rollout's updates, the schema's after them.
    lag = hp.rollout_steps / context.steps if context.converts_meanings else 0.0
    decay_note = "decays after each rollout" if lag else "decays before each rollout's updates"
    rate = make_schedule(hp.learning_rate, hp.learning_rate_schedule, lag)
    t.set_option("learning_rate", "learning_rate", rate)
    note = decay_note if hp.learning_rate_schedule == "linear" else ""
    t.share_option("learning_rate_schedule", "learning_rate", note)
    steps_each = divide_among_envs(t, "rollout_steps", hp.rollout_steps, context.n_envs)
    t.set_option("rollout_steps", "n_steps", steps_each, note="per environment")
    t.set_option("minibatch_size", "batch_size")
    t.set_option("epochs", "n_epochs")
    t.set_option("gamma", "gamma")
    t.set_option("gae_lambda", "gae_lambda")
    clip_range = make_schedule(hp.clip_range, hp.clip_range_schedule, lag)
    t.set_option("clip_range", "clip_range", clip_range)
    note = decay_note if hp.clip_range_schedule == "linear" else ""
    t.share_option("clip_range_schedule", "clip_range", note)


def finish_on_policy(t: ConfigTranslator, hp: PPO, context: RunContext) -> NativeConfig:
    """Finish the translation of PPO, whose steps are rounded up to whole rollouts."""
    # `collect_rollouts` (common/on_policy_algorithm.py) adds the value of the last observation.
    t.declare_constant("bootstrap_truncation", True)
    if context.task.image:
        # Hidden layers are the features extractor's, which policy and value network share.
        t.set_extra_options(**{"policy_kwargs.net_arch": []})
    else:
        t.set_option("hidden_sizes", "policy_kwargs.net_arch", list(t.value("hidden_sizes")))
    # `learn` ends after the rollout in which total_timesteps is reached.
    rollouts = math.ceil(context.steps / hp.rollout_steps)
    return t.finish(rollouts * hp.rollout_steps)


def translate_dqn_fields(t: ConfigTranslator, hp: DQN, context: RunContext) -> None:
    """Set the options of DQN that both frameworks have."""
    t.set_option("learning_rate", "learning_rate")
    interval = hp.compute_target_interval(context.converts_meanings)
    note = "" if interval == hp.target_update_interval else "once per update cycle"
    t.set_option("target_update_interval", "target_update_interval", interval, note)
    if hp.target_update_interval % context.n_envs:
        t.reject_value(
            "target_update_interval",
            f"a multiple of n_envs={context.n_envs}: steps are counted per environment",
        )
    t.set_option("exploration_initial", "exploration_initial_eps")
    t.set_option("exploration_final", "exploration_final_eps")
    note = "as a fraction of the run's steps"
    share = hp.exploration_steps / context.steps
    t.set_option("exploration_steps", "exploration_fraction", share, note)
    t.declare_constant("double_q", False)
    # smooth_l1_loss in SB3 and optax.huber_loss in sbx, both with delta 1 by default.
    t.declare_constant("huber_delta", 1.0)


def count_dqn_target_updates(hp: DQN, context: RunContext) -> int:
    """Return the number of copies to the target network.

    Upstream copies it at multiples of the interval, also if no update was made since the last
    copy, which changes nothing and is not counted: `_on_step` in stable_baselines3/dqn/dqn.py.
    """
    every, interval = hp.train_freq, hp.compute_target_interval(context.converts_meanings)
    total, first = hp.compute_total_steps(context.steps), compute_first_update(hp)
    if hp.tau < 1:  # the target never equals the network, so every target update changes it
        return max(0, total // interval - first // interval)
    # The next multiple of the interval after each update; several updates may share one.
    copies = {(update // interval + 1) * interval for update in range(first, total + 1, every)}
    return sum(copy <= total for copy in copies)
