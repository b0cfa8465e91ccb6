"""Observer that counts a training's steps and updates independently of the adapter."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Policy, Weights
from parallax.harness.contract.algorithms.base import UpdateSchedule
from parallax.harness.contract.events import (
    BeforeOptimizerStep,
    EnvStep,
    EpisodeBegin,
    LayerForward,
    LossBackward,
    ParameterGroup,
    PolicyAttached,
    TargetNetworkUpdate,
    TargetUpdateDetector,
    TrainingEvents,
)

POLICY, CRITIC, TEMPERATURE = "policy", "critic", "temperature"


@dataclasses.dataclass(frozen=True)
class ObservedTraining:
    """Counts and values that were observed in one training.

    Attributes:
        learning_rates: Learning rate at each optimizer step, by role (`policy`, `critic`,
            `temperature`).
        target_step: The first update of target networks, with all weights; None without one.
        initial_weights: All weights before the first optimizer step.
        rows: Numbers of rows in layer inputs between the last environment step and first update.
        losses: Losses that were differentiated in the first update cycle, in order.
    """

    update_schedule: UpdateSchedule
    learning_rates: dict[str, list[float]]
    target_step: TargetNetworkUpdate | None
    initial_weights: Weights
    rows: frozenset[int]
    losses: tuple[float, ...]


class TrainingObserver:
    """Counts random steps, gradient steps and target updates of one training.

    The parameters of a gradient step show its role: a single number is the temperature,
    parameters that the greedy policy uses are the policy's, and all others are the critics'.
    """

    def __init__(self, events: TrainingEvents, probe: NDArray[np.float32]) -> None:
        """Subscribe to events; the policy is queried for the observations `probe`."""
        self._events, self._probe = events, probe
        self._are_random: list[bool] = []
        self._policy: Policy | None = None
        self._target_detector: TargetUpdateDetector | None = None
        self._first_update = 0
        self._target_updates: list[TargetNetworkUpdate] = []
        self._groups: dict[int, ParameterGroup] = {}  # references, so that no id is reused
        self._learning_rates: dict[int, list[float]] = defaultdict(list)
        self._policy_places: set[int] = set()
        self._network_ran = self._is_probing_policy = False
        self._read_weights: Callable[[], Weights] | None = None
        self._initial_weights: Weights = {}
        self._rows: set[int] = set()
        self._losses: list[float] = []
        events.subscribe(PolicyAttached, self._attach)
        events.subscribe(EpisodeBegin, self._before_reset)
        events.subscribe(EnvStep, self._before_step)
        events.subscribe(LayerForward, self._before_forward)
        events.subscribe(BeforeOptimizerStep, self._before_update)
        events.subscribe(LossBackward, self._before_backward)
        events.subscribe(TargetNetworkUpdate, self._target_updates.append)

    def summarize(self) -> ObservedTraining:
        """Return the observations of a training that has ended.

        Raises:
            AssertionError: Optimizers of critics did not step together.
        """
        if self._target_detector:
            self._target_detector.detect()
        steps: dict[str, set[int]] = defaultdict(set)
        rates: dict[str, list[float]] = {}
        for key, group_rates in self._learning_rates.items():
            role = self._identify_role(self._groups[key])
            steps[role].add(len(group_rates))
            rates[role] = group_rates
        policy = max(steps[POLICY], default=0)
        critics = steps[CRITIC] or {policy}
        assert len(critics) == 1, f"optimizers of critics stepped {sorted(critics)} times"
        updates = self._target_updates
        update_schedule = UpdateSchedule(
            self._count_random_steps(), self._first_update, critics.pop(), policy, len(updates)
        )
        first = updates[0] if updates else None
        rows, losses = frozenset(self._rows), tuple(self._losses)
        return ObservedTraining(update_schedule, rates, first, self._initial_weights, rows, losses)

    def _count_random_steps(self) -> int:
        # Collectors may call the policy once at construction, so step 1 counts like step 2.
        random = [*self._are_random[1:2], *self._are_random[1:]]
        return random.index(False) if False in random else len(random)

    def _attach(self, attached: PolicyAttached) -> None:
        self._policy, self._target_detector = (
            attached.policy,
            TargetUpdateDetector(self._events, attached.weights),
        )
        self._read_weights = attached.weights

    def _before_reset(self, event: EpisodeBegin) -> None:
        self._network_ran = False  # the next action is chosen after this

    def _before_step(self, event: EnvStep) -> None:
        self._are_random.append(not self._network_ran)
        self._network_ran = False
        if not self._first_update:
            self._rows.clear()

    def _before_backward(self, event: LossBackward) -> None:
        if self._first_update in (0, self._events.steps):
            self._losses.append(event.loss)

    def _before_update(self, step: BeforeOptimizerStep) -> None:
        assert self._policy and self._target_detector and self._read_weights, (
            "nothing was attached before the first update"
        )
        if not self._first_update:
            self._initial_weights = self._read_weights()
        self._first_update = self._first_update or self._events.steps
        self._target_detector.detect()
        self._note_policy_parameters(self._policy)
        for group in step.groups:
            if any(parameter.gradient for parameter in group.parameters):
                self._groups[id(group.own)] = group
                self._learning_rates[id(group.own)].append(group.settings["lr"])

    def _before_forward(self, forward: LayerForward) -> None:
        if self._is_probing_policy:
            self._policy_places.update(forward.places)
            return
        self._network_ran |= bool(forward.places)
        shape: tuple[int, ...] = getattr(next(iter(forward.inputs), None), "shape", ())
        if not self._first_update and len(shape) > 1:
            self._rows.add(int(shape[-2]))
            if len(shape) == 3:  # [rows, steps, numbers], if the algorithm learns from sequences
                self._rows.add(int(shape[0]))

    def _note_policy_parameters(self, policy: Policy) -> None:
        self._is_probing_policy = True
        try:
            policy(self._probe)
        finally:
            self._is_probing_policy = False

    def _identify_role(self, group: ParameterGroup) -> str:
        if any(parameter.place in self._policy_places for parameter in group.parameters):
            return POLICY
        size = sum(parameter.size for parameter in group.parameters)
        return TEMPERATURE if size == 1 else CRITIC
