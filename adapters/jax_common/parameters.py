"""Conversion of the parameters of flax's train states to arrays by name, and back."""

import functools
import os
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.core import FrozenDict
from flax.training.train_state import TrainState

from parallax.adapters.jax_common.eager_execution import get_newest_state
from parallax.harness.contract.adapter import CPU, Weights, check_weights_fit
from parallax.harness.contract.interpreter import make_private_cache_folder
from parallax.harness.contract.state_codec import ObjectCodec, make_stateless_codec

TrainStates = Mapping[str, TrainState]
"""The train states of a model by the network that they train, such as `policy`."""


def weights_from_states(states: TrainStates) -> Weights:
    """Return copies of the current parameters as arrays; names mark those of target networks.

    While an update is computed operation by operation for watchers, its new parameters are
    returned before upstream's own object has them.
    """
    return {name: np.array(leaf) for name, leaf in get_parameter_arrays(states).items()}


def replace_weights(states: TrainStates, weights: Weights) -> dict[str, TrainState]:
    """Return the same states with the arrays as parameters.

    Raises:
        SpecError: Names or shapes differ.
    """
    check_weights_fit(weights, get_parameter_arrays(states))
    return {label: _replace_state_weights(label, state, weights) for label, state in states.items()}


def get_parameter_trees(state: TrainState) -> dict[str, Any]:
    """Return the trees of learned parameters in a train state, by a suffix of its name."""
    found = {"": state.params}
    if hasattr(state, "target_params"):
        found["_target"] = state.target_params
    return found


def format_path(path: tuple[Any, ...]) -> str:
    """Return the place of a leaf as text, without flax's outermost `params`."""
    keys = [str(getattr(key, "key", getattr(key, "idx", key))) for key in path]
    return ".".join(keys[1:] if keys[:1] == ["params"] else keys)


def get_parameter_arrays(states: TrainStates) -> dict[str, Any]:
    """Return JAX's arrays of the current parameters, by the names of `weights_from_states`."""
    found: dict[str, Any] = {}
    for label, state in states.items():
        for suffix, tree in get_parameter_trees(get_newest_state(state)).items():
            leaves, structure = jax.tree_util.tree_flatten(tree)
            names = _list_leaf_names(f"{label}{suffix}", structure)
            found.update(zip(names, leaves, strict=True))
    return found


@functools.lru_cache(maxsize=64)  # recorders read parameters at each step
def _list_leaf_names(prefix: str, structure: Any) -> tuple[str, ...]:
    tree = jax.tree_util.tree_unflatten(structure, range(structure.num_leaves))
    paths = (path for path, _ in jax.tree_util.tree_leaves_with_path(tree))
    return tuple(f"{prefix}.{format_path(path)}" for path in paths)


def _replace_state_weights(label: str, state: TrainState, weights: Weights) -> TrainState:
    changes = {
        "target_params" if suffix else "params": jax.tree_util.tree_map_with_path(
            lambda path, leaf, name=f"{label}{suffix}": jnp.asarray(
                weights[f"{name}.{format_path(path)}"], _choose_dtype(leaf)
            ),
            tree,
        )
        for suffix, tree in get_parameter_trees(state).items()
    }
    if jax.config.jax_enable_x64:
        changes["opt_state"] = jax.tree_util.tree_map(_convert_optimizer_value, state.opt_state)
    return state.replace(**changes)


def _choose_dtype(leaf: Any) -> Any:
    """Return float64 for floats while JAX computes in it, which only probed trainings do.

    flax still makes parameters in float32, and results computed from two float32 stay float32.
    """
    dtype = jnp.asarray(leaf).dtype
    is_float = jnp.issubdtype(dtype, jnp.floating)
    return jnp.float64 if jax.config.jax_enable_x64 and is_float else dtype


def _convert_optimizer_value(leaf: Any) -> Any:
    """Return a value of an optimizer's state in float64.

    optax stores the learning rate and the decay rates as float32: a scalar becomes the decimal
    number that it is the nearest float32 of, such as 0.001.
    """
    if np.ndim(leaf) == 0 and _choose_dtype(leaf) == jnp.float64:
        return jnp.asarray(float(str(np.asarray(leaf))), jnp.float64)
    return jnp.asarray(leaf, _choose_dtype(leaf))


JAX_CODECS = (
    ObjectCodec(
        jax.Array,
        lambda array, read: np.array(array),
        lambda live, state, write: jnp.asarray(state),  # arrays of JAX's never change
    ),
    *(
        make_stateless_codec(kind)
        for kind in (nn.Module, type(jax.jit(abs)), jax.custom_jvp, jax.custom_vjp)
    ),
)
"""Serialization of JAX's objects; keys of random numbers are arrays."""

TYPES: tuple[type[Any], ...] = (
    *(TrainState, FrozenDict, optax.EmptyState, optax.ScaleByAdamState),
    *(optax.ScaleByScheduleState, optax.InjectStatefulHyperparamsState),
)
"""Types of flax and optax whose objects may be made from a checkpoint."""

# JAX ignores OMP_NUM_THREADS; these are the options of its issue 743.
_XLA_FLAGS = ("--xla_cpu_multi_thread_eigen=false", "intra_op_parallelism_threads=1")
# Autotuning chooses other kernels in each process.
_XLA_GPU_FLAGS = ("--xla_gpu_deterministic_ops=true", "--xla_gpu_autotune_level=0")
"""XLA reads these flags from the environment when it computes for the first time."""


def configure_jax(device: str = CPU) -> None:
    """Set JAX's flags before its first computation; flags set by the user are preserved."""
    given = os.environ.get("XLA_FLAGS", "")
    flags = _XLA_FLAGS if device == CPU else (*_XLA_FLAGS, *_XLA_GPU_FLAGS)
    own = [flag for flag in flags if flag.partition("=")[0] not in given]
    os.environ["XLA_FLAGS"] = " ".join([*given.split(), *own])
    # By default, JAX reserves three quarters of a GPU's memory, even if other runs need it.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax.config.update("jax_platforms", CPU if device == CPU else f"{device},{CPU}")
    # Later processes load compiled code, cached by code, version and processor: the same bits.
    is_stored = device == CPU and jax.config.jax_compilation_cache_dir is None
    if is_stored and (folder := make_private_cache_folder("jax")):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
