"""The arrays of a run's evaluations, from bytes that nobody vouches for."""

import dataclasses
import functools
import io
import math
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.record.files import Unusable, first_line
from harness.record.layout import EVALUATIONS_FILE

_MOST_BYTES = 2**28  # of an array, unpacked
_MOST_VALUES = 2**23  # of an array
_UNUSUAL = 0x1 | 0x20 | 0x40  # flags of members that are encrypted or patched


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
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            names = ("timesteps", "results", "ep_lengths")
            timesteps, results, ep_lengths = (_array(raw, archive, name) for name in names)
    except Exception as error:  # damaged archives raise a dozen different types
        raise Unusable(f"corrupted {EVALUATIONS_FILE}: {first_line(error)}") from error
    try:
        return _checked(timesteps, results, ep_lengths)
    except MemoryError as error:
        raise Unusable(f"corrupted {EVALUATIONS_FILE}: too large for the memory") from error


def _array(raw: bytes, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One array of an archive, whose header is believed only as far as there is data."""
    data = _member(raw, archive, archive.getinfo(f"{name}.npy"))
    shape, fortran, dtype, start = _header(data[: _header_end(data)])
    if dtype.kind not in "iuf":
        raise Unusable(f"the values of {name} are not of numeric types")
    count = math.prod(shape)
    if count > _MOST_VALUES and count * dtype.itemsize == len(data) - start:
        raise Unusable(f"{name} is too large: {count:,} values")
    if count * dtype.itemsize != len(data) - start:
        raise Unusable(f"{name} does not hold the {count} values that it announces")
    if not count:
        return np.empty(shape, dtype)
    flat = np.frombuffer(data, dtype, count, start)
    return flat.reshape(shape, order="F" if fortran else "C")


def _member(raw: bytes, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.file_size > _MOST_BYTES:
        raise Unusable(f"{info.filename} is too large")
    if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & _UNUSUAL:
        # By hand, which takes a tenth of the time.
        if info.compress_size != info.file_size:
            raise Unusable(f"{info.filename} is not as long as it says")
        at = info.header_offset
        if raw[at : at + 4] != b"PK\3\4":
            raise Unusable(f"{info.filename} is not where the archive says")
        name, extra = (int.from_bytes(raw[at + i : at + i + 2], "little") for i in (26, 28))
        if raw[at + 30 : at + 30 + name] != info.orig_filename.encode():
            raise Unusable(f"{info.filename} has another name where it lies")
        start = at + 30 + name + extra
        data = raw[start : start + info.file_size]
        if zlib.crc32(data) != info.CRC:
            raise Unusable(f"the checksum of {info.filename} does not hold")
    elif info.compress_type == zipfile.ZIP_DEFLATED:
        with archive.open(info) as file:
            data = file.read(info.file_size + 1)  # it may hold more than it says
    else:
        raise Unusable(f"{info.filename} is packed in a way that is not known")
    if len(data) != info.file_size:
        raise Unusable(f"{info.filename} is not as long as it says")
    return data


def _header_end(data: bytes) -> int:
    if data[:6] != b"\x93NUMPY" or data[6] not in (1, 2, 3):
        raise Unusable("no array in numpy's format")
    width = 2 if data[6] == 1 else 4
    return 8 + width + int.from_bytes(data[8 : 8 + width], "little")


@functools.lru_cache(maxsize=512)
def _header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type and end of a header; kept, since those of a study are alike."""
    file = io.BytesIO(header)
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, fortran, dtype = read(file)
    return shape, fortran, dtype, len(header)


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
