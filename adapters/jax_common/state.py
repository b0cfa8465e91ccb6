"""What is kept of JAX's arrays and of what flax and optax make, so that a training can go on."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from harness.contract.capture import Kind, fixed

KINDS = (
    Kind(
        jax.Array,
        lambda array, read: np.array(array),
        lambda live, state, write: jnp.asarray(state),  # arrays of JAX's never change
    ),
    *(fixed(kind) for kind in (nn.Module, type(jax.jit(abs)), jax.custom_jvp, jax.custom_vjp)),
)
"""How what JAX makes is told; keys of random numbers are arrays."""
