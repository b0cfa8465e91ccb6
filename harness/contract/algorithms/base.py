"""What every algorithm is to the rest of the project: its hyperparameters, and what follows."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from envs.tasks import Task
from harness.contract.algorithms.cadence import Cadence, Family
from harness.contract.fields import SpecError

Actions = Literal["continuous", "discrete"]
"""What an action is: numbers within bounds, or one of so many choices."""


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """An algorithm: a subclass with its hyperparameters as fields, made with `bounded`.

    Whoever treats algorithms differently asks for one of these attributes, never for a name.

    Attributes:
        label: How the algorithm is called in tables and figures.
        family: Whether it learns from its newest rollout or from a replay buffer.
        actions: The kind of actions it chooses everywhere; what else a framework's takes, its
            adapter says.
        has_targets: Whether it trains with target networks.
        thesis_fields: What is set under `alignment=thesis`; the other fields keep each
            framework's own default there.
        thesis_table: Number of the thesis' table of its hyperparameters; None where the
            thesis has none.
        asked_by_probes: Whether there are probes of a single update of it.
        small: Values with which a training of some hundred steps shows what each field
            does, in the order in which conformance tries to set them.
        varied: Values that a second such training has instead, with which what is off in the first
            is on, or a field has more effect.
        alternatives: Per field, other values to try; the first that a framework takes counts.
    """

    label: ClassVar[str]
    family: ClassVar[Family]
    actions: ClassVar[Actions]
    has_targets: ClassVar[bool]
    thesis_fields: ClassVar[frozenset[str]] = frozenset()
    thesis_table: ClassVar[int | None] = None
    asked_by_probes: ClassVar[bool] = False
    small: ClassVar[Mapping[str, Any]] = {}
    varied: ClassVar[Mapping[str, Any]] = {}
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    if TYPE_CHECKING:  # every algorithm has it, at a place of its own among its fields

        @property
        def gamma(self) -> float:
            """Discount factor per environment step."""

    @property
    def sees_rewards(self) -> bool:
        """Whether the policy is shown rewards; evaluations do not scale them."""
        return False

    def on_task(self, task: Task) -> Self:
        """These values with what they leave to the task filled in.

        Raises:
            SpecError: They cannot be used on it.
        """
        if task.image:
            raise SpecError(
                f"env={task.env_id} shows images, and {self.label} takes none: use another task, "
                "or an algorithm with conv_filters among its hyperparameters, such as dqn."
            )
        return self

    def cadence(self, steps: int) -> Cadence:
        """What these values make of `steps` environment transitions."""
        raise NotImplementedError


def field_names(cls: type[Hyperparameters]) -> tuple[str, ...]:
    """Names of an algorithm's hyperparameters, in its order."""
    return tuple(field.name for field in dataclasses.fields(cls))
