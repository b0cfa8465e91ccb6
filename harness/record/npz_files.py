"""NumPy archives of arrays, read from bytes that are not trusted.

Functions raise `UnusableError` where an archive is damaged or has other contents.
"""

import dataclasses
import functools
import io
import math
import zipfile
import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parallax.harness.record.files import UnusableError, summarize_error
from parallax.harness.record.layout import EVALUATIONS_FILE

_MAX_ARRAY_BYTES = 2**28  # of an array, unpacked
_MAX_ARRAY_VALUES = 2**23  # of an array
# Layouts in this module are those of PKWARE's APPNOTE.TXT, section 4.3 and 4.4.4.
_UNSUPPORTED_FLAGS = 0x1 | 0x20 | 0x40  # flags of members that are encrypted or patched
_MAX_ARRAYS = 2**12
_MOST_DIRECTORY = _MAX_ARRAYS * 2**10  # bytes of the list of members
_MOST_TOGETHER = 2**29  # bytes of all arrays, unpacked


def unpack_arrays(
    raw: bytes, names: Iterable[str] | None = None, ignored: Collection[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return the numeric arrays in an archive of `numpy.savez`, by name.

    Args:
        raw: The archive.
        names: Which of them, in this order; all but those in `ignored` if None.
        ignored: Names of arrays that are not read.

    Raises:
        UnusableError: It cannot be read, lacks one, or holds something else.
    """
    try:
        _check_directory(raw)
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = archive.namelist()
            if len(set(members)) < len(members):  # programs differ in which one they read
                raise UnusableError("an array is in it twice")
            if names is None:
                names = (member.removesuffix(".npy") for member in members)
            names = [name for name in names if name not in ignored]
            # Checked before unpacking: many arrays, each of an allowed size, fill the memory too.
            total = sum(archive.getinfo(f"{name}.npy").file_size for name in names)
            if total > _MOST_TOGETHER:
                raise UnusableError(
                    f"{total:,} bytes unpacked where {_MOST_TOGETHER:,} are allowed"
                )
            return {name: _read_array(raw, archive, name) for name in names}
    except Exception as error:  # damaged archives raise a dozen different types
        raise UnusableError(summarize_error(error)) from error


def _check_directory(raw: bytes) -> None:
    """Refuse a list of members that is too long, before it is read."""
    # The record at the end has 22 bytes and a comment of up to 65,535 (section 4.3.16).
    end = raw.rfind(b"PK\5\6", -(22 + 2**16))
    if end < 0 or len(raw) < end + 22:
        raise UnusableError("no archive, or one that is cut off")
    # Locator of a Zip64 archive, 20 bytes before that record (section 4.3.15).
    if raw[max(end - 20, 0) : end].startswith(b"PK\6\7"):
        raise UnusableError("an archive in the format for more than 65,535 arrays")
    count, size = (
        int.from_bytes(raw[end + i : end + i + n], "little") for i, n in ((10, 2), (12, 4))
    )
    if count > _MAX_ARRAYS or size > _MOST_DIRECTORY:
        raise UnusableError(f"{count:,} arrays are too many")


def _read_array(raw: bytes, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read one array of an archive; its header must agree with the amount of data."""
    data = _read_member(raw, archive, archive.getinfo(f"{name}.npy"))
    shape, fortran, dtype, start = _parse_header(data[: _find_header_end(data)])
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise UnusableError(f"the values of {name} are not of numeric types")
    count = math.prod(shape)
    if count > _MAX_ARRAY_VALUES and count * dtype.itemsize == len(data) - start:
        raise UnusableError(f"{name} is too large: {count:,} values")
    if count * dtype.itemsize != len(data) - start:
        raise UnusableError(f"{name} does not hold the {count} values that it announces")
    if not count:
        return np.empty(shape, dtype)
    array = np.frombuffer(data, dtype, count, start).reshape(shape, order="F" if fortran else "C")
    return array.astype(dtype.newbyteorder("="), copy=False)  # frameworks read no other order


def _read_member(raw: bytes, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.file_size > _MAX_ARRAY_BYTES:
        raise UnusableError(f"{info.filename} is too large")
    if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & _UNSUPPORTED_FLAGS:
        # Read without `zipfile`, which takes a tenth of the time.
        if info.compress_size != info.file_size:
            raise UnusableError(f"{info.filename} is not as long as it says")
        at = info.header_offset
        # Local header: 30 bytes, then the name and the extra field (section 4.3.7).
        if raw[at : at + 4] != b"PK\3\4":
            raise UnusableError(f"{info.filename} is not where the archive says")
        name, extra = (int.from_bytes(raw[at + i : at + i + 2], "little") for i in (26, 28))
        if raw[at + 30 : at + 30 + name] != info.orig_filename.encode():
            raise UnusableError(f"{info.filename} has another name at its place")
        start = at + 30 + name + extra
        data = raw[start : start + info.file_size]
        if zlib.crc32(data) != info.CRC:
            raise UnusableError(f"the checksum of {info.filename} does not match")
    elif info.compress_type == zipfile.ZIP_DEFLATED:
        with archive.open(info) as file:
            data = file.read(info.file_size + 1)  # it may hold more than it says
    else:
        raise UnusableError(f"{info.filename} is packed in a way that is not known")
    if len(data) != info.file_size:
        raise UnusableError(f"{info.filename} is not as long as it says")
    return data


def _find_header_end(data: bytes) -> int:
    if data[:6] != b"\x93NUMPY" or data[6] not in (1, 2):
        raise UnusableError("no array in numpy's format")
    width = 2 if data[6] == 1 else 4
    return 8 + width + int.from_bytes(data[8 : 8 + width], "little")


@functools.lru_cache(maxsize=512)
def _parse_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type and end of a header; cached, since those of a study are alike."""
    file = io.BytesIO(header)
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, fortran, dtype = read(file)
    return shape, fortran, dtype, len(header)


@dataclasses.dataclass(frozen=True, eq=False)
class RunEvaluations:
    """The content of `evaluations.npz`, read-only.

    Attributes:
        timesteps: int64[E], environment steps at each evaluation, strictly increasing.
        results: float64[E, episodes], return of each evaluation episode.
        ep_lengths: int64[E, episodes], steps of each evaluation episode.
    """

    timesteps: NDArray[np.int64]
    results: NDArray[np.float64]
    ep_lengths: NDArray[np.int64]


def unpack_evaluations(raw: bytes) -> RunEvaluations:
    """Return the three arrays in an archive, with at least one evaluation and episode.

    Raises:
        UnusableError: It cannot be read, or has other contents.
    """
    what = f"corrupted {EVALUATIONS_FILE}"
    try:
        arrays = unpack_arrays(raw, ("timesteps", "results", "ep_lengths"))
    except UnusableError as error:
        raise UnusableError(f"{what}: {error}") from error
    try:
        steps, results, lengths = arrays.values()
        return check_arrays(steps, results, lengths, what)
    except MemoryError as error:
        raise UnusableError(f"{what}: too large for the memory") from error


def check_arrays(
    timesteps: NDArray[Any], results: NDArray[Any], ep_lengths: NDArray[Any], what: str
) -> RunEvaluations:
    """Check that three arrays are evaluations, and make them read-only.

    Args:
        timesteps: Whole numbers, one for each evaluation.
        results: Numbers by evaluation and episode.
        ep_lengths: Whole numbers by evaluation and episode.
        what: Beginning of error messages, such as `corrupted evaluations.npz`.

    Raises:
        UnusableError: Their shapes do not agree, they are empty, or time steps do not increase.
    """
    shapes = f"timesteps {timesteps.shape}, results {results.shape}, ep_lengths {ep_lengths.shape}"
    if timesteps.ndim != 1 or results.ndim != 2 or not results.size:
        raise UnusableError(f"{what}: empty or of other dimensions: {shapes}")
    if results.shape[0] != timesteps.shape[0] or ep_lengths.shape != results.shape:
        raise UnusableError(f"{what}: shapes do not agree: {shapes}")
    kinds = timesteps.dtype.kind, ep_lengths.dtype.kind
    if kinds[0] not in "iu" or kinds[1] not in "iu":
        raise UnusableError(f"{what}: values are not of numeric types")
    with np.errstate(all="ignore"):
        arrays = timesteps.astype(np.int64), results.astype(np.float64), ep_lengths.astype(np.int64)
    # Not by differences, which wrap around at the ends of int64.
    if np.any(arrays[0][1:] <= arrays[0][:-1]) or arrays[0][0] < 0 or arrays[0][-1] > 2**53:
        raise UnusableError(f"{what}: timesteps do not increase from 0 to at most 2^53")
    if np.any(arrays[2] < 0):
        raise UnusableError(f"{what}: an episode has less than no steps")
    for array in arrays:
        array.setflags(write=False)
    return RunEvaluations(*arrays)


_WEIGHTS_PREFIX, _STATISTICS_PREFIX = "weights/", "normalization/"
NORMALIZATION_STATISTICS = ("mean", "var", "epsilon")


@dataclasses.dataclass(frozen=True, eq=False)
class StoredPolicy:
    """A policy as arrays, with everything that is needed to run it.

    Attributes:
        weights: Every trained parameter by the framework's name, target networks included.
        normalization: Of observations: `mean` and `var`, float64[observations], and `epsilon`,
            float64[]; empty if the run did not normalize them.
    """

    weights: Mapping[str, NDArray[Any]]
    normalization: Mapping[str, NDArray[Any]] = dataclasses.field(default_factory=dict)


def pack_policy(policy: StoredPolicy) -> bytes:
    """Return an archive of the policy that `numpy.load` can read."""
    arrays = {_WEIGHTS_PREFIX + name: array for name, array in policy.weights.items()}
    arrays |= {_STATISTICS_PREFIX + name: array for name, array in policy.normalization.items()}
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def unpack_policy(raw: bytes) -> StoredPolicy:
    """Return the policy in an archive of `pack_policy`.

    Raises:
        UnusableError: It cannot be read, or has other contents.
    """
    arrays = unpack_arrays(raw)
    parts: dict[str, dict[str, NDArray[Any]]] = {_WEIGHTS_PREFIX: {}, _STATISTICS_PREFIX: {}}
    for name, array in arrays.items():
        prefix = next((prefix for prefix in parts if name.startswith(prefix)), None)
        if prefix is None:
            raise UnusableError(f"{name} is not part of a policy")
        parts[prefix][name.removeprefix(prefix)] = array
    weights, statistics = parts[_WEIGHTS_PREFIX], parts[_STATISTICS_PREFIX]
    if not weights:
        raise UnusableError("there are no weights in it")
    for name, array in weights.items():
        # Frameworks convert weights to this type. NaN is not smaller than any number.
        if not np.all(np.abs(array) <= np.finfo(np.float32).max):
            raise UnusableError(f"its weights {name} are not finite. Train the run again")
    if statistics and set(statistics) != set(NORMALIZATION_STATISTICS):
        raise UnusableError(f"of the normalisation only {', '.join(statistics)} are there")
    if statistics:
        mean, var, epsilon = (statistics[name] for name in NORMALIZATION_STATISTICS)
        numbers = np.concatenate([mean.ravel(), var.ravel(), epsilon.ravel()])
        if mean.shape != var.shape or epsilon.shape or not np.isfinite(numbers).all():
            raise UnusableError("the normalisation has other shapes, or is not finite")
        if np.any(var < 0) or epsilon <= 0:
            raise UnusableError("the normalisation has a negative variance, or an epsilon of 0")
    return StoredPolicy(weights, statistics)
