"""What algorithms with a replay buffer have in common: rounds of steps and updates take turns."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from harness.contract.algorithms.base import Hyperparameters
from harness.contract.algorithms.cadence import Cadence, Family


class OffPolicy(Hyperparameters):
    """An algorithm with a replay buffer and target networks.

    Subclasses have the fields that are named below, and say how often targets move. Values for
    short trainings of fields that all have are here; they add those of their own.
    """

    family: ClassVar[Family] = "off-policy"
    has_targets: ClassVar[bool] = True
    small: ClassVar[Mapping[str, Any]] = {
        "hidden_sizes": (8, 8),
        "batch_size": 16,
        "buffer_size": 1000,
        "learning_starts": 64,
        "env_steps_per_round": 2,
        "gradient_steps_per_round": 2,
    }
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "batch_size": (24,),
        "buffer_size": (40,),
        "learning_starts": (96,),
        "gamma": (0.9, 0.5),
        "env_steps_per_round": (4,),
        "gradient_steps_per_round": (4,),
        "adam_eps": (1e-3,),
        "hidden_sizes": ((12, 12),),
        "bootstrap_truncation": (False, True),
    }

    if TYPE_CHECKING:

        @property
        def learning_starts(self) -> int:
            """Environment transitions before learning."""

        @property
        def env_steps_per_round(self) -> int:
            """Environment transitions between rounds of gradient steps."""

        @property
        def gradient_steps_per_round(self) -> int:
            """Critic gradient steps in a round."""

    def cadence(self, steps: int, first_update: int | None = None) -> Cadence:
        """What these values make of `steps` environment transitions.

        Args:
            steps: Environment transitions.
            first_update: Transitions at the first round of updates. Unless given it is at the
                end of the first round of environment steps that ends at or after
                `learning_starts`; frameworks that are a step late say so.
        """
        every = self.env_steps_per_round
        first = max(math.ceil(self.learning_starts / every), 1) * every
        first = first if first_update is None else first_update
        rounds = max(0, (steps - first) // every + 1)
        updates = rounds * self.gradient_steps_per_round
        policy, targets = self.policy_updates(updates), self.target_updates(updates)
        return Cadence(self.random_steps(steps), first, updates, policy, targets)

    def random_steps(self, steps: int) -> int:
        """Leading transitions with uniformly random actions."""
        return min(self.learning_starts, steps)

    def policy_updates(self, critic_steps: int) -> int:
        """How often the policy is updated along with so many steps of the critic."""
        delay: int = getattr(self, "policy_delay", 1)
        return critic_steps // delay

    def target_updates(self, critic_steps: int) -> int:
        """How often the target networks are stepped."""
        raise NotImplementedError


class CopiedTargets(OffPolicy):
    """Targets that are copied, or moved, at intervals of environment transitions."""

    if TYPE_CHECKING:

        @property
        def target_update_interval(self) -> int:
            """Environment transitions between target updates."""

    def target_updates(self, critic_steps: int) -> int:
        """How often the target network moves, at most once in a round."""
        rounds = critic_steps // self.gradient_steps_per_round
        return min(rounds, rounds * self.env_steps_per_round // self.target_update_interval)

    def target_interval_in_updates(self) -> int | None:
        """The interval between target updates in gradient steps; None where it is no number."""
        steps = self.target_update_interval * self.gradient_steps_per_round
        return None if steps % self.env_steps_per_round else steps // self.env_steps_per_round
