"""Deep deterministic policy gradient."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from parallax.harness.contract.algorithms.base import ActionKind, OffPolicy
from parallax.harness.contract.fields import bounded_field

EXPLORATION_NOISES = ("gaussian", "ornstein-uhlenbeck")


@dataclasses.dataclass(frozen=True)
class DDPG(OffPolicy):
    """Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971).

    Attributes:
        policy_learning_rate: Adam step size of the policy.
        critic_learning_rate: Adam step size of the critic.
        policy_weight_decay: Weight of the L2 penalty in Adam's gradient, policy.
        critic_weight_decay: Weight of the L2 penalty in Adam's gradient, critic.
        exploration_noise_kind: `gaussian`, independent at each step, or `ornstein-uhlenbeck`, a
            process with theta 0.15 and steps of 0.01 that starts at 0.
        exploration_noise: Standard deviation of the noise added to actions while collecting, or
            the process' sigma, as a share of half the action range; 0 is off.
        policy_delay: Critic steps per policy and target update.
        hidden_sizes: Units per hidden layer, the same for policy and critic. The paper's critic
            receives the action at its second layer; no framework's critic does.
    """

    label: ClassVar[str] = "DDPG"
    actions: ClassVar[ActionKind] = "continuous"
    has_probes: ClassVar[bool] = True
    # What every framework exposes.
    common_fields: ClassVar[frozenset[str]] = frozenset(
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
    conformance_values: ClassVar[Mapping[str, Any]] = {
        **OffPolicy.conformance_values,
        # Distinct rates, so that none is mistaken for another.
        "policy_learning_rate": 0.01,
        "critic_learning_rate": 0.005,
        "exploration_noise_kind": "gaussian",
        "exploration_noise": 0.1,
    }
    conformance_variation: ClassVar[Mapping[str, Any]] = {"learning_starts": 32, "gamma": 0.9}
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **OffPolicy.alternatives,
        "policy_learning_rate": (0.02,),
        "critic_learning_rate": (0.02,),
        "policy_weight_decay": (0.1,),
        "critic_weight_decay": (0.1,),
        "tau": (0.5,),
        "exploration_noise_kind": EXPLORATION_NOISES,
        "exploration_noise": (0.5,),
        "policy_delay": (3,),
    }

    policy_learning_rate: float = bounded_field(above=0)
    critic_learning_rate: float = bounded_field(above=0)
    policy_weight_decay: float = bounded_field(minimum=0)
    critic_weight_decay: float = bounded_field(minimum=0)
    batch_size: int = bounded_field(minimum=1)
    buffer_size: int = bounded_field(minimum=1)
    learning_starts: int = bounded_field(minimum=0)
    tau: float = bounded_field(above=0, maximum=1)
    gamma: float = bounded_field(minimum=0, maximum=1)
    train_freq: int = bounded_field(minimum=1)
    gradient_steps: int = bounded_field(minimum=1)
    exploration_noise_kind: str = bounded_field(choices=EXPLORATION_NOISES)
    exploration_noise: float = bounded_field(minimum=0)
    policy_delay: int = bounded_field(minimum=1)
    adam_eps: float = bounded_field(above=0)
    hidden_sizes: tuple[int, ...] = bounded_field(minimum=1, nonempty=True)
    bootstrap_truncation: bool = bounded_field()

    def target_updates(self, critic_steps: int) -> int:
        """Return the number of target network updates."""
        return critic_steps // self.policy_delay
