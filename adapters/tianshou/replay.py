"""Proportional replay by Tianshou's own prioritised buffers."""

from typing import Any

from tianshou.data import PrioritizedReplayBuffer

from harness.contract.replay import Per
from harness.replay.proportional import annealed

_EPSILON = "_PrioritizedReplayBuffer__eps"
"""Where the buffer keeps what it adds to absolute errors; no argument sets it."""


class Priorities:
    """Sets a prioritised buffer as a run asks, and lets its beta rise."""

    def __init__(self, replay: Per, steps: int, buffer: PrioritizedReplayBuffer) -> None:
        """Sets epsilon.

        Args:
            replay: The hyperparameters.
            steps: Environment transitions of the run.
            buffer: New.

        Raises:
            AttributeError: This version of Tianshou keeps epsilon elsewhere.
        """
        getattr(buffer, _EPSILON)
        setattr(buffer, _EPSILON, replay.epsilon)
        self._replay, self._steps = replay, replay.beta_steps or steps
        self.anneal(buffer, 0)

    def anneal(self, buffer: PrioritizedReplayBuffer, taken: int) -> None:
        """Sets beta as it is after so many environment transitions."""
        beta = annealed(self._replay.beta, self._replay.beta_final, taken / self._steps)
        # That of several environments hands it on to its parts, and asks itself.
        PrioritizedReplayBuffer.set_beta(buffer, beta)


def arguments(replay: Per) -> dict[str, Any]:
    """What Tianshou's constructor takes."""
    return {"alpha": replay.alpha, "beta": replay.beta, "weight_norm": True}
