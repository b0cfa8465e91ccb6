"""What settings of SB3's base classes have in common, in torch and in JAX."""

import dataclasses
import math
from typing import Any, TypeVar

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import OffPolicy

Defaults = TypeVar("Defaults", bound=OffPolicy)


def replayed(t: Translation, hp: OffPolicy, context: Context) -> None:
    """What all algorithms with a replay buffer pass alike."""
    t.aligned("batch_size", "batch_size")
    t.aligned("buffer_size", "buffer_size")
    note = f"first update after step {first_update_of(hp)}"
    t.aligned("learning_starts", "learning_starts", note=note)
    t.aligned("tau", "tau")
    t.aligned("gamma", "gamma")
    steps_each = per_copy(t, "env_steps_per_round", hp.env_steps_per_round, context.n_envs)
    t.aligned("env_steps_per_round", "train_freq", steps_each, note="per copy of the environment")
    t.aligned("gradient_steps_per_round", "gradient_steps")
    t.aligned("bootstrap_truncation", "replay_buffer_kwargs.handle_timeout_termination")


def finished(t: Translation, hp: OffPolicy, context: Context, **counts: int) -> Native:
    """The end of a translation.

    Args:
        t: The translation.
        hp: Hyperparameters.
        context: The run.
        counts: Parts of the cadence that are otherwise upstream.
    """
    total = total_steps(hp, context)
    cadence = dataclasses.replace(hp.cadence(total, first_update_of(hp)), **counts)
    return t.finish(total, cadence=cadence)


def networks(t: Translation) -> None:
    """Sizes of the networks."""
    t.aligned("hidden_sizes", "policy_kwargs.net_arch", list(t.value("hidden_sizes")))


def optimizers(t: Translation) -> None:
    """The constant of the networks' optimisers."""
    t.aligned("adam_eps", "policy_kwargs.optimizer_kwargs.eps")


def first_update_of(hp: OffPolicy) -> int:
    """Environment steps at the first update: a round is over, and more than the warm-up."""
    return (hp.learning_starts // hp.env_steps_per_round + 1) * hp.env_steps_per_round


def total_steps(hp: OffPolicy, context: Context) -> int:
    """Environment steps of whole rounds."""
    return math.ceil(context.steps / hp.env_steps_per_round) * hp.env_steps_per_round


def per_copy(t: Translation, field: str, transitions: int, n_envs: int) -> int:
    """Transitions of all copies together as steps of each, as upstream counts them."""
    if transitions % n_envs:
        t.refuse(field, f"counted per copy of the environment: n_envs={n_envs} must divide it")
    return transitions // n_envs


def rounds_of_all_copies(defaults: Defaults, context: Context) -> Defaults:
    """Upstream's defaults, which count steps of each copy, with rounds in steps of all at once."""
    every = defaults.env_steps_per_round * context.n_envs
    changes: dict[str, Any] = {"env_steps_per_round": every}
    return dataclasses.replace(defaults, **changes)


_NOISES = {
    "gaussian": "NormalActionNoise",
    "ornstein-uhlenbeck": "OrnsteinUhlenbeckActionNoise",
}


def action_noise(t: Translation, kind: str, deviation: float) -> None:
    """Exploration noise, a share of half the action range as upstream has it; none for 0."""
    noise = {_NOISES[kind]: deviation} if deviation else None
    t.aligned("exploration_noise", "action_noise", noise)
