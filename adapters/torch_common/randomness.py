"""Torch's random numbers, dictated below Python.

So it does not matter which function a framework draws them with.
"""

from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.probes.world import Rotations, World


class Dictated(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Takes torch's random numbers from the dictation; see `numpy_randomness`."""

    def __init__(self, world: World) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._world, self._turns = world, Rotations()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs one operation of torch, or what stands for it."""
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if not self._world.started:
            return func(*args, **kwargs)
        if name in ("normal_", "uniform_"):
            first = args[1] if len(args) > 1 else 0.0
            second = args[2] if len(args) > 2 else 1.0
            numbers = self._numbers(name, args[0])
            scale = second if name == "normal_" else second - first
            return args[0].copy_(first + scale * numbers)
        result = func(*args, **kwargs)
        if name in ("randn", "randn_like"):
            result.copy_(self._numbers("normal_", result))
        elif name == "normal":
            mean, std = args[:2]
            result.copy_(mean + std * self._numbers("normal_", result))
        elif name in ("rand", "rand_like"):
            result.copy_(self._numbers("uniform_", result))
        elif name == "randint":
            low, high = (0, args[0]) if isinstance(args[1], list | tuple) else args[:2]
            self._world.draws.append((self._world.steps, low, high, result.numel()))
            count = torch.arange(result.numel()).reshape(result.shape)
            result.copy_(low + count % (high - low))
        elif name == "randperm":
            result.copy_(torch.as_tensor(self._turns.next(args[0])))
        return result

    def _numbers(self, kind: str, like: torch.Tensor) -> torch.Tensor:
        d, row = self._world.dictation, self._world.row
        size = len(d.low)
        if kind == "uniform_":
            numbers = np.resize(d.random_actions[row], like.numel())
        elif like.numel() == size:
            numbers = d.acting_noise[row]
        else:
            numbers = np.resize(d.batch_noise, like.numel())
        return torch.as_tensor(numbers, dtype=like.dtype).reshape(like.shape)
