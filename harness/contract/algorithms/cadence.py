"""How often an algorithm acts at random and learns, as its hyperparameters say."""

import dataclasses
import math
from typing import Literal, Protocol

Family = Literal["on-policy", "off-policy"]
"""Whether an algorithm learns from its newest rollout only, or from a replay buffer."""


@dataclasses.dataclass(frozen=True)
class Cadence:
    """Counts over a whole run of one environment.

    Attributes:
        random_steps: Leading environment transitions with uniformly random actions.
        first_update: Environment transitions taken when the first gradient step is made.
        gradient_steps: Gradient steps of the critic; of all networks together in PPO.
        policy_updates: Gradient steps of the policy.
        target_updates: Steps of the target networks.
    """

    random_steps: int
    first_update: int
    gradient_steps: int
    policy_updates: int
    target_updates: int


class OffPolicy(Protocol):
    """What the counts of an algorithm with a replay buffer follow from."""

    @property
    def learning_starts(self) -> int: ...  # noqa: D102
    @property
    def env_steps_per_round(self) -> int: ...  # noqa: D102
    @property
    def gradient_steps_per_round(self) -> int: ...  # noqa: D102
    @property
    def policy_delay(self) -> int: ...  # noqa: D102
    def target_updates(self, critic_steps: int) -> int: ...  # noqa: D102


def off_policy_cadence(hp: OffPolicy, steps: int, first_update: int | None) -> Cadence:
    """Rounds of environment steps and of gradient steps take turns.

    Args:
        hp: Hyperparameters.
        steps: Environment transitions.
        first_update: Transitions at the first round of updates; None where it is the first
            round of environment steps that ends at or after `learning_starts`.
    """
    every = hp.env_steps_per_round
    first = max(math.ceil(hp.learning_starts / every), 1) * every
    first = first if first_update is None else first_update
    rounds = max(0, (steps - first) // every + 1)
    updates = rounds * hp.gradient_steps_per_round
    policy, targets = updates // hp.policy_delay, hp.target_updates(updates)
    return Cadence(min(hp.learning_starts, steps), first, updates, policy, targets)
