"""Sizes that the pages of a Parquet file have, before any of them is decompressed.

The footer says how large a column is after decompression and how many values it has, and whoever
made the file can write anything there. A page's own header says how much memory its decompression
takes; the decompressor keeps to that. So the headers are read here, without the pages, and have to
agree with the footer; what a file is allowed to take can be decided by the footer after that.

Headers are Thrift structures in the compact protocol: apache/parquet-format, `parquet.thrift`
(PageHeader), and apache/thrift, `thrift-compact-protocol.md`.
"""

import dataclasses
from typing import IO, Any

from parallax.harness.record.files import UnusableError

_MAX_HEADER = 2**16  # bytes; ours have some hundred, with statistics
_MAX_PAGES = 100_000
_MAX_DEPTH = 8
_SIZE, _COMPRESSED, _DATA, _DATA_V2 = 2, 3, 5, 8  # fields of a PageHeader
_VALUES = 1  # field of the header of each kind of page


def check_pages(opened: IO[bytes], metadata: Any) -> None:
    """Checks that no page is larger than the footer says of its column.

    Args:
        opened: The file.
        metadata: Its `pyarrow.parquet.FileMetaData`.

    Raises:
        Unusable: Pages take more memory or hold more values, or cannot be followed.
    """
    pages = 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        for j in range(group.num_columns):
            column = group.column(j)
            pages += _check_column(opened, column, _MAX_PAGES - pages)


@dataclasses.dataclass(frozen=True)
class _PageHeader:
    """Sizes in bytes of a page, its values, and the bytes of the header itself."""

    size: int
    compressed: int
    values: int
    length: int


def _check_column(opened: IO[bytes], column: Any, most: int) -> int:
    """Checks the pages of one column of a group of rows, and returns how many there are."""
    start = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        start = min(start, column.dictionary_page_offset)
    end = start + column.total_compressed_size
    size = values = pages = 0
    while start < end:
        header = _read_header(opened, start)
        start += header.length + header.compressed
        size += header.size  # without the header, which the footer's sum need not have
        values += header.values
        pages += 1
        if pages > most:
            raise UnusableError(f"it is too large: more than {_MAX_PAGES:,} pages")
        if size > column.total_uncompressed_size:
            raise UnusableError(
                f"it is damaged: pages of column {column.path_in_schema} take {size:,} bytes where "
                f"its footer says {column.total_uncompressed_size:,}"
            )
        if values > column.num_values:
            raise UnusableError(
                f"it is damaged: pages of column {column.path_in_schema} hold {values:,} values "
                f"where its footer says {column.num_values:,}"
            )
    return pages


def _read_header(opened: IO[bytes], start: int) -> _PageHeader:
    opened.seek(start)
    reader = _CompactReader(opened.read(_MAX_HEADER))
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
    """Reads structures of the compact protocol: whole numbers and structures; skips the rest."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self.position = raw, 0

    def read_struct(self, depth: int) -> dict[int, Any]:
        """Return the fields of a structure by their numbers."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._read_byte()) != 0:
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._read_signed()
            fields[number] = self._read_value(kind, depth)
        return fields

    def _read_value(self, kind: int, depth: int) -> Any:
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
                self._skip(self._read_unsigned())
            case 12:
                return self.read_struct(depth + 1)
            case _:
                raise ValueError("a kind that no header of a page has")
        return None

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
        return (value >> 1) ^ -(value & 1)
