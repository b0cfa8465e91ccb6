"""Which policy of a training its run keeps: the last one, or that of its best evaluation."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.contract.events import Evaluation, Events
from harness.record.policy import StoredPolicy


class Best:
    """What was learned when the mean return was largest; of equal evaluations the latest.

    Attributes:
        evaluation: Its index; None before the first.
        policy: What was learned by then.
    """

    def __init__(self, events: Events, learned: Callable[[], StoredPolicy]) -> None:
        """Listens to evaluations.

        Args:
            events: What happens.
            learned: Copies of what is learned as it is now.
        """
        self._learned, self._count, self._mean = learned, 0, -np.inf
        self.evaluation: int | None = None
        self.policy: StoredPolicy | None = None
        events.subscribe(Evaluation, self._look)

    def _look(self, told: Evaluation) -> None:
        mean = float(np.mean(told.returns))
        if mean >= self._mean:
            self._mean, self.evaluation, self.policy = mean, self._count, self._learned()
        self._count += 1

    def state(self) -> dict[str, Any]:
        """What it has kept, as plain values and arrays."""
        policy = None if self.policy is None else dataclasses.asdict(self.policy)
        return {
            **{"count": self._count, "mean": self._mean, "evaluation": self.evaluation},
            "policy": policy,
        }

    def lay_in(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        self._count, self._mean = state["count"], state["mean"]
        self.evaluation, policy = state["evaluation"], state["policy"]
        self.policy = None if policy is None else StoredPolicy(**policy)
