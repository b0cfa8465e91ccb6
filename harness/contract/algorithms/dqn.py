"""Deep Q-network."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from parallax.envs.tasks import Task
from parallax.harness.contract.algorithms.base import ActionKind, OffPolicy, PeriodicTargetUpdates
from parallax.harness.contract.algorithms.image_encoder import resolve_conv_filters
from parallax.harness.contract.fields import SpecError, bounded_field


@dataclasses.dataclass(frozen=True)
class DQN(PeriodicTargetUpdates):
    """Deep Q-network (Mnih et al. 2015, Nature 518).

    Attributes:
        learning_rate: Adam step size. The paper uses RMSProp, which no framework does.
        learning_starts: Environment transitions before the first update, with uniformly random
            actions in the paper.
        tau: Weight of the online network in a target update; 1 copies it.
        target_update_interval: Environment transitions between target updates, of which there is
            at most one per cycle. The paper counts updates, one in 4 transitions.
        exploration_initial: Share of random actions at the start.
        exploration_final: Share of random actions at the end.
        exploration_steps: Environment transitions over which the share falls linearly, from
            the first on.
        double_q: Whether the online network chooses the action whose target value is used
            (van Hasselt et al. 2016, arXiv:1509.06461).
        dueling: Whether the value of a state and the advantages of actions come from separate
            heads, each with the last of `hidden_sizes` (Wang et al. 2016, arXiv:1511.06581).
        huber_delta: Error above which the Huber loss is linear; below it is half the squared
            error. Null is the whole squared error.
        max_grad_norm: Gradient norm to clip at; null is off.
        hidden_sizes: Units per hidden layer, after the convolutions if there are some.
        conv_filters: Filters of each convolution if observations are images. Kernels are 3 by 3
            with stride 1; for large images the first is 8 by 8 with stride 4, and the second 4 by 4
            with stride 2. Null is [16], as in the paper on MinAtar (Young and Tian 2019,
            arXiv:1903.03176), and [32, 64, 64] for large images, as in Mnih et al. (2015). Without
            images it must be null.
    """

    label: ClassVar[str] = "DQN"
    actions: ClassVar[ActionKind] = "discrete"
    has_probes: ClassVar[bool] = True
    # What every framework exposes.
    common_fields: ClassVar[frozenset[str]] = frozenset(
        (
            "learning_rate",
            "batch_size",
            "buffer_size",
            "learning_starts",
            "gamma",
            "exploration_initial",
            "exploration_final",
            "exploration_steps",
        )
    )
    conformance_values: ClassVar[Mapping[str, Any]] = {
        **OffPolicy.conformance_values,
        "learning_rate": 0.01,
        "target_update_interval": 8,  # a multiple of the update cycle above
        "exploration_initial": 0.2,
        "exploration_final": 0.0,
        "exploration_steps": 100,
        # Close to typical gradient norms, so that a smaller value clips.
        "max_grad_norm": 10.0,
    }
    conformance_variation: ClassVar[Mapping[str, Any]] = {
        "learning_starts": 32,
        "max_grad_norm": 0.5,
        "target_update_interval": 8,
        "tau": 0.5,
    }
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **OffPolicy.alternatives,
        "learning_rate": (0.02,),
        "tau": (0.5,),
        "gamma": (0.9, 0.5),
        "target_update_interval": (16,),
        "exploration_initial": (1.0,),
        # At most `exploration_initial` above: the share falls.
        "exploration_final": (0.19,),
        "exploration_steps": (2000,),
        "double_q": (True, False),
        "dueling": (True, False),
        "huber_delta": (0.05, 1.0, None),
        "max_grad_norm": (0.01,),
        "conv_filters": ((4,), None),
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
    exploration_initial: float = bounded_field(minimum=0, maximum=1)
    exploration_final: float = bounded_field(minimum=0, maximum=1)
    exploration_steps: int = bounded_field(minimum=1)
    double_q: bool = bounded_field()
    dueling: bool = bounded_field()
    huber_delta: float | None = bounded_field(above=0)
    max_grad_norm: float | None = bounded_field(above=0)
    adam_eps: float = bounded_field(above=0)
    hidden_sizes: tuple[int, ...] = bounded_field(minimum=1, nonempty=True)
    conv_filters: tuple[int, ...] | None = bounded_field(
        minimum=1, nonempty=True, legacy_value=None
    )
    bootstrap_truncation: bool = bounded_field()

    def compute_target_interval(self, converts_meanings: bool) -> int:
        """Return `target_update_interval`, but at least a cycle's steps if `tau` is below 1.

        Upstream would update targets several times per cycle if the interval is shorter; the
        schema does once. Without `converts_meanings`, upstream's behaviour applies.
        """
        is_short = converts_meanings and self.tau < 1
        return max(self.target_update_interval, self.train_freq if is_short else 1)

    def resolve_for_task(self, task: Task) -> Self:
        """Return these values with convolutions if observations are images, else without.

        Raises:
            SpecError: The filters do not fit the task, or the share of random actions would rise.
        """
        if self.exploration_final > self.exploration_initial:
            raise SpecError(
                f"hyperparameters.exploration_final={self.exploration_final} must be at most "
                f"hyperparameters.exploration_initial={self.exploration_initial}: the share of "
                "random actions falls."
            )
        filters = resolve_conv_filters(self.conv_filters, task)
        return dataclasses.replace(self, conv_filters=filters)
