"""From hyperparameters to a way of replaying, with one numbering of errors for all frameworks."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.contract.replay import Replay, make_replay
from harness.replay.atdc import AtdcPer
from harness.replay.imp import ImpPer
from harness.replay.proportional import Proportional
from harness.replay.rank import RankBased
from harness.replay.strategy import SumTree

_CLASSES: Mapping[str, Any] = {
    "per": Proportional,
    "rank": RankBased,
    "atdc": AtdcPer,
    "imp": ImpPer,
}
_STREAM = 0x7265706C6179
"""Tells the numbers that transitions are drawn by from all others of the same seed."""

NewTree = Callable[[int], SumTree]


def make_strategy(
    replay: Replay | Mapping[str, Any], capacity: int, steps: int, tree: NewTree
) -> Proportional:
    """A way of replaying that stores nothing yet.

    Args:
        replay: Hyperparameters, or what `Replay.told` says of them.
        capacity: Transitions that are stored at most.
        steps: Environment transitions of the whole run.
        tree: Makes a sum tree of zeros for so many numbers.

    Raises:
        SpecError: The hyperparameters are none.
        ValueError: They are those of uniform replay, which is upstream's own.
    """
    checked = replay if isinstance(replay, Replay) else make_replay(replay)
    if checked.is_uniform:
        raise ValueError("replay=uniform needs no strategy.")
    made: Proportional = _CLASSES[checked.name](checked, capacity, steps, tree(capacity))
    return made


def generator(seed: int) -> np.random.Generator:
    """The random numbers by which a run draws transitions."""
    return np.random.default_rng([seed, _STREAM])


def joined(errors: NDArray[Any], critics: str) -> NDArray[Any]:
    """One absolute error for each transition.

    Args:
        errors: Of every critic, [critics, n].
        critics: `mean`, `max`, `first` or `net`, which is that of the mean.
    """
    if critics == "net":
        return np.asarray(np.abs(errors.mean(axis=0)))
    absolute = np.abs(errors)
    if critics == "first":
        return np.asarray(absolute[0])
    return np.asarray(absolute.max(axis=0) if critics == "max" else absolute.mean(axis=0))
