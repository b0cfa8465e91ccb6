"""What several algorithms pass to sbx in the same way."""

from adapters.sb3_common.settings import (
    finished,
    first_update_of,
    optimizers,
    replayed,
    total_steps,
)
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import OffPolicy


def off_policy(t: Translation, hp: OffPolicy, context: Context, **counts: int) -> Native:
    """What all algorithms with a replay buffer share, but for sizes; finishes the translation.

    Args:
        t: The translation.
        hp: Hyperparameters.
        context: The run.
        counts: Parts of the cadence that are otherwise in sbx.
    """
    replayed(t, hp, context)
    optimizers(t)
    return finished(t, hp, context, **counts)


def critic_steps(hp: OffPolicy, context: Context) -> int:
    """Gradient steps of critics in the whole run."""
    return hp.cadence(total_steps(hp, context), first_update_of(hp)).gradient_steps
