"""Where a framework's torch tensors hold the canonical weights of probes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.probes.results import Array


@dataclasses.dataclass(frozen=True)
class Slot:
    """Where one canonical array lives.

    Attributes:
        tensor: The framework's tensor.
        index: Which part of it.
        columns: The framework's input columns in canonical order, or None for the same order.
    """

    tensor: torch.Tensor
    index: Any = ...
    columns: NDArray[np.int64] | None = None

    def read(self, tensor: torch.Tensor | None = None) -> Array:
        """The canonical array, or that of the gradient when it is given."""
        part = (self.tensor if tensor is None else tensor).detach()[self.index]
        array = np.array(part.numpy(), dtype=float)
        return array if self.columns is None else array[:, self.columns]

    def write(self, array: Array) -> None:
        """Overwrites the framework's values."""
        if self.columns is not None:
            array = array[:, np.argsort(self.columns)]
        with torch.no_grad():
            part = self.tensor.detach()[self.index]
            part.copy_(torch.as_tensor(array, dtype=part.dtype).reshape(part.shape))


Slots = Mapping[str, Slot]


def linears(network: str, layers: Mapping[str, Any]) -> dict[str, Slot]:
    """Slots of layers that have a weight and a bias."""
    return {
        f"{network}.{name}.{kind}": Slot(getattr(layer, kind))
        for name, layer in layers.items()
        for kind in ("weight", "bias")
    }
