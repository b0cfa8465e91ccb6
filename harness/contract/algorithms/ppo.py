"""Proximal policy optimisation."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from parallax.envs.tasks import Task
from parallax.harness.contract.algorithms.base import (
    ActionKind,
    AlgorithmFamily,
    Hyperparameters,
    UpdateSchedule,
)
from parallax.harness.contract.algorithms.image_encoder import resolve_conv_filters
from parallax.harness.contract.fields import SCHEDULES, SpecError, bounded_field


@dataclasses.dataclass(frozen=True)
class PPO(Hyperparameters):
    """Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347).

    Attributes:
        learning_rate: Adam step size of policy and value network, at the start of the run.
        learning_rate_schedule: `constant`, or `linear`: the start value in the first rollout's
            updates, then lower by equal steps after each rollout, to 0 after the last whole
            rollout of the run.
        rollout_steps: Environment transitions per rollout, all environments together.
        minibatch_size: Transitions per gradient step.
        epochs: Passes over each rollout.
        gamma: Discount factor per environment step.
        gae_lambda: Exponential weight of generalised advantage estimation.
        clip_range: Half-width of the interval around 1 that the probability ratio is clipped to.
        clip_range_schedule: Schedule of `clip_range`, as `learning_rate_schedule`.
        value_clip_range: Largest change of a value prediction, in units of return; null is off.
            The loss takes the larger error of the clipped and the unclipped prediction.
        normalize_advantage: Whether the advantages of each minibatch are normalized to zero mean
            and unit deviation; a minibatch then needs at least two transitions.
        ent_coef: Weight of the entropy, summed over the dimensions of an action.
        vf_coef: Weight of the mean squared error of the values, without a factor 1/2.
        max_grad_norm: Norm of the gradients of all networks together to clip at; null is off.
        target_kl: Approximate KL divergence of a minibatch, mean(ratio - 1 - log ratio), at
            which updates on the current rollout stop, before the step of that minibatch; null is
            off.
        adam_eps: Adam's denominator constant.
        hidden_sizes: Units per hidden layer, the same for policy and value network. If
            observations are images, these layers follow the convolutions and use ReLU; both
            networks share them and the convolutions, and each adds one linear layer.
        conv_filters: Filters of each convolution if observations are images, as in `DQN`.
        bootstrap_truncation: Whether to bootstrap at time limits.
    """

    label: ClassVar[str] = "PPO"
    family: ClassVar[AlgorithmFamily] = "on-policy"
    actions: ClassVar[ActionKind] = "continuous"
    has_targets: ClassVar[bool] = False
    has_probes: ClassVar[bool] = True
    thesis_table: ClassVar[int | None] = 6
    # Fields that every framework exposes; the others keep each framework's own default under
    # alignment=common (thesis, appendix D: those not in italics).
    common_fields: ClassVar[frozenset[str]] = frozenset(
        (
            "learning_rate",
            "learning_rate_schedule",
            "rollout_steps",
            "minibatch_size",
            "epochs",
            "gamma",
            "gae_lambda",
            "clip_range",
            "value_clip_range",
            "ent_coef",
            "vf_coef",
        )
    )
    conformance_values: ClassVar[Mapping[str, Any]] = {
        "rollout_steps": 64,
        "minibatch_size": 16,
        # A large step size makes ratios and values leave their clip ranges.
        "learning_rate": 0.01,
        "epochs": 3,
        "value_clip_range": None,
        "hidden_sizes": (8, 8),
    }
    conformance_variation: ClassVar[Mapping[str, Any]] = {
        "ent_coef": 0.01,
        "value_clip_range": 0.2,
        "learning_rate_schedule": "linear",
        "max_grad_norm": 0.5,
        "target_kl": 0.05,
        "normalize_advantage": True,
    }
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "learning_rate": (0.02,),
        "learning_rate_schedule": ("linear", "constant"),
        "rollout_steps": (96, 32),
        "minibatch_size": (32, 24),
        "epochs": (2,),
        "gamma": (0.9, 0.5),
        "gae_lambda": (0.5,),
        "clip_range": (0.05,),
        "clip_range_schedule": ("linear", "constant"),
        "value_clip_range": (0.05, 0.2, None),
        "normalize_advantage": (False, True),
        "ent_coef": (0.1,),
        "vf_coef": (1.0,),
        "max_grad_norm": (0.01,),
        "target_kl": (1e-6,),
        "adam_eps": (1e-3,),
        "hidden_sizes": ((12, 12), (12, 9)),
        "conv_filters": ((4,), None),
        "bootstrap_truncation": (False, True),
    }

    learning_rate: float = bounded_field(above=0)
    learning_rate_schedule: str = bounded_field(choices=SCHEDULES)
    rollout_steps: int = bounded_field(minimum=1)
    minibatch_size: int = bounded_field(minimum=1)
    epochs: int = bounded_field(minimum=1)
    gamma: float = bounded_field(minimum=0, maximum=1)
    gae_lambda: float = bounded_field(minimum=0, maximum=1)
    clip_range: float = bounded_field(above=0)
    clip_range_schedule: str = bounded_field(choices=SCHEDULES)
    value_clip_range: float | None = bounded_field(above=0)
    normalize_advantage: bool = bounded_field()
    ent_coef: float = bounded_field(minimum=0)
    vf_coef: float = bounded_field(minimum=0)
    max_grad_norm: float | None = bounded_field(above=0)
    target_kl: float | None = bounded_field(above=0)
    adam_eps: float = bounded_field(above=0)
    hidden_sizes: tuple[int, ...] = bounded_field(minimum=1, nonempty=True)
    conv_filters: tuple[int, ...] | None = bounded_field(
        minimum=1, nonempty=True, legacy_value=None
    )
    bootstrap_truncation: bool = bounded_field()

    def resolve_for_task(self, task: Task) -> Self:
        """Return these values with convolutions if observations are images, else without.

        Raises:
            SpecError: The filters do not fit the task, its actions are not discrete, or advantages
                of a single transition would be normalized.
        """
        sizes = (self.minibatch_size, self.rollout_steps % self.minibatch_size)
        if self.normalize_advantage and 1 in sizes:
            raise SpecError(
                f"hyperparameters.minibatch_size={self.minibatch_size} leaves a minibatch of one "
                f"transition in hyperparameters.rollout_steps={self.rollout_steps}, whose "
                "advantage has no deviation to be normalized by: change one of them, or use "
                "hyperparameters.normalize_advantage=false."
            )
        if task.image and not task.choices:
            raise SpecError(
                f"env={task.env_id} shows images and has continuous actions: PPO takes images "
                "with discrete actions only. Use another task."
            )
        filters = resolve_conv_filters(self.conv_filters, task)
        return dataclasses.replace(self, conv_filters=filters)

    def compute_update_schedule(self, steps: int) -> UpdateSchedule:
        """Return the update schedule of `steps` environment transitions.

        Each rollout is cut into minibatches, the last of which may be smaller.
        """
        minibatches = math.ceil(self.rollout_steps / self.minibatch_size)
        # Transitions after the last whole rollout are not learned from.
        updates = steps // self.rollout_steps * self.epochs * minibatches
        return UpdateSchedule(0, self.rollout_steps, updates, updates, 0)
