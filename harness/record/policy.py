"""What a run has learned: the content of `policy.npz`."""

import dataclasses
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.record.archive import unpack_arrays
from harness.record.files import Unusable

_WEIGHTS, _STATISTICS = "weights/", "normalization/"
STATISTICS = ("mean", "var", "epsilon")


@dataclasses.dataclass(frozen=True, eq=False)
class StoredPolicy:
    """Everything that a policy needs to act again, as arrays.

    Attributes:
        weights: Every trained parameter by the framework's name, target networks included.
        normalization: Of observations: `mean` and `var`, float64[observations], and `epsilon`,
            float64[]; empty where the run saw them as they are.
    """

    weights: Mapping[str, NDArray[Any]]
    normalization: Mapping[str, NDArray[Any]] = dataclasses.field(default_factory=dict)


def pack(policy: StoredPolicy) -> bytes:
    """The archive, readable with `numpy.load`."""
    arrays = {_WEIGHTS + name: array for name, array in policy.weights.items()}
    arrays |= {_STATISTICS + name: array for name, array in policy.normalization.items()}
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def unpack(raw: bytes) -> StoredPolicy:
    """The inverse of `pack`.

    Raises:
        Unusable: It cannot be read, or has other contents.
    """
    arrays = unpack_arrays(raw)
    parts: dict[str, dict[str, NDArray[Any]]] = {_WEIGHTS: {}, _STATISTICS: {}}
    for name, array in arrays.items():
        prefix = next((prefix for prefix in parts if name.startswith(prefix)), None)
        if prefix is None:
            raise Unusable(f"{name} is no part of a policy")
        parts[prefix][name.removeprefix(prefix)] = array
    if not parts[_WEIGHTS]:
        raise Unusable("there are no weights in it")
    if parts[_STATISTICS] and set(parts[_STATISTICS]) != set(STATISTICS):
        raise Unusable(f"of the normalisation only {', '.join(parts[_STATISTICS])} are there")
    return StoredPolicy(parts[_WEIGHTS], parts[_STATISTICS])
