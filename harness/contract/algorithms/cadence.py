"""How often an algorithm acts at random and learns, as its hyperparameters say."""

import dataclasses
from typing import Literal

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
