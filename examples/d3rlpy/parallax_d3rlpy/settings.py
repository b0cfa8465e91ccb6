"""Unified hyperparameters to the options of d3rlpy."""

import dataclasses
import math
from collections.abc import Mapping

from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms.td3 import TD3
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.translation import AlgorithmSettings, ConfigTranslator, NativeConfig


def set_run_options(translator: ConfigTranslator, context: RunContext) -> None:
    """Set the seed.

    Raises:
        SpecError: More than one environment.
    """
    if context.n_envs != 1:
        raise SpecError(f"n_envs={context.n_envs}: d3rlpy trains on one environment. Use n_envs=1.")
    translator.set_extra_options(seed=context.seed)


def translate_td3(t: ConfigTranslator, hp: TD3, context: RunContext) -> NativeConfig:
    """Return arguments of `d3rlpy.algos.TD3Config` and `fit_online`."""
    t.set_option("policy_learning_rate", "TD3Config.actor_learning_rate")
    t.set_option("critic_learning_rate", "TD3Config.critic_learning_rate")
    t.set_option("batch_size", "TD3Config.batch_size")
    t.set_option("buffer_size", "create_fifo_replay_buffer.limit")
    # `fit_online` (d3rlpy/algos/qlearning/base.py) counts steps from 1; it acts at random while
    # step < random_steps and updates while step > update_start_step.
    t.set_option("learning_starts", "fit_online.random_steps", hp.learning_starts + 1, "one more")
    t.set_extra_options(**{"fit_online.update_start_step": max(hp.learning_starts - 1, 0)})
    if hp.learning_starts < hp.batch_size + 2:
        why = "more than a minibatch, without which nothing is updated"
        t.reject_value("learning_starts", f"{why}: batch_size={hp.batch_size} and 2 at least")
    t.set_option("tau", "TD3Config.tau")
    t.set_option("gamma", "TD3Config.gamma")
    t.set_option("train_freq", "fit_online.update_interval")
    t.set_option("gradient_steps", "fit_online.n_updates")
    _set_noise_options(t, hp, context)
    t.set_option("policy_delay", "TD3Config.update_actor_interval", note="the first update, too")
    t.set_option("adam_eps", "AdamFactory.eps")
    t.set_option("hidden_sizes", "VectorEncoderFactory.hidden_units", list(hp.hidden_sizes))
    note = "what a time limit cuts off is no transition"
    t.declare_constant("bootstrap_truncation", True, note)
    schedule = hp.compute_update_schedule(context.steps)
    target_updates = math.ceil(schedule.total_gradient_steps / hp.policy_delay)
    counted = dataclasses.replace(
        schedule, policy_updates=target_updates, target_updates=target_updates
    )
    return t.finish(context.steps, update_schedule=counted)


def _set_noise_options(t: ConfigTranslator, hp: TD3, context: RunContext) -> None:
    task = context.task
    halves = {(high - low) / 2 for low, high in zip(task.action_low, task.action_high, strict=True)}
    if len(halves) > 1 and hp.exploration_noise:
        t.reject_value(
            "exploration_noise", "one deviation for all actions, and their ranges differ"
        )
    std = hp.exploration_noise * max(halves)
    t.set_option("exploration_noise", "NormalNoise.std", std, "in units of the action")
    t.set_option("target_policy_noise", "TD3Config.target_smoothing_sigma")
    t.set_option("target_noise_clip", "TD3Config.target_smoothing_clip")


ALGORITHMS: Mapping[str, AlgorithmSettings] = {"td3": AlgorithmSettings(translate_td3)}
