"""Numpy's archives of arrays, from bytes that nobody vouches for."""

import functools
import io
import math
import zipfile
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.record.files import Unusable, first_line

_MOST_BYTES = 2**28  # of an array, unpacked
_MOST_VALUES = 2**23  # of an array
_UNUSUAL = 0x1 | 0x20 | 0x40  # flags of members that are encrypted or patched
_MOST_ARRAYS = 2**12


def unpack_arrays(raw: bytes, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Arrays of numbers in an archive of `numpy.savez`, by name.

    Args:
        raw: The archive.
        names: Which of them, in this order; all of them if None.

    Raises:
        Unusable: It cannot be read, lacks one, or holds something else.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            if names is None:
                members = archive.namelist()
                if len(members) > _MOST_ARRAYS:
                    raise Unusable(f"{len(members):,} arrays are too many")
                names = [member.removesuffix(".npy") for member in members]
            return {name: _array(raw, archive, name) for name in names}
    except Exception as error:  # damaged archives raise a dozen different types
        raise Unusable(first_line(error)) from error


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
