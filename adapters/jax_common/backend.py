"""How JAX computes in a run: on the processor, with one thread, and so the same each time."""

import os

_FLAGS = ("--xla_cpu_multi_thread_eigen=false", "intra_op_parallelism_threads=1")
"""Of XLA; read from the environment when it computes for the first time."""


def settle() -> None:
    """To be called before anything is computed with JAX; flags of the user's own are kept."""
    given = os.environ.get("XLA_FLAGS", "")
    own = [flag for flag in _FLAGS if flag.partition("=")[0] not in given]
    os.environ["XLA_FLAGS"] = " ".join([*given.split(), *own])
    import jax

    jax.config.update("jax_platforms", "cpu")
