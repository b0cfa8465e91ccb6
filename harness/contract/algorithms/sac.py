"""Soft actor-critic with a learned temperature."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from parallax.harness.contract.algorithms.base import ActionKind, OffPolicy
from parallax.harness.contract.fields import bounded_field


@dataclasses.dataclass(frozen=True)
class SAC(OffPolicy):
    """Soft actor-critic with a learned temperature (Haarnoja et al. 2019, arXiv:1812.05905).

    Attributes:
        policy_learning_rate: Adam step size of the policy.
        critic_learning_rate: Adam step size of both critics.
        temperature_learning_rate: Adam step size of the temperature.
        policy_delay: Critic steps per update of policy and temperature.
        target_update_interval: Critic steps per target update, which follows the last of them.
        initial_temperature: Temperature at the start; it is learned from there.
        target_entropy: Entropy that the temperature is tuned for, in nats, of actions scaled to
            the range from -1 to 1; null is minus the number of action dimensions.
    """

    label: ClassVar[str] = "SAC"
    actions: ClassVar[ActionKind] = "continuous"
    has_probes: ClassVar[bool] = True
    thesis_table: ClassVar[int | None] = 8
    # Fields that every framework exposes; the others keep each framework's own default under
    # alignment=common (thesis, appendix D: those not in italics).
    common_fields: ClassVar[frozenset[str]] = frozenset(
        (
            "policy_learning_rate",
            "batch_size",
            "buffer_size",
            "learning_starts",
            "tau",
            "gamma",
            "initial_temperature",
        )
    )
    conformance_values: ClassVar[Mapping[str, Any]] = {
        **OffPolicy.conformance_values,
        # Distinct rates, so that none is mistaken for another.
        "policy_learning_rate": 0.01,
        "critic_learning_rate": 0.005,
        "temperature_learning_rate": 0.03,
    }
    conformance_variation: ClassVar[Mapping[str, Any]] = {"learning_starts": 32, "policy_delay": 2}
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **OffPolicy.alternatives,
        "policy_learning_rate": (0.02,),
        "critic_learning_rate": (0.02,),
        "temperature_learning_rate": (0.02,),
        "tau": (0.5,),
        "policy_delay": (3,),
        "target_update_interval": (2,),
        "initial_temperature": (0.5,),
        "target_entropy": (-7.0,),
    }

    policy_learning_rate: float = bounded_field(above=0)
    critic_learning_rate: float = bounded_field(above=0)
    temperature_learning_rate: float = bounded_field(above=0)
    batch_size: int = bounded_field(minimum=1)
    buffer_size: int = bounded_field(minimum=1)
    learning_starts: int = bounded_field(minimum=0)
    tau: float = bounded_field(above=0, maximum=1)
    gamma: float = bounded_field(minimum=0, maximum=1)
    train_freq: int = bounded_field(minimum=1)
    gradient_steps: int = bounded_field(minimum=1)
    policy_delay: int = bounded_field(minimum=1)
    target_update_interval: int = bounded_field(minimum=1)
    initial_temperature: float = bounded_field(above=0)
    target_entropy: float | None = bounded_field()
    adam_eps: float = bounded_field(above=0)
    hidden_sizes: tuple[int, ...] = bounded_field(minimum=1, nonempty=True)
    bootstrap_truncation: bool = bounded_field()

    def target_updates(self, critic_steps: int) -> int:
        """Return the number of target network updates."""
        return critic_steps // self.target_update_interval
