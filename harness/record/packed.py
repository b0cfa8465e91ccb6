"""Many runs in one Parquet file: all data to publish, read, judge and repeat a study.

Each row is a run folder, used or not. Scores and evaluations are in columns that any reader of
Parquet understands; `run_json` is the run's own record, with its settings and provenance. The same
rows give the same bytes.

A row is judged by the function that judges run folders
(`parallax.harness.record.completeness.judge_run`). Its `content_sha256` is the hash of all other
columns, so that an edited row is detected. Files that were packed before this column existed have
no hash; everything else is checked there too. `UnusableError` says what is wrong with a file.
"""

import collections
import dataclasses
import hashlib
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec
import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from parallax.harness.record.completeness import RunReading, judge_run
from parallax.harness.record.files import (
    UnusableError,
    escape_unprintable,
    make_bytes_writer,
    open_regular_file,
    summarize_error,
    write_atomically,
)
from parallax.harness.record.npz_files import RunEvaluations, check_arrays
from parallax.harness.record.old_names import translate_env, translate_variant
from parallax.harness.record.parquet_pages import ColumnSizes, check_pages, read_column_sizes
from parallax.harness.record.reading import parse_record
from parallax.harness.record.run_json import CHECKSUM_FIELD, RunRecord, find_other_variant

_VERSION = "1"
_METADATA_KEY = b"parallax.runs"
_TEXT, _WHOLE, _NUMBER = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
PACKED_SCHEMA = pyarrow.schema(
    [
        *((name, _TEXT) for name in ("study", "env", "algorithm", "hps", "framework", "variant")),
        ("seed", _WHOLE),
        ("final_score", _NUMBER),  # mean return over the episodes of the last evaluation
        ("timesteps", pyarrow.list_(_WHOLE)),
        ("returns", pyarrow.list_(pyarrow.list_(_NUMBER))),
        ("ep_lengths", pyarrow.list_(pyarrow.list_(_WHOLE))),
        ("seconds", _NUMBER),
        ("not_used_because", _TEXT),
        ("completed", pyarrow.bool_()),
        ("failed", pyarrow.bool_()),
        ("folder", _TEXT),
        ("run_json", _TEXT),
        ("spec", _TEXT),
        ("content_sha256", _TEXT),  # of all other columns of the row
    ],
    metadata={_METADATA_KEY: _VERSION.encode()},
)
"""Columns. `returns` and `ep_lengths` are lists by evaluation of lists by episode."""

PackedRow = Mapping[str, Any]

_HASH = "content_sha256"
_HASHED = tuple(name for name in PACKED_SCHEMA.names if name != _HASH)
_NAMES = ("study", "env", "algorithm", "hps", "framework", "variant")
_LONGEST_NAME, _LONGEST_FOLDER = 255, 4096
# The largest study so far has 14,000 runs; 960 runs take half a megabyte, or 9 MB decoded.
_MOST_BYTES, _MOST_FOOTER = 2**28, 2**24
_MOST_ROWS, _MOST_VALUES, _MOST_DECODED = 100_000, 2**23, 2**28
_MOST_JSON = 2**21  # bytes of a record
_BATCH, _MOST_BATCH = 64, 2**26  # rows and bytes that are decoded at a time
_MOST_LISTS = 2**18  # evaluations that are decoded at a time
# In the records of a file: in JSON a list has two bytes, in Python 90; a record has some 60.
_MOST_CONTAINERS, _MOST_ITEMS = 2**22, 2**25


def write_rows(rows: Iterable[PackedRow], path: Path) -> None:
    """Write rows atomically, as `encode_rows` returns them.

    Raises:
        OSError: The file cannot be written.
    """
    write_atomically(path, make_bytes_writer(encode_rows(rows)))


def encode_rows(rows: Iterable[PackedRow]) -> bytes:
    """Return a file of rows, sorted by their folders' names, each with its hash."""
    ordered = sorted(map(dict, rows), key=lambda row: str(row["folder"]))
    # Converted to a table first: the hashed values have the types that a reader will find.
    typed = pyarrow.Table.from_pylist(ordered, schema=PACKED_SCHEMA).to_pylist()
    hashed = [{**row, _HASH: hash_row(row)} for row in typed]
    table = pyarrow.Table.from_pylist(hashed, schema=PACKED_SCHEMA)
    options = {"compression": "zstd", "write_page_checksum": True}
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, **options)
    return file.getvalue()


def hash_row(row: PackedRow) -> str:
    """Return the SHA-256 of all columns of a row except the hash itself."""
    content = [[name, row[name]] for name in _HASHED]
    return hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()


def read_rows(path: Path) -> Iterator[PackedRow]:
    """Read the rows of a file one by one; those of files without hashes have no `content_sha256`.

    The sizes that the file declares are checked first, and rows are decoded a few at a time, so
    that a small file of constant columns cannot fill the memory. Only the types and sizes in a row
    are checked here: see `judge_row`.

    Raises:
        UnusableError: The file is damaged, too large, of a later version, or holds something else.
    """
    try:
        with open_regular_file(path) as opened:
            check_size(opened.seek(0, 2), _MOST_BYTES, "bytes")
            opened.seek(0)
            yield from _read_batches(opened)
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, LookupError) as error:
        raise UnusableError(summarize_error(error)) from error
    except MemoryError as error:
        raise UnusableError("it is too large for the memory") from error


def _read_batches(opened: IO[bytes]) -> Iterator[PackedRow]:
    groups = read_column_sizes(opened, _MOST_FOOTER)  # first: PyArrow bounds no part of a footer
    limits = {"thrift_string_size_limit": _MOST_FOOTER, "thrift_container_size_limit": _MOST_ROWS}
    file = pyarrow.parquet.ParquetFile(opened, page_checksum_verification=True, **limits)
    _check_schema(file.schema_arrow)
    names = [name for name in PACKED_SCHEMA.names if name in file.schema_arrow.names]
    schema = pyarrow.schema([PACKED_SCHEMA.field(name) for name in names])
    check_size(file.metadata.num_rows, _MOST_ROWS, "rows")
    if not file.metadata.num_rows:
        raise UnusableError("it has no runs")
    rows = _choose_batch_rows(groups)
    check_pages(opened, groups)  # from here on the footer's sizes are those of the pages
    decoded = containers = items = 0
    for batch in file.iter_batches(rows, None, names):
        # Counted after the cast: it writes out a text that many rows share by a dictionary.
        table = pyarrow.Table.from_batches([batch]).select(names).cast(schema)
        check_size(table.nbytes, _MOST_BATCH, f"bytes after decoding in {len(table)} rows")
        decoded += table.nbytes
        check_size(decoded, _MOST_DECODED, "bytes after decoding")
        for column in ("run_json", "spec"):
            longest = pyarrow.compute.max(pyarrow.compute.binary_length(table[column])).as_py()
            check_size(longest or 0, _MOST_JSON, f"bytes in one {column}")
            containers += _count_substrings(table[column], "[", "{")
            items += _count_substrings(table[column], ",")
        check_size(containers, _MOST_CONTAINERS, "lists and mappings in records")
        check_size(items, _MOST_ITEMS, "values in records")
        for column in ("returns", "ep_lengths"):  # a list in Python takes more than one in Arrow
            count = pyarrow.compute.sum(pyarrow.compute.list_value_length(table[column])).as_py()
            check_size(count or 0, _MOST_LISTS, f"evaluations in {len(batch)} rows")
        yield from table.to_pylist()


def _check_schema(there: pyarrow.Schema) -> None:
    version = (there.metadata or {}).get(_METADATA_KEY)
    if version is None or not set(_HASHED) <= set(there.names):
        raise UnusableError(
            "it holds no packed runs; make such a file with `parallax study pack RESULTS`"
        )
    if version.decode() != _VERSION:
        raise UnusableError("a later version of this project wrote it: use that version")


def _choose_batch_rows(groups: Sequence[Sequence[ColumnSizes]]) -> int:
    """Return how many rows to decode at a time, after checking the sizes in the footer."""
    bytes_by_group = [sum(column.uncompressed for column in group) for group in groups]
    values: collections.Counter[str] = collections.Counter()
    for sizes in itertools.chain.from_iterable(groups):
        values[sizes.name] += sizes.values
    check_size(sum(bytes_by_group), _MOST_DECODED, "bytes after decompression")
    check_size(max(values.values(), default=0), _MOST_VALUES, "values in a column")
    # No row is larger than all of its group's columns: dictionaries count as well.
    largest = max(bytes_by_group, default=0)
    return max(1, min(_BATCH, _MOST_BATCH // max(largest, 1)))


def _count_substrings(column: Any, *patterns: str) -> int:
    """Return how often texts of a column contain any of the patterns."""
    counts = (pyarrow.compute.count_substring(column, one) for one in patterns)
    return sum(pyarrow.compute.sum(count).as_py() or 0 for count in counts)


def check_size(found: int, limit: int, what: str) -> None:
    """Refuse a size that is larger than that of any study.

    Raises:
        UnusableError: It is too large; says by how much.
    """
    if not 0 <= found <= limit:
        raise UnusableError(
            f"it is too large: {found:,} {what} where {limit:,} are allowed. If these are your own "
            "runs, pack parts of the study into separate files"
        )


def judge_row(row: PackedRow, root: Path) -> RunReading:
    """Judge a row that has a record by the same rule as a run folder.

    The columns must also agree with the record. The evaluations of a complete run are returned.
    """
    try:
        check_columns(row)
    except UnusableError as error:
        return RunReading(root, reason=str(error), damaged=True)
    reading = judge_run(root / row["folder"], _RowSource(row), with_evaluations=True)
    if not reading.complete or reading.record is None or reading.evaluations is None:
        return reading
    if contradiction := find_contradiction(translate_row(row), reading.record, reading.evaluations):
        return dataclasses.replace(reading, evaluations=None, reason=contradiction, damaged=True)
    return reading


def translate_row(row: PackedRow) -> PackedRow:
    """Return a row with current names in its columns; the row's hash covers the old names."""
    env, variant = row["env"], row["variant"]
    new = {"env": env and translate_env(env), "variant": variant and translate_variant(variant)}
    return {**row, **new}


def check_columns(row: PackedRow) -> None:
    """Check the columns that say which run a row is.

    Raises:
        UnusableError: A name is missing or too long, or the folder is not a relative path.
    """
    for name in _NAMES:
        value = row[name]
        if value is None:
            raise UnusableError(
                f"corrupted row: column {name} is empty, so it is no run that is known"
            )
        if len(value) > _LONGEST_NAME:
            raise UnusableError(
                f"corrupted row: column {name} has {len(value):,} characters, and names have at "
                f"most {_LONGEST_NAME}"
            )
    seed = row["seed"]
    if seed is not None and seed < 0:
        raise UnusableError(f"corrupted row: column seed is {seed}, and seeds are not negative")
    check_folder(row["folder"])


def check_folder(folder: str | None) -> None:
    """Check that a folder is a path below the file.

    Raises:
        UnusableError: It is empty, absolute, too long, or leads out of the file.
    """
    if not folder or len(folder) > _LONGEST_FOLDER:
        raise UnusableError("corrupted row: column folder is empty or too long for a path")
    path = PurePosixPath(folder)
    if path.is_absolute() or ".." in path.parts or "\0" in folder or not path.parts:
        raise UnusableError(
            f"corrupted row: column folder is {escape_unprintable(folder)[:80]}, not a path "
            "below the file"
        )


def find_contradiction(row: PackedRow, record: RunRecord, evaluations: RunEvaluations) -> str:
    """Return the column in which a row contradicts its record, or an empty string.

    The study may differ, since studies are renamed.
    """
    spec, seconds = record.spec, record.timings.seconds
    stated: dict[str, Any] = {
        "env": escape_unprintable(spec.task_name),
        "algorithm": escape_unprintable(spec.algorithm),
        "hps": escape_unprintable(spec.hps),
        "framework": escape_unprintable(spec.implementation),
        "seed": spec.seed,
        "completed": True,
        "failed": False,
        "seconds": round_score(None if seconds is None or seconds < 0 else seconds),
        "final_score": round_score(float(evaluations.results[-1].mean())),
    }
    # An earlier version stored characters as they are that `escape_unprintable` now escapes.
    found = {
        name: escape_unprintable(row[name]) if isinstance(row[name], str) else row[name]
        for name in stated
    }
    found |= {name: round_score(row[name]) for name in ("seconds", "final_score")}
    episodes = evaluations.results.shape[1]
    if record.imported and not record.imported.are_means and episodes > 1:  # one may be a mean
        found["returns, episodes"] = episodes
        stated["returns, episodes"] = spec.eval_episodes
    for name, value in stated.items():
        if found[name] != value:
            shown = escape_unprintable(str(found[name]))[:80]
            return (
                f"corrupted row: column {name} is {shown}, and run_json says "
                f"{escape_unprintable(str(value))[:80]}"
            )
    if record.imported or not (setting := find_other_variant(row["variant"], spec)):
        return ""
    return (
        f"corrupted row: column variant is {escape_unprintable(row['variant'])}, and run_json says "
        f"{escape_unprintable(setting)[:200]}"
    )


def round_score(value: float | None) -> float | None:
    """Round a value that another version of NumPy may have computed."""
    return None if value is None or math.isnan(value) else float(f"{value:.9g}")


def check_hash(row: PackedRow) -> bool | None:
    """Return whether a row is unchanged since it was packed; None in files without hashes."""
    return row[_HASH] == hash_row(row) if _HASH in row else None


CHANGED = (
    "corrupted row: its content_sha256 does not match, so it was changed after it was packed: "
    "pack the run folders again"
)


class _RowSource:
    """Reads a run from a row."""

    def __init__(self, row: PackedRow) -> None:
        self._row = row

    def read_record(self) -> tuple[RunRecord, dict[str, Any]]:
        record, content = parse_record((self._row["run_json"] or "").encode())
        if "host" not in content:
            # `pack --anonymize` removes the names of hosts, so that the checksum cannot match.
            content.pop(CHECKSUM_FIELD, None)
        return record, content

    def check_content(self, record: RunRecord) -> bool | None:
        return check_hash(self._row)

    def read_evaluations(self) -> RunEvaluations:
        return read_evaluations(self._row)

    def explain_change(self) -> str:
        return CHANGED


def read_evaluations(row: PackedRow) -> RunEvaluations:
    """Read the evaluations of a run.

    Raises:
        UnusableError: They do not fit together.
    """
    try:
        arrays = (
            np.array(row["timesteps"], np.int64),
            np.array(row["returns"], np.float64),
            np.array(row["ep_lengths"], np.int64),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise UnusableError("corrupted row: evaluations do not fit together") from error
    return check_arrays(*arrays, "corrupted row: evaluations do not fit together")
