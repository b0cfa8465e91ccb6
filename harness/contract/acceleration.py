"""Accelerations of a training: other ways to compute the same update, by name.

A run has one, or `none`. Each adapter says which it supports (`Adapter.accelerations`) and why not
the others. Whether an accelerated update is the same one is measured, not assumed: see
`parallax lockstep --acceleration` and docs/reference/accelerations.md.
"""

import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from parallax.harness.contract.fields import SpecError

if TYPE_CHECKING:
    from parallax.harness.contract.adapter import Adapter

NO_ACCELERATION = "none"

COMPILE, BFLOAT16, CUDA_GRAPHS = "compile", "bfloat16", "cuda-graphs"
FUSED_ADAM, FOREACH_ADAM, MATMUL_MEDIUM = "fused-adam", "foreach-adam", "matmul-medium"
EAGER, NO_VMAP = "eager", "no-vmap"
CUDA = "cuda"
"""Device that probes and lockstep compare with the CPU, given in place of an acceleration."""

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
"""Accelerations that work with any PyTorch training: they are options of PyTorch itself."""

_TORCH_REASONS = {
    EAGER: "PyTorch computes operation by operation in any case",
    NO_VMAP: "only losses of TorchRL compute critics by vmap",
}
_JAX_REASON = "it is an option of PyTorch, and this framework computes with JAX"
_JAX_REASONS = {COMPILE: "JAX compiles its updates in any case"}
_NO_GPU_REASON = "it replays kernels of a GPU, and device=cpu has none"
_OVERWRITTEN_REASON = (
    "a replayed network overwrites the outputs that the backward pass of the one before it needs: "
    "torch.compile refused it for networks that are compiled separately (NVIDIA H100, PyTorch 2.11)"
)


def explain_missing_acceleration(acceleration: str, device: str, library: str = "torch") -> str:
    """Return why frameworks of a library (`torch` or `jax`) lack an unlisted acceleration."""
    if library == "jax":
        return _JAX_REASONS.get(acceleration, _JAX_REASON)
    if acceleration == CUDA_GRAPHS:
        return _NO_GPU_REASON if device == "cpu" else _OVERWRITTEN_REASON
    return _TORCH_REASONS.get(acceleration, "its adapter does not carry it")


def split_device(text: str) -> tuple[str, str]:
    """Return device and acceleration of what probes compare: `cuda`, `compile`, `cuda+compile`."""
    device, _, acceleration = text.rpartition("+")
    if text == CUDA:
        return CUDA, NO_ACCELERATION
    return device or "cpu", acceleration


def explain_missing_compiler() -> str:
    """Return why torch.compile cannot compile for the CPU here, or an empty string."""
    wanted = (os.environ.get("CXX"), "g++", "c++", "clang++")
    if any(name and shutil.which(name) for name in wanted):
        return ""
    return "torch.compile needs a C++ compiler for the CPU, and there is no g++ or clang++ here"


def check_acceleration(
    algorithm: str, acceleration: str, adapter: "Adapter", device: str = "cpu", here: bool = True
) -> None:
    """Check that the framework can train with an acceleration.

    Raises:
        SpecError: The framework cannot; names the reason and what can be used.
    """
    if acceleration == NO_ACCELERATION:
        return
    reason = adapter.why_unsupported_acceleration(algorithm, acceleration, device, here)
    if reason:
        others = [
            name
            for name in adapter.accelerations
            if not adapter.why_unsupported_acceleration(algorithm, name, device, here)
        ]
        raise SpecError(
            f"acceleration={acceleration} is not available for algorithm={algorithm} of "
            f"framework={adapter.name}: {reason}. "
            f"Use acceleration={' or '.join([NO_ACCELERATION, *others])}."
        )


def check_observable_acceleration(algorithm: str, acceleration: str, adapter: "Adapter") -> None:
    """Check that accelerated updates can be compared with plain ones, update by update.

    Raises:
        SpecError: The framework does not support the acceleration, or probes cannot see it.
    """
    device, name = split_device(acceleration)
    if device == CUDA and (reason := adapter.why_unsupported_device(algorithm, device, True)):
        raise SpecError(f"--acceleration {acceleration} needs device={device}: {reason}")
    check_acceleration(algorithm, name, adapter, device)
    if reason := adapter.why_unobservable_acceleration(name):
        raise SpecError(
            f"--acceleration {acceleration} cannot be compared for framework={adapter.name}: "
            f"{reason}."
        )
