"""Twin delayed deep deterministic policy gradient."""

import dataclasses
from typing import ClassVar

from harness.contract.algorithms.cadence import Cadence, Family, off_policy_cadence
from harness.contract.fields import bounded


@dataclasses.dataclass(frozen=True)
class TD3:
    """Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

    Attributes:
        policy_learning_rate: Adam step size of the policy.
        critic_learning_rate: Adam step size of both critics.
        batch_size: Transitions per gradient step.
        buffer_size: Transitions the replay buffer holds.
        learning_starts: Environment transitions with uniformly random actions and no update.
        tau: Weight of the online network in a target update.
        gamma: Discount factor per environment step.
        env_steps_per_round: Environment transitions between rounds of gradient steps.
        gradient_steps_per_round: Critic gradient steps in a round.
        exploration_noise: Standard deviation of the Gaussian added to actions while
            collecting, as a share of half the action range; 0 is off.
        policy_delay: Critic steps per policy and target update.
        target_policy_noise: Standard deviation of target smoothing, same unit.
        target_noise_clip: Bound of target smoothing, same unit.
        adam_eps: Adam's denominator constant, policy and critics.
        hidden_sizes: Units per hidden layer, of policy and critics alike.
        bootstrap_truncation: Whether a time limit is bootstrapped through.
    """

    family: ClassVar[Family] = "off-policy"
    has_targets: ClassVar[bool] = True
    # What every framework exposes; the others keep each framework's own default under
    # alignment=thesis (thesis, appendix D: those not in italics).
    thesis_fields: ClassVar[frozenset[str]] = frozenset(
        (
            "policy_learning_rate",
            "critic_learning_rate",
            "batch_size",
            "buffer_size",
            "learning_starts",
            "tau",
            "gamma",
            "policy_delay",
            "target_policy_noise",
            "target_noise_clip",
        )
    )

    policy_learning_rate: float = bounded(above=0)
    critic_learning_rate: float = bounded(above=0)
    batch_size: int = bounded(minimum=1)
    buffer_size: int = bounded(minimum=1)
    learning_starts: int = bounded(minimum=0)
    tau: float = bounded(above=0, maximum=1)
    gamma: float = bounded(minimum=0, maximum=1)
    env_steps_per_round: int = bounded(minimum=1)
    gradient_steps_per_round: int = bounded(minimum=1)
    exploration_noise: float = bounded(minimum=0)
    policy_delay: int = bounded(minimum=1)
    target_policy_noise: float = bounded(minimum=0)
    target_noise_clip: float = bounded(minimum=0)
    adam_eps: float = bounded(above=0)
    hidden_sizes: tuple[int, ...] = bounded(minimum=1, filled=True)
    bootstrap_truncation: bool = bounded()

    def cadence(self, steps: int, first_update: int | None = None) -> Cadence:
        """What these values make of `steps` environment transitions.

        Args:
            steps: Environment transitions.
            first_update: Transitions at the first round of updates. Unless given it is at the
                end of the first round of environment steps that ends at or after
                `learning_starts`; frameworks that are a step late say so.
        """
        return off_policy_cadence(self, steps, first_update)

    def target_updates(self, critic_steps: int) -> int:
        """How often the target networks are stepped."""
        return critic_steps // self.policy_delay
