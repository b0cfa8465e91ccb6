"""Twin delayed deep deterministic policy gradient."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from parallax.harness.contract.algorithms.base import ActionKind, OffPolicy
from parallax.harness.contract.fields import bounded_field


@dataclasses.dataclass(frozen=True)
class TD3(OffPolicy):
    """Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

    Attributes:
        policy_learning_rate: Adam step size of the policy.
        critic_learning_rate: Adam step size of both critics.
        exploration_noise: Standard deviation of the Gaussian added to actions while
            collecting, as a share of half the action range; 0 is off.
        policy_delay: Critic steps per policy and target update, also before the first.
        target_policy_noise: Standard deviation of target smoothing, as a share of half the
            action range.
        target_noise_clip: Bound of target smoothing, as a share of half the action range.
    """

    label: ClassVar[str] = "TD3"
    actions: ClassVar[ActionKind] = "continuous"
    has_probes: ClassVar[bool] = True
    thesis_table: ClassVar[int | None] = 7
    # Fields that every framework exposes; the others keep each framework's own default under
    # alignment=common (thesis, appendix D: those not in italics).
    common_fields: ClassVar[frozenset[str]] = frozenset(
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
    conformance_values: ClassVar[Mapping[str, Any]] = {
        **OffPolicy.conformance_values,
        # Distinct rates, so that none is mistaken for another.
        "policy_learning_rate": 0.01,
        "critic_learning_rate": 0.005,
    }
    conformance_variation: ClassVar[Mapping[str, Any]] = {"learning_starts": 32, "policy_delay": 1}
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **OffPolicy.alternatives,
        "policy_learning_rate": (0.02,),
        "critic_learning_rate": (0.02,),
        "tau": (0.5,),
        "exploration_noise": (0.5,),
        "policy_delay": (3,),
        "target_policy_noise": (0.9,),
        "target_noise_clip": (0.01,),
    }

    policy_learning_rate: float = bounded_field(above=0)
    critic_learning_rate: float = bounded_field(above=0)
    batch_size: int = bounded_field(minimum=1)
    buffer_size: int = bounded_field(minimum=1)
    learning_starts: int = bounded_field(minimum=0)
    tau: float = bounded_field(above=0, maximum=1)
    gamma: float = bounded_field(minimum=0, maximum=1)
    train_freq: int = bounded_field(minimum=1)
    gradient_steps: int = bounded_field(minimum=1)
    exploration_noise: float = bounded_field(minimum=0)
    policy_delay: int = bounded_field(minimum=1)
    target_policy_noise: float = bounded_field(minimum=0)
    target_noise_clip: float = bounded_field(minimum=0)
    adam_eps: float = bounded_field(above=0)
    hidden_sizes: tuple[int, ...] = bounded_field(minimum=1, nonempty=True)
    bootstrap_truncation: bool = bounded_field()

    def target_updates(self, critic_steps: int) -> int:
        """Return the number of target network updates."""
        return critic_steps // self.policy_delay
