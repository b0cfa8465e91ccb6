"""Replay buffers that look for missing numbers among the new transitions only.

After each collection Tianshou's trainer asks the buffer whether any number in it is NaN. The
answer is the same if only what came since the last question is looked at, and takes no longer
when the buffer is full.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tianshou.data import ReplayBuffer, VectorReplayBuffer


class _Newest(ReplayBuffer):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unseen: list[NDArray[Any]] = []

    def add(self, *args: Any, **kwargs: Any) -> Any:
        added = super().add(*args, **kwargs)
        self._unseen.append(added[0])
        return added

    def hasnull(self) -> bool:
        indices, self._unseen = self._unseen, []
        return bool(indices) and bool(self[np.concatenate(indices)].hasnull())


class Replay(_Newest, ReplayBuffer):
    """Transitions of one environment."""


class VectorReplay(_Newest, VectorReplayBuffer):
    """Transitions of several environments, each in a part of its own."""


def make_buffer(size: int, random_seed: int, n_envs: int) -> ReplayBuffer:
    """A buffer for the transitions of `n_envs` environments."""
    if n_envs == 1:
        return Replay(size, random_seed=random_seed)
    return VectorReplay(size, n_envs, random_seed=random_seed)
