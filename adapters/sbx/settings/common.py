"""What several algorithms pass to sbx in the same way."""

import dataclasses
import math
from typing import Any, TypeVar

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import OffPolicy

Defaults = TypeVar("Defaults", bound=OffPolicy)


def off_policy(t: Translation, hp: OffPolicy, context: Context, **counts: int) -> Native:
    """What all algorithms with a replay buffer share; finishes the translation.

    Args:
        t: The translation.
        hp: Hyperparameters.
        context: The run.
        counts: Parts of the cadence that are otherwise in sbx.
    """
    t.aligned("batch_size", "batch_size")
    t.aligned("buffer_size", "buffer_size")
    first_update = first_update_of(hp)
    note = f"first update after step {first_update}"
    t.aligned("learning_starts", "learning_starts", note=note)
    t.aligned("tau", "tau")
    t.aligned("gamma", "gamma")
    steps_each = per_copy(t, "env_steps_per_round", hp.env_steps_per_round, context.n_envs)
    t.aligned("env_steps_per_round", "train_freq", steps_each, note="per copy of the environment")
    t.aligned("gradient_steps_per_round", "gradient_steps")
    t.aligned("bootstrap_truncation", "replay_buffer_kwargs.handle_timeout_termination")
    t.aligned("adam_eps", "policy_kwargs.optimizer_kwargs.eps")
    total = total_steps(hp, context)
    cadence = dataclasses.replace(hp.cadence(total, first_update), **counts)
    return t.finish(total, cadence=cadence)


def first_update_of(hp: OffPolicy) -> int:
    """Environment steps at the first update: a round is over, and more than the warm-up."""
    return (hp.learning_starts // hp.env_steps_per_round + 1) * hp.env_steps_per_round


def total_steps(hp: OffPolicy, context: Context) -> int:
    """Environment steps of whole rounds."""
    return math.ceil(context.steps / hp.env_steps_per_round) * hp.env_steps_per_round


def critic_steps(hp: OffPolicy, context: Context) -> int:
    """Gradient steps of critics in the whole run."""
    return hp.cadence(total_steps(hp, context), first_update_of(hp)).gradient_steps


def per_copy(t: Translation, field: str, transitions: int, n_envs: int) -> int:
    """Transitions of all copies together as steps of each, as sbx counts them."""
    if transitions % n_envs:
        t.refuse(field, f"counted per copy of the environment: n_envs={n_envs} must divide it")
    return transitions // n_envs


def rounds_of_all_copies(defaults: Defaults, context: Context) -> Defaults:
    """Sbx's defaults with rounds in steps of all copies at once, as it counts steps of each."""
    every = defaults.env_steps_per_round * context.n_envs
    changes: dict[str, Any] = {"env_steps_per_round": every}
    return dataclasses.replace(defaults, **changes)


_NOISES = {
    "gaussian": "NormalActionNoise",
    "ornstein-uhlenbeck": "OrnsteinUhlenbeckActionNoise",
}


def action_noise(t: Translation, kind: str, deviation: float) -> None:
    """Exploration noise, a share of half the action range as in SB3; none for 0."""
    noise = {_NOISES[kind]: deviation} if deviation else None
    t.aligned("exploration_noise", "action_noise", noise)


def networks(t: Translation) -> None:
    """Sizes of policy and critics."""
    t.aligned("hidden_sizes", "policy_kwargs.net_arch", list(t.value("hidden_sizes")))
