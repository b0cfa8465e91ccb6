"""What several algorithms pass to Tianshou in the same way."""

import dataclasses
import math
from typing import Any, TypeVar

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import Cadence, OffPolicy

Defaults = TypeVar("Defaults", bound=OffPolicy)


def off_policy(t: Translation, hp: OffPolicy, context: Context, name: str) -> None:
    """What all algorithms with a replay buffer share; `name` is that of Tianshou's class."""
    t.aligned("batch_size", "OffPolicyTrainerParams.batch_size")
    note = "shared out among copies of the environment" if context.n_envs > 1 else ""
    t.aligned("buffer_size", "ReplayBuffer.size", note=note)
    frames = hp.env_steps_per_round
    warm_up, _ = steps_taken(hp, context)
    note = f"first update after step {warm_up + frames}"
    t.aligned("learning_starts", "Collector.collect.n_step", warm_up, note)
    t.aligned("gamma", f"{name}.gamma")
    shared_by_copies(t, "env_steps_per_round", frames, context)
    t.aligned("env_steps_per_round", "OffPolicyTrainerParams.collection_step_num_env_steps")
    per_step = "OffPolicyTrainerParams.update_step_num_gradient_steps_per_sample"
    t.aligned("gradient_steps_per_round", per_step, hp.gradient_steps_per_round / frames)
    networks(t)


def actor_critic(t: Translation, hp: OffPolicy, context: Context, name: str) -> None:
    """The same with a policy of its own and targets that move by tau."""
    t.aligned("policy_learning_rate", "AdamOptimizerFactory(policy).lr")
    t.aligned("critic_learning_rate", "AdamOptimizerFactory(critic).lr")
    t.aligned("tau", f"{name}.tau")
    off_policy(t, hp, context, name)


def finish_off_policy(t: Translation, hp: OffPolicy, context: Context, **counts: int) -> Native:
    """The native settings, with the counts in which Tianshou deviates."""
    _, total = steps_taken(hp, context)
    cadence = dataclasses.replace(late_cadence(hp, context), **counts)
    trained = total - cadence.random_steps
    return finish(t, "OffPolicyTrainerParams", trained, cadence.random_steps, cadence)


def late_cadence(hp: OffPolicy, context: Context) -> Cadence:
    """The first update comes a round after the warm-up."""
    warm_up, total = steps_taken(hp, context)
    cadence = hp.cadence(total, first_update=warm_up + hp.env_steps_per_round)
    return dataclasses.replace(cadence, random_steps=warm_up)


def steps_taken(hp: OffPolicy, context: Context) -> tuple[int, int]:
    """Steps of the warm-up, and of all, after rounding to whole rounds."""
    warm_up = math.ceil(min(hp.learning_starts, context.steps) / context.n_envs) * context.n_envs
    rounds = math.ceil(max(context.steps - warm_up, 0) / hp.env_steps_per_round)
    return warm_up, warm_up + rounds * hp.env_steps_per_round


def networks(t: Translation) -> None:
    """Sizes of the networks, and the constant of their optimisers."""
    t.aligned("adam_eps", "AdamOptimizerFactory.eps")
    t.aligned("hidden_sizes", "Net.hidden_sizes", list(t.value("hidden_sizes")))
    t.constant("bootstrap_truncation", True)


def shared_by_copies(t: Translation, field: str, transitions: int, context: Context) -> None:
    """Refuses what copies of the environment do not divide."""
    if transitions % context.n_envs:
        t.refuse(field, f"collected over all copies: n_envs={context.n_envs} must divide it")


def finish(t: Translation, params: str, trained: int, warm_up: int, cadence: Cadence) -> Native:
    """The native settings of one epoch that is the whole run."""
    t.extra(**{f"{params}.max_epochs": 1, f"{params}.epoch_num_steps": trained})
    return t.finish(warm_up + trained, framework_steps=trained, cadence=cadence)


def rounds_of_all_copies(defaults: Defaults, context: Context) -> Defaults:
    """A round is one step of every copy, with as many updates as transitions."""
    changes: dict[str, Any] = {
        "env_steps_per_round": defaults.env_steps_per_round * context.n_envs,
        "gradient_steps_per_round": defaults.gradient_steps_per_round * context.n_envs,
    }
    return dataclasses.replace(defaults, **changes)
