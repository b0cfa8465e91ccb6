"""What the scripts of algorithms with a replay buffer have in common."""

import dataclasses

from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import OffPolicy
from harness.contract.fields import SpecError


def off_policy(t: Translation, hp: OffPolicy, context: Context) -> None:
    """Claims what the scripts of TD3, SAC and DDPG have in common."""
    t.aligned("batch_size", "batch-size")
    t.aligned("buffer_size", "buffer-size")
    t.aligned("learning_starts", "learning-starts", note="first update two steps later")
    t.aligned("tau", "tau")
    t.aligned("gamma", "gamma")
    one_environment(context)
    t.constant("env_steps_per_round", 1)
    t.constant("gradient_steps_per_round", 1)
    t.constant("adam_eps", 1e-8)
    t.constant("hidden_sizes", (256, 256))
    t.constant("bootstrap_truncation", True)


def one_environment(context: Context) -> None:
    """Refuses several copies of the environment.

    Raises:
        SpecError: There are several.
    """
    if context.n_envs != 1:
        raise SpecError(
            f"n_envs={context.n_envs}: cleanrl's scripts with a replay buffer have one "
            "environment. Use n_envs=1, or ppo."
        )


def finish(t: Translation, hp: OffPolicy, context: Context, **counts: int) -> Native:
    """The native settings, with the counts in which the script deviates.

    The script's counter is one behind the transitions, and updates once it is above
    learning-starts.
    """
    cadence = hp.cadence(context.steps, hp.learning_starts + 2)
    return t.finish(context.steps, cadence=dataclasses.replace(cadence, **counts))


def times(hp: OffPolicy, context: Context, frequency: int) -> int:
    """How often something happens that waits for a multiple of its frequency in that counter."""
    return (context.steps - 1) // frequency - hp.learning_starts // frequency
