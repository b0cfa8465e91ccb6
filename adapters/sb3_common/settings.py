"""What settings of SB3's base classes have in common, in torch and in JAX."""

import dataclasses
import math
from typing import Any, TypeVar

from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms.base import OffPolicy
from parallax.harness.contract.translation import ConfigTranslator, NativeConfig

Defaults = TypeVar("Defaults", bound=OffPolicy)


def translate_replay_fields(t: ConfigTranslator, hp: OffPolicy, context: RunContext) -> None:
    """What all algorithms with a replay buffer pass alike."""
    t.set_option("batch_size", "batch_size")
    t.set_option("buffer_size", "buffer_size")
    note = f"first update after step {compute_first_update(hp)}"
    t.set_option("learning_starts", "learning_starts", note=note)
    t.set_option("tau", "tau")
    t.set_option("gamma", "gamma")
    steps_each = divide_among_envs(t, "train_freq", hp.train_freq, context.n_envs)
    t.set_option("train_freq", "train_freq", steps_each, note="per copy of the environment")
    t.set_option("gradient_steps", "gradient_steps")
    t.set_option("bootstrap_truncation", "replay_buffer_kwargs.handle_timeout_termination")


def finish_off_policy(
    t: ConfigTranslator, hp: OffPolicy, context: RunContext, **counts: int
) -> NativeConfig:
    """The end of a translation.

    Args:
        t: The translation.
        hp: Hyperparameters.
        context: The run.
        counts: Parts of the update_schedule that are otherwise upstream.
    """
    total = compute_total_steps(hp, context)
    update_schedule = dataclasses.replace(
        hp.compute_update_schedule(total, compute_first_update(hp)), **counts
    )
    return t.finish(total, update_schedule=update_schedule)


def translate_network_sizes(t: ConfigTranslator) -> None:
    """Sizes of the networks."""
    t.set_option("hidden_sizes", "policy_kwargs.net_arch", list(t.value("hidden_sizes")))


def translate_adam_eps(t: ConfigTranslator) -> None:
    """The constant of the networks' optimisers."""
    t.set_option("adam_eps", "policy_kwargs.optimizer_kwargs.eps")


def compute_first_update(hp: OffPolicy) -> int:
    """Environment steps at the first update: a round is over, and more than the warm-up."""
    return (hp.learning_starts // hp.train_freq + 1) * hp.train_freq


def compute_total_steps(hp: OffPolicy, context: RunContext) -> int:
    """Environment steps of whole rounds."""
    return math.ceil(context.steps / hp.train_freq) * hp.train_freq


def divide_among_envs(t: ConfigTranslator, field: str, transitions: int, n_envs: int) -> int:
    """Transitions of all copies together as steps of each, as upstream counts them."""
    if transitions % n_envs:
        t.reject_value(
            field, f"counted per copy of the environment: n_envs={n_envs} must divide it"
        )
    return transitions // n_envs


def scale_cycle_to_envs(defaults: Defaults, context: RunContext) -> Defaults:
    """Upstream's defaults, which count steps of each copy, with rounds in steps of all at once."""
    every = defaults.train_freq * context.n_envs
    changes: dict[str, Any] = {"train_freq": every}
    return dataclasses.replace(defaults, **changes)


_NOISE_CLASSES = {
    "gaussian": "NormalActionNoise",
    "ornstein-uhlenbeck": "OrnsteinUhlenbeckActionNoise",
}


def translate_action_noise(t: ConfigTranslator, kind: str, deviation: float) -> None:
    """Exploration noise, a share of half the action range as upstream has it; none for 0."""
    noise = {_NOISE_CLASSES[kind]: deviation} if deviation else None
    t.set_option("exploration_noise", "action_noise", noise)
