"""What is logged while training: appended batch by batch, and one Parquet file in the end.

While a run goes on, its trace is a stream of Arrow batches in the lease's own folder, so a
former holder cannot write it either. Parquet files cannot grow; the one that is written in the
end has a checksum on every page.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from harness.record.files import Unusable, first_line, open_regular

STREAM = "trace.arrows"
_SCHEMA = pyarrow.schema(
    [("step", pyarrow.int64()), ("metric", pyarrow.string()), ("value", pyarrow.float64())]
)
_ROWS = 2**16  # of a row group, and the most that are held in memory
_MOST_BYTES = 2**33
_MOST_ROWS = 2**25


class TraceWriter:
    """Collects values and appends them to a stream."""

    def __init__(self, folder: Path) -> None:
        """Does not write yet.

        Args:
            folder: Where the stream is to lie: the lease's own folder.
        """
        self._path = folder / STREAM
        self._sink: Any = None
        self._writer: Any = None
        self._steps: list[int] = []
        self._metrics: list[str] = []
        self._values: list[float] = []

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds values; `append` writes them."""
        for name, value in metrics.items():
            self._steps.append(step)
            self._metrics.append(name)
            self._values.append(value)

    def append(self) -> None:
        """Writes what is new.

        Raises:
            OSError: For example a full disk.
        """
        if self._writer is None:
            self._sink = pyarrow.OSFile(str(self._path), "wb")
            self._writer = pyarrow.ipc.new_stream(self._sink, _SCHEMA)
        if self._steps:
            columns = [
                pyarrow.array(values, kind)
                for values, kind in zip(
                    (self._steps, self._metrics, self._values), _SCHEMA.types, strict=True
                )
            ]
            self._writer.write_batch(pyarrow.record_batch(columns, schema=_SCHEMA))
            self._steps, self._metrics, self._values = [], [], []
        self._sink.flush()

    def state(self) -> dict[str, Any]:
        """Everything so far, as plain values and arrays; what is appended together stays so."""
        stream = np.empty(0, np.uint8)
        if self._sink is not None:
            self._sink.flush()
            stream = np.fromfile(self._path, np.uint8)
        steps, values = np.array(self._steps, np.int64), np.array(self._values, np.float64)
        return {"stream": stream, "steps": steps, "metrics": list(self._metrics), "values": values}

    def lay_in(self, state: Mapping[str, Any]) -> None:
        """Begins with what `state` told of another writer; nothing may have been recorded yet."""
        if len(state["stream"]):
            self.append()
            with pyarrow.ipc.open_stream(pyarrow.py_buffer(state["stream"].tobytes())) as stream:
                for batch in stream:
                    self._writer.write_batch(batch)
            self._sink.flush()
        self._steps, self._values = state["steps"].tolist(), state["values"].tolist()
        self._metrics = list(state["metrics"])

    def close(self) -> None:
        """Ends the stream."""
        if self._sink is not None:
            self._sink.close()

    def write_parquet(self, file: IO[bytes]) -> None:
        """Writes everything that the stream holds, a row group at a time."""
        with pyarrow.parquet.ParquetWriter(file, _SCHEMA, write_page_checksum=True) as writer:
            held: list[Any] = []
            for batch in _batches(self._path):
                held.append(batch)
                if sum(map(len, held)) >= _ROWS:
                    writer.write_table(pyarrow.Table.from_batches(held, _SCHEMA))
                    held = []
            writer.write_table(pyarrow.Table.from_batches(held, _SCHEMA))


def check(path: Path) -> None:
    """Reads all of the trace in a Parquet file, with every page's checksum where it has one.

    Raises:
        Unusable: It is missing, damaged or has other columns.
    """
    with _opened(path) as reader:
        # Threads cost more than they bring, and outlive a command that ends at once.
        for number in range(reader.num_row_groups):
            reader.read_row_group(number, use_threads=False)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with open_regular(path) as file:
            if file.seek(0, 2) > _MOST_BYTES:
                raise Unusable("is too large")
            file.seek(0)
            with pyarrow.parquet.ParquetFile(file, page_checksum_verification=True) as reader:
                if reader.schema_arrow.remove_metadata() != _SCHEMA:
                    names = ", ".join(map(repr, reader.schema_arrow.names))
                    raise Unusable(f"has columns {names}")
                if reader.metadata.num_rows > _MOST_ROWS:
                    raise Unusable(f"is too large: {reader.metadata.num_rows:,} values")
                yield reader
    except FileNotFoundError as error:
        raise Unusable(f"missing {path.name}") from error
    except Exception as error:  # damaged files raise a dozen different types
        raise Unusable(f"corrupted {path.name}: {first_line(error)}") from error


def _batches(path: Path) -> Iterator[Any]:
    """The batches of a stream that were written whole."""
    if not path.exists():
        return
    with pyarrow.OSFile(str(path), "rb") as source:
        try:
            with pyarrow.ipc.open_stream(source) as stream:
                yield from stream
        except (pyarrow.ArrowInvalid, OSError):
            return  # the disk was full in the middle of the last one


def episodes(path: Path) -> int:
    """How many episodes of a training have ended, by its trace.

    Raises:
        Unusable: The trace is missing or damaged.
    """
    with _opened(path) as reader:
        table = reader.read(columns=["metric"], use_threads=False)
    return int(
        pyarrow.compute.sum(pyarrow.compute.equal(table["metric"], "episode/length")).as_py()
    )


def values(path: Path, metric: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """What a run recorded under one name.

    Returns:
        int64[k], environment steps, and float64[k], in the order of recording.

    Raises:
        Unusable: The trace is missing or damaged.
    """
    with _opened(path) as reader:
        table = reader.read(use_threads=False)
    rows = table.filter(pyarrow.compute.equal(table["metric"], metric))
    return rows["step"].to_numpy(), rows["value"].to_numpy()
