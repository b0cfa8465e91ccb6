"""Parameters of flax's train states as arrays by name, and arrays laid into them."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.training.train_state import TrainState

from adapters.jax_common.lineage import newest
from harness.contract.adapter import Weights
from harness.contract.fields import SpecError

States = Mapping[str, TrainState]
"""The train states of a model by what they train, such as `policy`."""


def copies(states: States) -> Weights:
    """What the parameters are now, as arrays of their own; those of targets are named so.

    While an update is computed operation by operation, as for watchers, its parameters count
    before upstream's own object has them.
    """
    return {name: np.array(leaf) for name, leaf in leaves(states).items()}


def lay_in(states: States, weights: Weights) -> dict[str, TrainState]:
    """The same states with the arrays as parameters.

    Args:
        states: As they are.
        weights: Arrays as `copies` makes them.

    Raises:
        SpecError: Names or shapes are others.
    """
    known = leaves(states)
    lacking = sorted(known.keys() - weights.keys())
    surplus = sorted(weights.keys() - known.keys())
    if lacking or surplus:
        told = (("there are none for", lacking), ("there is no", surplus))
        raise SpecError(
            "the weights are of another network: "
            + "; ".join(f"{words} {', '.join(names[:5])}" for words, names in told if names)
        )
    for name, leaf in known.items():
        if tuple(leaf.shape) != weights[name].shape:
            raise SpecError(
                f"the weights are of another network: {name} has shape {weights[name].shape} "
                f"where {tuple(leaf.shape)} is needed"
            )
    return {label: _filled(label, state, weights) for label, state in states.items()}


def trees(state: TrainState) -> dict[str, Any]:
    """What a train state holds of numbers that are learned: a suffix of its name to a tree."""
    found = {"": state.params}
    if hasattr(state, "target_params"):
        found["_target"] = state.target_params
    return found


def path_name(path: tuple[Any, ...]) -> str:
    """The place of a leaf as text, without flax's outermost `params`."""
    keys = [str(getattr(key, "key", getattr(key, "idx", key))) for key in path]
    return ".".join(keys[1:] if keys[:1] == ["params"] else keys)


def leaves(states: States) -> dict[str, Any]:
    """JAX's arrays that the parameters are now, by the names that `copies` has."""
    return {
        f"{label}{suffix}.{path_name(path)}": leaf
        for label, state in states.items()
        for suffix, tree in trees(newest(state)).items()
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _filled(label: str, state: TrainState, weights: Weights) -> TrainState:
    changes = {
        "target_params" if suffix else "params": jax.tree_util.tree_map_with_path(
            lambda path, leaf, name=f"{label}{suffix}": jnp.asarray(
                weights[f"{name}.{path_name(path)}"], leaf.dtype
            ),
            tree,
        )
        for suffix, tree in trees(state).items()
    }
    return state.replace(**changes)
