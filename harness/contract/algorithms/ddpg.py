"""Deep deterministic policy gradient."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from harness.contract.algorithms.base import Actions
from harness.contract.algorithms.off_policy import OffPolicy
from harness.contract.fields import bounded

NOISES = ("gaussian", "ornstein-uhlenbeck")


@dataclasses.dataclass(frozen=True)
class DDPG(OffPolicy):
    """Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971).

    Attributes:
        policy_learning_rate: Adam step size of the policy.
        critic_learning_rate: Adam step size of the critic.
        policy_weight_decay: Weight of the L2 penalty in Adam's gradient, policy.
        critic_weight_decay: The same of the critic.
        batch_size: Transitions per gradient step.
        buffer_size: Transitions the replay buffer holds.
        learning_starts: Environment transitions with uniformly random actions and no update.
        tau: Weight of the online network in a target update.
        gamma: Discount factor per environment step.
        env_steps_per_round: Environment transitions between rounds of gradient steps.
        gradient_steps_per_round: Critic gradient steps in a round.
        exploration_noise_kind: `gaussian`, drawn anew each step, or `ornstein-uhlenbeck`, a
            process with theta 0.15 and steps of 0.01 that starts at 0.
        exploration_noise: Standard deviation of what is added to actions while collecting, or
            the process' sigma, as a share of half the action range; 0 is off.
        policy_delay: Critic steps per policy and target update.
        adam_eps: Adam's denominator constant, policy and critic.
        hidden_sizes: Units per hidden layer, of policy and critic alike. The paper's critic
            takes the action in at its second layer, which no framework's does.
        bootstrap_truncation: Whether a time limit is bootstrapped through.
    """

    label: ClassVar[str] = "DDPG"
    actions: ClassVar[Actions] = "continuous"
    asked_by_probes: ClassVar[bool] = True
    # What every framework exposes.
    thesis_fields: ClassVar[frozenset[str]] = frozenset(
        (
            "policy_learning_rate",
            "batch_size",
            "buffer_size",
            "learning_starts",
            "tau",
            "gamma",
            "exploration_noise",
        )
    )
    small: ClassVar[Mapping[str, Any]] = {
        **OffPolicy.small,
        # Rates that cannot be confused.
        "policy_learning_rate": 0.01,
        "critic_learning_rate": 0.005,
        "exploration_noise_kind": "gaussian",
        "exploration_noise": 0.1,
    }
    varied: ClassVar[Mapping[str, Any]] = {"learning_starts": 32, "gamma": 0.9}
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **OffPolicy.alternatives,
        "policy_learning_rate": (0.02,),
        "critic_learning_rate": (0.02,),
        "policy_weight_decay": (0.1,),
        "critic_weight_decay": (0.1,),
        "tau": (0.5,),
        "exploration_noise_kind": NOISES,
        "exploration_noise": (0.5,),
        "policy_delay": (3,),
    }

    policy_learning_rate: float = bounded(above=0)
    critic_learning_rate: float = bounded(above=0)
    policy_weight_decay: float = bounded(minimum=0)
    critic_weight_decay: float = bounded(minimum=0)
    batch_size: int = bounded(minimum=1)
    buffer_size: int = bounded(minimum=1)
    learning_starts: int = bounded(minimum=0)
    tau: float = bounded(above=0, maximum=1)
    gamma: float = bounded(minimum=0, maximum=1)
    env_steps_per_round: int = bounded(minimum=1)
    gradient_steps_per_round: int = bounded(minimum=1)
    exploration_noise_kind: str = bounded(choices=NOISES)
    exploration_noise: float = bounded(minimum=0)
    policy_delay: int = bounded(minimum=1)
    adam_eps: float = bounded(above=0)
    hidden_sizes: tuple[int, ...] = bounded(minimum=1, filled=True)
    bootstrap_truncation: bool = bounded()

    def target_updates(self, critic_steps: int) -> int:
        """How often the target networks are stepped."""
        return critic_steps // self.policy_delay
