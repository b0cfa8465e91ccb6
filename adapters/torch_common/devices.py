"""Devices and compilers that PyTorch finds on this machine; accelerations of its adapters."""

import contextlib
import os
from typing import ClassVar

from parallax.harness.contract.acceleration import (
    BFLOAT16,
    COMPILE,
    GENERAL_TORCH_ACCELERATIONS,
    explain_missing_acceleration,
    explain_missing_compiler,
)
from parallax.harness.contract.adapter import CPU


def explain_missing_device(
    device: str, here: bool, known: tuple[str, ...] = ("cuda", "mps")
) -> str:
    """Return why torch cannot train on a device, or an empty string.

    Args:
        device: The device, such as `cuda` or `cuda:1`.
        here: Whether to look for it on this machine.
        known: Kinds of devices that the framework can train on, besides the CPU.
    """
    kind, _, number = device.partition(":")
    if kind not in known:
        return f"it takes {', '.join(('cpu', *known))}. Use one of them."
    if not here:
        return ""
    count = count_devices(kind)
    if count == 0:
        return f"PyTorch finds no {kind} device on this machine. Use device=cpu."
    if int(number or 0) >= count:
        return f"PyTorch finds {count} {kind} here, from 0 on. Use device={kind} or a number below."
    return ""


def count_devices(kind: str) -> int:
    """Return the number of devices of a kind."""
    # Otherwise counting initializes CUDA, which then does not work in forked processes.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch

    if kind == "cuda":
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    return int(torch.backends.mps.is_available())


class TorchAccelerations:
    """Mixin with the accelerations of PyTorch frameworks; comes before `Adapter` in the bases."""

    accelerations: ClassVar[tuple[str, ...]] = (COMPILE, *GENERAL_TORCH_ACCELERATIONS, BFLOAT16)

    def why_unsupported_acceleration(
        self, algorithm: str, acceleration: str, device: str, here: bool
    ) -> str:
        """Return why `acceleration` cannot be used, such as for the lack of a compiler."""
        if acceleration not in self.accelerations:
            return explain_missing_acceleration(acceleration, device)
        if acceleration == COMPILE and here and device == CPU:
            return explain_missing_compiler()
        return ""

    def apply_acceleration(self, acceleration: str) -> contextlib.AbstractContextManager[None]:
        """Return a context with PyTorch's options for the acceleration."""
        from parallax.adapters.torch_common.acceleration import apply_torch_acceleration

        return apply_torch_acceleration(acceleration)
