"""Trace of a training: appended batch by batch, and one Parquet file at the end.

During a run, its trace is a stream of Arrow batches in the lock's own folder, so that a former
owner of the lock cannot write to it. Parquet files cannot grow; the Parquet file that is written at
the end has a checksum on every page.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from parallax.harness.record.files import UnusableError, open_regular_file, summarize_error
from parallax.harness.record.lock import RunLock
from parallax.harness.record.parquet_pages import ColumnSizes, check_pages, read_column_sizes

STREAM_FILE = "trace.arrows"
_TRACE_SCHEMA = pyarrow.schema(
    [("step", pyarrow.int64()), ("metric", pyarrow.string()), ("value", pyarrow.float64())]
)
_READ_SCHEMA = _TRACE_SCHEMA.set(
    1, pyarrow.field("metric", pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
)
_EMPTY = pyarrow.Table.from_batches([], _TRACE_SCHEMA.remove(1))
_MAX_GROUP_BYTES = 2**28  # of a group of rows, decompressed
_ROW_GROUP_ROWS = 2**16  # of a row group, and the most that are in memory
_MAX_TRACE_BYTES, _MAX_FOOTER_BYTES = 2**33, 2**24
_MAX_TRACE_ROWS, _MAX_GROUP_ROWS = 2**25, 2**20
_MAX_METRIC_ROWS = 2**23


class TraceWriter:
    """Collects values and appends them to a stream."""

    def __init__(self, folder: Path) -> None:
        """Create a writer that has written nothing yet."""
        self._path = folder / STREAM_FILE
        self._sink: Any = None
        self._writer: Any = None
        self._steps: list[int] = []
        self._metrics: list[str] = []
        self._values: list[float] = []

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add values; `append` writes them."""
        for name, value in metrics.items():
            self._steps.append(step)
            self._metrics.append(name)
            self._values.append(value)

    def append(self) -> None:
        """Write the new values.

        Raises:
            OSError: For example a full disk.
        """
        if self._writer is None:
            self._sink = pyarrow.OSFile(str(self._path), "wb")
            self._writer = pyarrow.ipc.new_stream(self._sink, _TRACE_SCHEMA)
        if self._steps:
            self._writer.write_batch(self._make_batch())
            self._steps, self._metrics, self._values = [], [], []
        self._sink.flush()

    def state(self) -> dict[str, Any]:
        """Return everything so far, as plain values and arrays; batches are preserved."""
        stream = np.empty(0, np.uint8)
        if self._sink is not None:
            self._sink.flush()
            stream = np.fromfile(self._path, np.uint8)
        steps, values = np.array(self._steps, np.int64), np.array(self._values, np.float64)
        return {"stream": stream, "steps": steps, "metrics": list(self._metrics), "values": values}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Begin with the `state` of another writer; nothing may have been recorded yet."""
        if len(state["stream"]):
            self.append()
            source = pyarrow.py_buffer(state["stream"].tobytes())
            for message in pyarrow.ipc.MessageReader.open_stream(source):
                if message.type == "record batch" and _is_compressed(message):
                    raise ValueError("its trace is compressed, and may take any amount of memory")
            with pyarrow.ipc.open_stream(source) as stream:
                if stream.schema != _TRACE_SCHEMA:
                    raise ValueError(f"its trace has columns {', '.join(stream.schema.names)}")
                for batch in stream:
                    batch.validate(full=True)  # else places of texts may lie outside the memory
                    self._writer.write_batch(batch)
            self._sink.flush()
        steps, metrics, values = state["steps"], list(state["metrics"]), state["values"]
        if (steps.dtype, values.dtype) != (np.int64, np.float64) or set(map(type, metrics)) - {str}:
            raise ValueError("its trace has values of other types")
        if not steps.shape == values.shape == (len(metrics),):
            raise ValueError("its trace has columns of different lengths")
        self._steps, self._metrics, self._values = steps.tolist(), metrics, values.tolist()
        self._make_batch()  # fails for a text that cannot be written

    def _make_batch(self) -> Any:
        """Return the new values as a batch."""
        # `pyarrow.array` would import pandas, which takes a fifth of a second.
        names = [name.encode() for name in self._metrics]
        ends = np.cumsum([0, *map(len, names)], dtype=np.int32)
        steps, values = np.array(self._steps, np.int64), np.array(self._values, np.float64)
        places, text, *numbers = map(pyarrow.py_buffer, (ends, b"".join(names), steps, values))
        step, value = (
            pyarrow.Array.from_buffers(kind, len(names), [None, column])
            for kind, column in zip((pyarrow.int64(), pyarrow.float64()), numbers, strict=True)
        )
        metric = pyarrow.StringArray.from_buffers(len(names), places, text)
        return pyarrow.RecordBatch.from_arrays([step, metric, value], schema=_TRACE_SCHEMA)

    def close(self) -> None:
        """End the stream."""
        if self._sink is not None:
            self._sink.close()

    def write_parquet(self, file: IO[bytes]) -> None:
        """Write everything that the stream holds, a row group at a time."""
        with pyarrow.parquet.ParquetWriter(file, _TRACE_SCHEMA, write_page_checksum=True) as writer:
            batches: list[Any] = []
            for batch in _iterate_batches(self._path):
                batches.append(batch)
                if sum(map(len, batches)) >= _ROW_GROUP_ROWS:
                    writer.write_table(pyarrow.Table.from_batches(batches, _TRACE_SCHEMA))
                    batches = []
            writer.write_table(pyarrow.Table.from_batches(batches, _TRACE_SCHEMA))


def _is_compressed(message: Any) -> bool:
    """Return whether a record batch has the field `compression`, Arrow's fourth (Message.fbs)."""
    raw = message.metadata.to_pybytes()

    def read(place: int, size: int = 4) -> int:
        return int.from_bytes(raw[place : place + size], "little", signed=size == 4)

    def find_field(table: int, number: int) -> int:
        # FlatBuffers: a table begins with the distance to its vtable, which has the vtable and
        # table sizes, then an offset of two bytes for each field, 0 for one that is left out.
        fields = table - read(table)
        place = 4 + 2 * number
        offset = read(fields + place, 2) if place < read(fields, 2) else 0
        return table + offset if offset else 0

    header = find_field(read(0), 2)  # the batch, third field of a message
    return bool(find_field(header + read(header), 3))


def check_trace_file(path: Path) -> None:
    """Read the whole trace in a Parquet file, and check the checksums of pages that have one.

    Raises:
        UnusableError: It is missing, damaged or has other columns.
    """
    with _open_trace(path) as reader:
        # Threads cost more time than they save, and outlive a command that ends at once.
        for number in range(reader.num_row_groups):
            reader.read_row_group(number, use_threads=False)


@contextlib.contextmanager
def _open_trace(path: Path) -> Iterator[Any]:
    try:
        with open_regular_file(path) as file:
            if file.seek(0, 2) > _MAX_TRACE_BYTES:
                raise UnusableError("is too large")
            groups = read_column_sizes(file, _MAX_FOOTER_BYTES)  # before PyArrow reads the footer
            options = {"page_checksum_verification": True, "read_dictionary": ["metric"]}
            with pyarrow.parquet.ParquetFile(file, **options) as reader:
                if reader.schema_arrow.remove_metadata() != _READ_SCHEMA:
                    names = ", ".join(map(repr, reader.schema_arrow.names))
                    raise UnusableError(f"has columns {names}")
                if reader.metadata.num_rows > _MAX_TRACE_ROWS:
                    raise UnusableError(f"is too large: {reader.metadata.num_rows:,} values")
                check_pages(file, groups)
                _check_group_sizes(groups)
                yield reader
    except FileNotFoundError as error:
        raise UnusableError(f"missing {path.name}") from error
    except KeyError as error:  # of `read_dictionary`
        raise UnusableError(f"corrupted {path.name}: has no column 'metric'") from error
    except Exception as error:  # damaged files raise a dozen different types
        raise UnusableError(f"corrupted {path.name}: {summarize_error(error)}") from error


def _check_group_sizes(groups: Sequence[Sequence[ColumnSizes]]) -> None:
    """Refuse groups of rows that take more memory than those of any training."""
    for group in groups:
        size = sum(column.uncompressed for column in group)
        if size > _MAX_GROUP_BYTES:
            raise UnusableError(f"is too large: {size:,} bytes in a group of rows")
        rows = max(column.values for column in group)
        if rows > _MAX_GROUP_ROWS:
            raise UnusableError(f"is too large: {rows:,} values in a group of rows")


def _iterate_batches(path: Path) -> Iterator[Any]:
    """Yield the batches of a stream that were written completely."""
    if not path.exists():
        return
    with pyarrow.OSFile(str(path), "rb") as source:
        try:
            with pyarrow.ipc.open_stream(source) as stream:
                yield from stream
        except (pyarrow.ArrowInvalid, OSError):
            return  # the disk was full in the middle of the last one


def read_metric(path: Path, metric: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the values that a run recorded under one name.

    Returns:
        int64[k], environment steps, and float64[k], in the order of recording.

    Raises:
        UnusableError: The trace is missing or damaged.
    """
    with _open_trace(path) as reader:
        tables, count = [_EMPTY], 0
        for table in _select_rows(reader, metric):
            tables.append(table)
            count += len(table)
            if count > _MAX_METRIC_ROWS:
                raise UnusableError(f"has more than {_MAX_METRIC_ROWS:,} values of {metric}")
        rows = pyarrow.concat_tables(tables)
    return rows["step"].to_numpy(), rows["value"].to_numpy()


def _select_rows(reader: Any, metric: str) -> Iterator[Any]:
    """Yield steps and values of one metric, a group of rows at a time.

    Names stay dictionary codes: as text they may take a million times as much memory.
    """
    for number in range(reader.num_row_groups):
        for batch in reader.read_row_group(number, use_threads=False).to_batches():
            codes = batch["metric"]
            same = pyarrow.compute.fill_null(pyarrow.compute.equal(codes.dictionary, metric), False)
            wanted = np.flatnonzero(same.to_numpy(zero_copy_only=False))
            chosen = pyarrow.array(np.isin(codes.indices.to_numpy(zero_copy_only=False), wanted))
            yield pyarrow.Table.from_batches([batch.select(["step", "value"]).filter(chosen)])


_FLUSH_PERIOD = 5.0  # seconds
_MAX_RESUMED_BYTES = 2**28


class AppendFile:
    """File that grows from the position in a checkpoint, so nothing is lost or written twice."""

    def __init__(self, lock: RunLock, name: str, resumes: bool) -> None:
        """Begin the file, or wait for `load_state` to say how much of it is valid.

        Args:
            lock: Lock of the run folder.
            name: Relative to it, in a folder of its own.
            resumes: Whether to continue the file of an earlier attempt.
        """
        self._lock, self._name = lock, name
        self._file: IO[bytes] | None = None
        self._earlier = lock.folder / name if resumes else None
        self._waiting = bytearray()
        self._flushed = time.monotonic()
        if not resumes:
            self._begin(b"")

    def write(self, content: bytes) -> None:
        """Append; readers see it within seconds."""
        if self._file is None:
            self._waiting += content
            return
        self._file.write(content)
        if time.monotonic() - self._flushed >= _FLUSH_PERIOD:
            self.flush()

    def flush(self) -> None:
        """Flush to disk, so that readers see everything."""
        if self._file is not None:
            self._file.flush()
            self._flushed = time.monotonic()

    def state(self) -> int:
        """Flush, and return the current number of bytes."""
        self.flush()
        return self._file.tell() if self._file is not None else 0

    def load_state(self, state: int) -> None:
        """Continue after the first `state` bytes of the earlier file."""
        self._waiting.clear()
        self._begin(_read_beginning(self._earlier, state))

    def close(self) -> None:
        """Close the file; if `load_state` was not called, it continues all of the earlier one."""
        if self._file is None:
            self._begin(_read_beginning(self._earlier, None) + bytes(self._waiting))
        if self._file is not None:
            self._file.close()

    def _begin(self, content: bytes) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._lock.make_folder(str(Path(self._name).parent))
        self._file = self._lock.open_append(self._name, content)


def _read_beginning(path: Path | None, size: int | None) -> bytes:
    if path is None or path.is_symlink() or not path.is_file():
        return b""
    length = path.stat().st_size if size is None else min(path.stat().st_size, size)
    if length > _MAX_RESUMED_BYTES:
        raise UnusableError(f"{path.name} is too large to be continued: {length:,} bytes")
    with path.open("rb") as file:
        return file.read(length)
