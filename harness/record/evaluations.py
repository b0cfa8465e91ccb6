"""The arrays of a run's evaluations, from bytes that nobody vouches for."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.record.archive import unpack_arrays
from harness.record.files import Unusable
from harness.record.layout import EVALUATIONS_FILE


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluations:
    """The content of `evaluations.npz`, read-only.

    Attributes:
        timesteps: int64[E], environment steps at each evaluation, strictly increasing.
        results: float64[E, episodes], return of each evaluation episode.
        ep_lengths: int64[E, episodes], steps of each evaluation episode.
    """

    timesteps: NDArray[np.int64]
    results: NDArray[np.float64]
    ep_lengths: NDArray[np.int64]


def unpack(raw: bytes) -> Evaluations:
    """The three arrays in an archive, with at least one evaluation and episode.

    Raises:
        Unusable: It cannot be read, or has other contents.
    """
    try:
        arrays = unpack_arrays(raw, ("timesteps", "results", "ep_lengths"))
    except Unusable as error:
        raise Unusable(f"corrupted {EVALUATIONS_FILE}: {error}") from error
    try:
        return _checked(*arrays.values())
    except MemoryError as error:
        raise Unusable(f"corrupted {EVALUATIONS_FILE}: too large for the memory") from error


def _checked(
    timesteps: NDArray[Any], results: NDArray[Any], ep_lengths: NDArray[Any]
) -> Evaluations:
    what = f"corrupted {EVALUATIONS_FILE}"
    shapes = f"timesteps {timesteps.shape}, results {results.shape}, ep_lengths {ep_lengths.shape}"
    if timesteps.ndim != 1 or results.ndim != 2 or not results.size:
        raise Unusable(f"{what}: empty or of other dimensions: {shapes}")
    if results.shape[0] != timesteps.shape[0] or ep_lengths.shape != results.shape:
        raise Unusable(f"{what}: shapes do not agree: {shapes}")
    kinds = timesteps.dtype.kind, ep_lengths.dtype.kind
    if kinds[0] not in "iu" or kinds[1] not in "iu":
        raise Unusable(f"{what}: values are not of numeric types")
    with np.errstate(all="ignore"):
        arrays = timesteps.astype(np.int64), results.astype(np.float64), ep_lengths.astype(np.int64)
    if np.any(np.diff(arrays[0]) <= 0) or arrays[0][0] < 0:
        raise Unusable(f"{what}: timesteps do not increase")
    if np.any(arrays[2] < 0):
        raise Unusable(f"{what}: an episode has less than no steps")
    for array in arrays:
        array.setflags(write=False)
    return Evaluations(*arrays)
