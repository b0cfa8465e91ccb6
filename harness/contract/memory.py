"""Greedy policies that remember what they have seen of an episode, and how they are played."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from harness.contract.adapter import Policy


class Player(Protocol):
    """Plays episodes side by side, one in each row, from their first step on."""

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        """Actions at the next step of all rows, as a `Policy` gives them.

        Args:
            observations: float32[N, ...]; of rows whose episode is over, whatever was shown last.
        """

    def rewarded(self, rewards: NDArray[Any]) -> None:
        """Told what the last actions were worth, [N]."""


@runtime_checkable
class Remembering(Protocol):
    """A greedy policy whose actions depend on what it has seen earlier in the episode.

    Called as any `Policy` it acts as at the first step of an episode and remembers nothing.
    """

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        """Actions at the first step of an episode."""

    def begin(self) -> Player:
        """New episodes in all rows, with nothing remembered; others go on undisturbed."""


class _Memoryless:
    """Any other policy as a player."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __call__(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        return self._policy(observations)

    def rewarded(self, rewards: NDArray[Any]) -> None:
        pass


def begin(policy: Policy) -> Player:
    """New episodes of a policy, whether it remembers or not."""
    return policy.begin() if isinstance(policy, Remembering) else _Memoryless(policy)
