"""Recurrent replay distributed DQN."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from parallax.envs.tasks import Task
from parallax.harness.contract.algorithms.base import ActionKind, PeriodicTargetUpdates, field_names
from parallax.harness.contract.fields import SpecError, bounded_field


@dataclasses.dataclass(frozen=True)
class R2D2(PeriodicTargetUpdates):
    """Recurrent replay distributed DQN (Kapturowski et al. 2019, ICLR).

    Actors are parallel environments that are stepped together (`n_envs`), each with its own
    share of random actions, and with parameters that lag behind the learner's.

    Attributes:
        learning_rate: Adam step size.
        batch_size: Sequences per gradient step.
        buffer_size: Environment transitions the replay buffer holds. Each of its sequences counts
            as its transitions that the one before lacks: `sequence_length` - `overlap`.
        learning_starts: Environment transitions before the first update. Actors act as usual then.
        tau: Weight of the online network in a target update; 1 copies it.
        train_freq: Environment transitions of all actors between cycles of gradient steps.
        target_update_interval: Environment transitions between target updates. The paper counts
            gradient steps.
        n_step: Rewards that a target sums before it bootstraps; fewer at the end of a sequence.
        value_rescaling: Epsilon of h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x, which rescales
            the network's values; null leaves them in units of return.
        sequence_length: Steps of a sequence that are learned from, m.
        overlap: Steps that a sequence shares with the previous one of its episode.
        burn_in: Steps before a sequence that only bring its recurrent state up to date, l. At the
            beginning of an episode there are fewer.
        stored_state: Whether a sequence begins with the recurrent state that its actor had;
            otherwise with zeros.
        last_step_inputs: Whether the network sees the last action and reward besides the
            observation.
        priority_exponent: Exponent of a sequence's priority; 0 draws all with equal probability.
        importance_exponent: Exponent of the importance weights.
        max_error_share: Eta: a sequence's priority is eta times the largest of its absolute
            errors plus 1 - eta times their mean.
        epsilon_base: Base of the share of random actions of actor i of N,
            base^(1 + exponent i / (N - 1)) as in Ape-X (Horgan et al. 2018). For a single actor
            i / (N - 1) is replaced by 1/2.
        epsilon_exponent: Exponent in that formula.
        actor_refresh: Steps that each actor takes between two copies of the learner's parameters,
            which are made at the head of an update cycle.
        double_q: Whether the online network chooses the action whose target value is used.
        dueling: Whether the value of a state and the advantages of actions come from separate
            heads.
        max_grad_norm: Gradient norm to clip at; null is off.
        hidden_sizes: Units per layer before the LSTM.
        lstm_size: Units of the LSTM.
        head_sizes: Units per layer after the LSTM, of each head.
    """

    label: ClassVar[str] = "R2D2"
    actions: ClassVar[ActionKind] = "discrete"
    has_probes: ClassVar[bool] = True
    conformance_values: ClassVar[Mapping[str, Any]] = {
        **PeriodicTargetUpdates.conformance_values,
        "learning_rate": 0.03,
        # A multiple of the update cycle above, and so long that networks and targets differ.
        "target_update_interval": 32,
        "n_step": 2,
        # Losses are read in units of reward.
        "value_rescaling": None,
        "sequence_length": 4,
        "overlap": 2,
        "burn_in": 2,
        "priority_exponent": 0.9,
        "importance_exponent": 0.6,
        "epsilon_base": 0.6,
        "epsilon_exponent": 1.0,
        "actor_refresh": 2,
        # Close to typical gradient norms, so that a smaller value clips.
        "max_grad_norm": 10.0,
        # Widths that no other layer has.
        "lstm_size": 5,
        "head_sizes": (6,),
    }
    conformance_variation: ClassVar[Mapping[str, Any]] = {
        "learning_starts": 32,
        "max_grad_norm": 0.5,
        "stored_state": False,
        "burn_in": 0,
    }
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **PeriodicTargetUpdates.alternatives,
        "learning_rate": (0.02,),
        "tau": (0.5,),
        "target_update_interval": (16,),
        "n_step": (3,),
        "value_rescaling": (1e-3, None),
        "sequence_length": (6,),
        "overlap": (1,),
        "burn_in": (1,),
        "stored_state": (False, True),
        "last_step_inputs": (False, True),
        "priority_exponent": (0.1,),
        "importance_exponent": (0.1,),
        "max_error_share": (0.1,),
        "epsilon_base": (0.9,),
        "epsilon_exponent": (0.1,),
        "actor_refresh": (1000,),
        "double_q": (True, False),
        "dueling": (True, False),
        "max_grad_norm": (0.01,),
        "lstm_size": (7,),
        "head_sizes": ((9,),),
    }

    learning_rate: float = bounded_field(above=0)
    batch_size: int = bounded_field(minimum=1)
    buffer_size: int = bounded_field(minimum=1)
    learning_starts: int = bounded_field(minimum=0)
    tau: float = bounded_field(above=0, maximum=1)
    gamma: float = bounded_field(minimum=0, maximum=1)
    train_freq: int = bounded_field(minimum=1)
    gradient_steps: int = bounded_field(minimum=1)
    target_update_interval: int = bounded_field(minimum=1)
    n_step: int = bounded_field(minimum=1)
    value_rescaling: float | None = bounded_field(above=0)
    sequence_length: int = bounded_field(minimum=1)
    overlap: int = bounded_field(minimum=0)
    burn_in: int = bounded_field(minimum=0)
    stored_state: bool = bounded_field()
    last_step_inputs: bool = bounded_field()
    priority_exponent: float = bounded_field(minimum=0)
    importance_exponent: float = bounded_field(minimum=0)
    max_error_share: float = bounded_field(minimum=0, maximum=1)
    epsilon_base: float = bounded_field(minimum=0, maximum=1)
    epsilon_exponent: float = bounded_field(minimum=0)
    actor_refresh: int = bounded_field(minimum=1)
    double_q: bool = bounded_field()
    dueling: bool = bounded_field()
    max_grad_norm: float | None = bounded_field(above=0)
    adam_eps: float = bounded_field(above=0)
    hidden_sizes: tuple[int, ...] = bounded_field(minimum=1, nonempty=True)
    lstm_size: int = bounded_field(minimum=1)
    head_sizes: tuple[int, ...] = bounded_field(minimum=1, nonempty=True)
    bootstrap_truncation: bool = bounded_field()

    @property
    def sees_rewards(self) -> bool:
        """Return whether the last reward is an input of the network."""
        return self.last_step_inputs

    def resolve_for_task(self, task: Task) -> Self:
        """Return these values; each sequence must add a step to the previous sequence."""
        if self.overlap >= self.sequence_length:
            raise SpecError(
                f"hyperparameters.overlap={self.overlap} must be below "
                f"hyperparameters.sequence_length={self.sequence_length}: a sequence begins that "
                "much later than the one before."
            )
        if self.buffer_size < self.sequence_length - self.overlap:
            raise SpecError(
                f"hyperparameters.buffer_size={self.buffer_size} is too small for a sequence: use "
                f"{self.sequence_length - self.overlap} or more."
            )
        return super().resolve_for_task(task)

    def random_steps(self, steps: int) -> int:
        """Return 0: actors use their own shares of random actions from the first step on."""
        return 0


# Only one framework has R2D2; it exposes all fields but these.
R2D2.common_fields = frozenset(field_names(R2D2)) - {"tau", "bootstrap_truncation"}
