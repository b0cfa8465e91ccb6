"""Accelerations of a training: other ways to compute the same update, by name.

A run has one, or `none`. Each adapter says which it supports (`Adapter.accelerations`) and why not
the others. Whether an accelerated update is the same one is measured, not assumed: see
`parallax lockstep --acceleration` and docs/reference/accelerations.md.
"""

import os
import shutil
from collections.abc import Mapping

NO_ACCELERATION = "none"

COMPILE, BFLOAT16, CUDA_GRAPHS = "compile", "bfloat16", "cuda-graphs"
FUSED_ADAM, FOREACH_ADAM, MATMUL_MEDIUM = "fused-adam", "foreach-adam", "matmul-medium"
EAGER, NO_VMAP = "eager", "no-vmap"

ACCELERATIONS: Mapping[str, str] = {
    NO_ACCELERATION: "computes as the framework does on its own",
    COMPILE: "compiles the networks that the framework calls with torch.compile; with TorchRL the "
    "whole update, as its scripts do",
    FUSED_ADAM: "takes each step of Adam in one kernel (Adam's option fused)",
    FOREACH_ADAM: "takes each step of Adam for all parameters together (Adam's option foreach)",
    MATMUL_MEDIUM: "lets matrix products round to bfloat16 inside "
    '(torch.set_float32_matmul_precision("medium"))',
    BFLOAT16: "computes the networks in bfloat16 by torch.autocast; losses and optimizers stay in "
    "float32",
    EAGER: "runs JAX without jit, operation by operation: slower, a baseline of what jit changes",
    NO_VMAP: "computes TorchRL's critics one after another in place of vmap "
    "(the losses' option deactivate_vmap)",
    CUDA_GRAPHS: "replays recorded kernels of a GPU",
}
"""What each acceleration does."""

GENERAL_TORCH_ACCELERATIONS = (FUSED_ADAM, FOREACH_ADAM, MATMUL_MEDIUM)
"""Accelerations of any training in PyTorch: they are options of PyTorch's own."""
NETWORK_ACCELERATIONS = (COMPILE, BFLOAT16)
"""Accelerations that change how networks are called."""

_TORCH_REASONS = {
    EAGER: "PyTorch computes operation by operation in any case",
    NO_VMAP: "only losses of TorchRL compute critics by vmap",
}
_JAX_REASON = "it is an option of PyTorch, and this framework computes with JAX"
_JAX_REASONS = {COMPILE: "JAX compiles its updates in any case"}
_NO_GPU_REASON = "it replays kernels of a GPU, and device=cpu has none"
_UNMEASURED_REASON = (
    "its updates were never compared with plain ones on a GPU, so nothing is known of their "
    "equality"
)


def explain_missing_acceleration(acceleration: str, device: str, library: str = "torch") -> str:
    """Return why frameworks of a tensor library lack an acceleration that they do not list.

    Args:
        acceleration: One of `ACCELERATIONS`.
        device: Where the networks compute.
        library: `torch` or `jax`.
    """
    if library == "jax":
        return _JAX_REASONS.get(acceleration, _JAX_REASON)
    if acceleration == CUDA_GRAPHS:
        return _NO_GPU_REASON if device == "cpu" else _UNMEASURED_REASON
    return _TORCH_REASONS.get(acceleration, "its adapter does not carry it")


def explain_missing_compiler() -> str:
    """Return why torch.compile cannot compile for the CPU here, or an empty string."""
    wanted = (os.environ.get("CXX"), "g++", "c++", "clang++")
    if any(name and shutil.which(name) for name in wanted):
        return ""
    return "torch.compile needs a C++ compiler for the CPU, and there is no g++ or clang++ here"
