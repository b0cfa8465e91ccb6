"""Sizes that the columns and pages of a Parquet file have, before anything is decompressed.

The footer says how large a column is after decompression and how many values it has, but the
author of a file can write anything there. A page's own header says how much memory its
decompression takes, and the decompressor respects that limit. So this module reads the headers
without the pages, and requires that they agree with the footer. After that, the footer's sizes can
be used to refuse a file with an `UnusableError`.

The footer is read here too: PyArrow's own view of a column ends the process where the column's
size statistics contradict themselves, since its C++ exception is not caught.

Footer and headers are Thrift structures in the compact protocol: apache/parquet-format,
`parquet.thrift` (FileMetaData, PageHeader), and apache/thrift, `thrift-compact-protocol.md`.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import IO, Any

from parallax.harness.record.files import UnusableError

_MAX_HEADER = 2**16  # bytes; ours have some hundred, with statistics
_MAX_PAGES = 100_000
# Parts are fields and items of lists: a million take 200 MB in Python, and a second.
_MAX_FOOTER_PARTS, _MAX_HEADER_PARTS = 2**20, 2**8
_MAX_DEPTH = 12
_TAIL = 8  # bytes after the footer: its length and the file's mark
_GROUPS, _CHUNKS, _COLUMN = 4, 1, 3  # fields of FileMetaData, RowGroup and ColumnChunk
_PATH, _NUM_VALUES, _UNCOMPRESSED, _COLUMN_COMPRESSED = 3, 5, 6, 7  # fields of ColumnMetaData
_DATA_OFFSET, _DICTIONARY_OFFSET = 9, 11
_SIZE, _COMPRESSED, _DATA, _DATA_V2 = 2, 3, 5, 8  # fields of a PageHeader
_VALUES = 1  # field of the header of each kind of page


@dataclasses.dataclass(frozen=True)
class ColumnSizes:
    """Sizes that the footer gives for a column of a group of rows.

    Attributes:
        uncompressed: Bytes after decompression.
        compressed: Bytes in the file.
        start: Place of its first page in the file.
    """

    name: str
    values: int
    uncompressed: int
    compressed: int
    start: int


def read_column_sizes(opened: IO[bytes], max_footer: int) -> list[list[ColumnSizes]]:
    """Read the sizes of all columns of all groups of rows from the footer.

    Args:
        opened: The file.
        max_footer: Bytes that a footer may have.

    Raises:
        UnusableError: The footer cannot be read or is too large.
    """
    end = opened.seek(0, 2)
    opened.seek(max(0, end - _TAIL))
    length = int.from_bytes(opened.read(4), "little")
    if not 0 < length <= min(max_footer, end - _TAIL):
        raise UnusableError("it is damaged: the size of its footer is wrong")
    opened.seek(end - _TAIL - length)
    reader = _CompactReader(opened.read(length), _MAX_FOOTER_PARTS)
    try:
        groups = reader.read_struct(0).get(_GROUPS, [])
        return [
            [_make_sizes(chunk[_COLUMN]) for chunk in group.get(_CHUNKS, [])] for group in groups
        ]
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise UnusableError("it is damaged: its footer cannot be read") from error


def _make_sizes(column: Any) -> ColumnSizes:
    name = ".".join(part.decode("utf-8", "replace") for part in column[_PATH])
    start = column[_DATA_OFFSET]
    if column.get(_DICTIONARY_OFFSET):
        start = min(start, column[_DICTIONARY_OFFSET])
    sizes = (column[_NUM_VALUES], column[_UNCOMPRESSED], column[_COLUMN_COMPRESSED], start)
    if min(sizes) < 0:
        raise ValueError("a size below 0")
    return ColumnSizes(name, *sizes)


def check_pages(opened: IO[bytes], groups: Sequence[Sequence[ColumnSizes]]) -> None:
    """Check that no page is larger than the footer says of its column.

    Args:
        opened: The file.
        groups: Columns of all groups of rows.

    Raises:
        UnusableError: Pages take more memory or hold more values, or cannot be followed.
    """
    pages = 0
    for column in itertools.chain.from_iterable(groups):
        pages += _check_column(opened, column, _MAX_PAGES - pages)


@dataclasses.dataclass(frozen=True)
class _PageHeader:
    """Sizes in bytes of a page, its values, and the bytes of the header itself."""

    size: int
    compressed: int
    values: int
    length: int


def _check_column(opened: IO[bytes], column: ColumnSizes, most: int) -> int:
    """Check the pages of one column of a group of rows, and return how many there are."""
    start = column.start
    end = start + column.compressed
    size = values = pages = 0
    while start < end:
        header = _read_header(opened, start)
        start += header.length + header.compressed
        size += header.size  # without the header, which the footer's sum need not have
        values += header.values
        pages += 1
        if pages > most:
            raise UnusableError(f"it is too large: more than {_MAX_PAGES:,} pages")
        if size > column.uncompressed:
            raise UnusableError(
                f"it is damaged: pages of column {column.name} take {size:,} bytes where "
                f"its footer says {column.uncompressed:,}"
            )
        if values > column.values:
            raise UnusableError(
                f"it is damaged: pages of column {column.name} hold {values:,} values "
                f"where its footer says {column.values:,}"
            )
    return pages


def _read_header(opened: IO[bytes], start: int) -> _PageHeader:
    opened.seek(start)
    reader = _CompactReader(opened.read(_MAX_HEADER), _MAX_HEADER_PARTS)
    try:
        fields = reader.read_struct(0)
    except (IndexError, ValueError) as error:
        raise UnusableError("it is damaged: the header of a page cannot be read") from error
    size, compressed = fields.get(_SIZE), fields.get(_COMPRESSED)
    if not isinstance(size, int) or not isinstance(compressed, int) or min(size, compressed) < 0:
        raise UnusableError("it is damaged: a page has no size")
    inner = fields.get(_DATA) or fields.get(_DATA_V2) or {}
    values = inner.get(_VALUES, 0) if isinstance(inner, dict) else 0
    if not isinstance(values, int) or values < 0:
        raise UnusableError("it is damaged: a page has less than no values")
    return _PageHeader(size, compressed, values, reader.position)


class _CompactReader:
    """Reads structures of the compact protocol; skips numbers that are not whole."""

    def __init__(self, raw: bytes, max_parts: int) -> None:
        self._raw, self.position = raw, 0
        self._max_parts = self._room = max_parts

    def read_struct(self, depth: int) -> dict[int, Any]:
        """Return the fields of a structure by their numbers."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._read_byte()) != 0:
            delta, kind = head >> 4, head & 15
            # A field's header has the distance from the field before, or 0 and then its number.
            number = number + delta if delta else self._read_signed()
            if number in fields:  # other readers may merge the two
                raise ValueError("a field that occurs twice")
            fields[number] = self._read_value(kind, depth)
        return fields

    def _read_value(self, kind: int, depth: int) -> Any:
        self._count_parts(1)
        match kind:
            case 1 | 2:  # true and false, in the kind itself
                return None
            case 3:
                self._skip(1)
            case 4 | 5 | 6:
                return self._read_signed()
            case 7:
                self._skip(8)
            case 8:
                length = self._read_unsigned()
                start = self.position
                self._skip(length)
                return self._raw[start : self.position]
            case 9 | 10:
                return self._read_list(depth + 1)
            case 12:
                return self.read_struct(depth + 1)
            case _:
                raise ValueError("a kind that no footer and no header of a page has")
        return None

    def _read_list(self, depth: int) -> list[Any]:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        head = self._read_byte()
        count, kind = head >> 4, head & 15
        if count == 15:
            count = self._read_unsigned()
        if count > len(self._raw) - self.position:  # an item has a byte at least
            raise ValueError("a list of more items than there are bytes")
        if kind in (1, 2):  # in lists, each true or false is a byte
            self._count_parts(count)
            self._skip(count)
            return [None] * count
        return [self._read_value(kind, depth) for _ in range(count)]

    def _count_parts(self, count: int) -> None:
        self._room -= count
        if self._room < 0:
            limit = f"{self._max_parts:,} are allowed"
            raise UnusableError(f"it is too large: more parts in a footer or page than {limit}")

    def _read_byte(self) -> int:
        self.position += 1
        return self._raw[self.position - 1]

    def _skip(self, count: int) -> None:
        self.position += count
        if self.position > len(self._raw):
            raise IndexError(count)

    def _read_unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._read_byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _read_signed(self) -> int:
        value = self._read_unsigned()
        # Zigzag encoding: 0, -1, 1, -2 are 0, 1, 2, 3.
        return (value >> 1) ^ -(value & 1)
