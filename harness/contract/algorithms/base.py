"""Base class of an algorithm's hyperparameters, and the update schedule that they imply."""

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from parallax.envs.tasks import Task
from parallax.harness.contract.fields import SpecError

AlgorithmFamily = Literal["on-policy", "off-policy"]
"""Family of an algorithm: it learns only from its newest rollout, or from a replay buffer."""


@dataclasses.dataclass(frozen=True)
class UpdateSchedule:
    """Numbers of steps and updates in a whole run with one environment.

    Attributes:
        random_steps: Leading environment transitions with uniformly random actions.
        first_update: Environment transitions taken when the first gradient step is made.
        total_gradient_steps: Gradient steps of the critic; of all networks together in PPO.
        policy_updates: Gradient steps of the policy.
        target_updates: Steps of the target networks.
    """

    random_steps: int
    first_update: int
    total_gradient_steps: int
    policy_updates: int
    target_updates: int


ActionKind = Literal["continuous", "discrete"]
"""Action space: numbers within bounds, or one of a fixed number of choices."""


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """Base class: an algorithm is a subclass with its hyperparameters as `bounded_field`s.

    Code that treats algorithms differently reads one of these attributes, never a name.

    Attributes:
        label: Name of the algorithm in tables and figures.
        family: Whether it learns from its newest rollout or from a replay buffer.
        actions: The action space that it supports in every framework; adapters declare
            further ones.
        has_targets: Whether it trains with target networks.
        common_fields: Fields that are set under `alignment=common`; the others keep each
            framework's own default there.
        thesis_table: Number of the thesis' table of its hyperparameters, or None.
        has_probes: Whether there are probes of a single update of it.
        conformance_values: Values with which a training of some hundred steps shows what each
            field does, in the order in which conformance tries to set them.
        conformance_variation: Values of a second such training, which switch on what is off in the
            first, or give a field more effect.
        alternatives: Per field, other values to try; the first that a framework accepts is used.
    """

    label: ClassVar[str]
    family: ClassVar[AlgorithmFamily]
    actions: ClassVar[ActionKind]
    has_targets: ClassVar[bool]
    common_fields: ClassVar[frozenset[str]] = frozenset()
    thesis_table: ClassVar[int | None] = None
    has_probes: ClassVar[bool] = False
    conformance_values: ClassVar[Mapping[str, Any]] = {}
    conformance_variation: ClassVar[Mapping[str, Any]] = {}
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    if TYPE_CHECKING:  # every algorithm has it, but not at the same position among its fields

        @property
        def gamma(self) -> float:
            """Discount factor per environment step."""

    @property
    def sees_rewards(self) -> bool:
        """Return whether rewards are an input of the policy; evaluations do not scale them."""
        return False

    def resolve_for_task(self, task: Task) -> Self:
        """Return these values, with task-dependent values filled in.

        Raises:
            SpecError: They cannot be used on the task.
        """
        if task.image:
            raise SpecError(
                f"env={task.env_id} has image observations, which {self.label} does not "
                "support: use another task, or an algorithm with conv_filters, such as dqn or ppo."
            )
        return self

    def compute_update_schedule(self, steps: int) -> UpdateSchedule:
        """Return the update schedule of `steps` environment transitions."""
        raise NotImplementedError


def field_names(cls: type[Hyperparameters]) -> tuple[str, ...]:
    """Names of an algorithm's hyperparameters, in its order."""
    return tuple(field.name for field in dataclasses.fields(cls))


class OffPolicy(Hyperparameters):
    """An algorithm with a replay buffer and target networks.

    Subclasses have these fields, describe where one differs, and define how often targets are
    updated. The values for short trainings here are of these fields; subclasses add their own.

    Attributes:
        batch_size: Transitions per gradient step.
        buffer_size: Transitions the replay buffer holds.
        learning_starts: Environment transitions with uniformly random actions and no update.
        tau: Weight of the online network in a target update.
        gamma: Discount factor per environment step.
        train_freq: Environment transitions between cycles of gradient steps.
        gradient_steps: Gradient steps of the critics per update cycle.
        adam_eps: Adam's denominator constant, of all networks.
        hidden_sizes: Units per hidden layer, the same for all networks.
        bootstrap_truncation: Whether to bootstrap at time limits.
    """

    family: ClassVar[AlgorithmFamily] = "off-policy"
    has_targets: ClassVar[bool] = True
    conformance_values: ClassVar[Mapping[str, Any]] = {
        "hidden_sizes": (8, 8),
        "batch_size": 16,
        "buffer_size": 1000,
        "learning_starts": 64,
        "train_freq": 2,
        "gradient_steps": 2,
    }
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "batch_size": (24,),
        # Below the 128 steps of such a training, so that old transitions are overwritten.
        "buffer_size": (40,),
        "learning_starts": (96,),
        "gamma": (0.9, 0.5),
        "train_freq": (4,),
        "gradient_steps": (4,),
        "adam_eps": (1e-3,),
        "hidden_sizes": ((12, 12), (12, 9)),
        "bootstrap_truncation": (False, True),
    }

    learning_starts: int
    train_freq: int
    gradient_steps: int

    def compute_update_schedule(
        self, steps: int, first_update: int | None = None
    ) -> UpdateSchedule:
        """Return the update schedule of `steps` environment transitions.

        Args:
            steps: Environment transitions.
            first_update: Transitions taken at the first update cycle. By default that is the
                end of the first cycle of environment steps that ends at or after
                `learning_starts`; frameworks that begin a step later pass their number.
        """
        every = self.train_freq
        first = max(math.ceil(self.learning_starts / every), 1) * every
        first = first if first_update is None else first_update
        updates = max(0, (steps - first) // every + 1) * self.gradient_steps
        policy, targets = self.policy_updates(updates), self.target_updates(updates)
        return UpdateSchedule(self.random_steps(steps), first, updates, policy, targets)

    def compute_total_steps(self, steps: int) -> int:
        """Return `steps` environment transitions, rounded up to whole update cycles."""
        return math.ceil(steps / self.train_freq) * self.train_freq

    def random_steps(self, steps: int) -> int:
        """Leading transitions with uniformly random actions."""
        return min(self.learning_starts, steps)

    def policy_updates(self, critic_steps: int) -> int:
        """Return the number of policy updates that accompany `critic_steps` critic updates."""
        delay: int = getattr(self, "policy_delay", 1)
        return critic_steps // delay

    def target_updates(self, critic_steps: int) -> int:
        """Return the number of target network updates."""
        raise NotImplementedError


class PeriodicTargetUpdates(OffPolicy):
    """An algorithm whose targets are updated at intervals of environment transitions."""

    target_update_interval: int

    def target_updates(self, critic_steps: int) -> int:
        """Return the number of target network updates, at most one per update cycle."""
        rounds = critic_steps // self.gradient_steps
        return min(rounds, rounds * self.train_freq // self.target_update_interval)

    def target_interval_in_updates(self) -> int | None:
        """Return the target update interval in gradient steps; None if it is not whole."""
        steps = self.target_update_interval * self.gradient_steps
        return None if steps % self.train_freq else steps // self.train_freq
