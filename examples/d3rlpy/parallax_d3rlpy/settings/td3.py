"""TD3."""

import dataclasses
import math

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import TD3


def settings(t: Translation, hp: TD3, context: Context) -> Native:
    """Arguments of `d3rlpy.algos.TD3Config` and `fit_online`."""
    t.aligned("policy_learning_rate", "TD3Config.actor_learning_rate")
    t.aligned("critic_learning_rate", "TD3Config.critic_learning_rate")
    t.aligned("batch_size", "TD3Config.batch_size")
    t.aligned("buffer_size", "create_fifo_replay_buffer.limit")
    # Steps are counted from 1, and both limits are themselves left out, in opposite directions.
    t.aligned("learning_starts", "fit_online.random_steps", hp.learning_starts + 1, "one more")
    t.extra(**{"fit_online.update_start_step": max(hp.learning_starts - 1, 0)})
    if hp.learning_starts < hp.batch_size + 2:
        why = "more than a minibatch, without which nothing is updated"
        t.refuse("learning_starts", f"{why}: batch_size={hp.batch_size} and 2 at least")
    t.aligned("tau", "TD3Config.tau")
    t.aligned("gamma", "TD3Config.gamma")
    t.aligned("env_steps_per_round", "fit_online.update_interval")
    t.aligned("gradient_steps_per_round", "fit_online.n_updates")
    _noises(t, hp, context)
    t.aligned("policy_delay", "TD3Config.update_actor_interval", note="the first update, too")
    t.aligned("adam_eps", "AdamFactory.eps")
    t.aligned("hidden_sizes", "VectorEncoderFactory.hidden_units", list(hp.hidden_sizes))
    note = "what a time limit cuts off is no transition"
    t.constant("bootstrap_truncation", True, note)
    cadence = hp.cadence(context.steps)
    moves = math.ceil(cadence.gradient_steps / hp.policy_delay)
    counted = dataclasses.replace(cadence, policy_updates=moves, target_updates=moves)
    return t.finish(context.steps, cadence=counted)


def _noises(t: Translation, hp: TD3, context: Context) -> None:
    task = context.task
    halves = {(high - low) / 2 for low, high in zip(task.action_low, task.action_high, strict=True)}
    if len(halves) > 1 and hp.exploration_noise:
        t.refuse("exploration_noise", "one deviation for all actions, and their ranges differ")
    std = hp.exploration_noise * max(halves)
    t.aligned("exploration_noise", "NormalNoise.std", std, "in units of the action")
    t.aligned("target_policy_noise", "TD3Config.target_smoothing_sigma")
    t.aligned("target_noise_clip", "TD3Config.target_smoothing_clip")
