"""What several algorithms pass to SB3 in the same way."""

from adapters.sb3_common.settings import finished, networks, optimizers, replayed
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import OffPolicy


def off_policy(t: Translation, hp: OffPolicy, context: Context, **counts: int) -> Native:
    """What all algorithms with a replay buffer share; finishes the translation.

    Args:
        t: The translation.
        hp: Hyperparameters.
        context: The run.
        counts: Parts of the cadence that are otherwise in SB3.
    """
    replayed(t, hp, context)
    networks(t)
    optimizers(t)
    return finished(t, hp, context, **counts)
