"""Which train state came out of which, while an update is computed operation by operation.

JAX's arrays never change: a step makes a new train state, and upstream's own object gets it when
the whole compiled update is over. Who looks in the middle of one finds here what there is by then,
and which parameter an array is.
"""

from collections.abc import Iterator
from typing import Any

import jax
from flax.training.train_state import TrainState

_newest: dict[Any, TrainState] = {}
_places: dict[Any, int] = {}
_of_array: dict[int, tuple[Any, int]] = {}


def newest(state: TrainState) -> TrainState:
    """What has become of a train state; itself where nothing is known of a later one."""
    return _newest.get(_key(state), state)


def note(state: TrainState) -> None:
    """A train state has been made of another one, or is about to be computed with."""
    for field in ("params", "target_params"):
        for path, leaf in jax.tree_util.tree_leaves_with_path(getattr(state, field, ())):
            place = _places.setdefault((_key(state), field, path), len(_places) + 1)
            _of_array[id(leaf)] = leaf, place  # held, so that no id is used twice


def advance(state: TrainState) -> None:
    """A later one of its kind."""
    _newest[_key(state)] = state
    note(state)


def place(array: Any) -> int:
    """Which parameter an array is, the same number after each step; 0 for none."""
    return _of_array.get(id(array), (None, 0))[1]


def states_in(*trees: Any) -> Iterator[TrainState]:
    """All train states in arguments of a function."""
    for leaf in jax.tree_util.tree_leaves(trees, is_leaf=_is_state):
        if _is_state(leaf):
            yield leaf


def forget_steps() -> None:
    """Upstream's objects are what counts again."""
    _newest.clear()
    _of_array.clear()


def forget() -> None:
    """The training is over."""
    forget_steps()
    _places.clear()


def _is_state(node: Any) -> bool:
    return isinstance(node, TrainState)


def _key(state: TrainState) -> Any:
    return state.tx.update  # a function of this optimiser alone
