"""Tables of returns in CSV or Parquet: a row for each value, or a column for each run."""

import collections
import gzip
import io
import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parallax.harness.imports.return_curves import UNKNOWN, CurveOptions, ReturnCurve, UnreadCurve
from parallax.harness.imports.run_names import FIELDS, PathPattern
from parallax.harness.imports.tensorboard_and_wandb import MAX_FILE_BYTES
from parallax.harness.record.files import (
    DECODE_ERRORS,
    UnusableError,
    read_bounded,
    summarize_error,
)
from parallax.harness.record.npz_files import RunEvaluations, check_arrays

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq")
_MAX_VALUES = 2**22
_MAX_RUNS = 100_000
_MAX_DECODED_BYTES = 2**27
_MAX_NAME = 255  # characters of a text that names a run
_MAX_FOOTER_BYTES = 2**24
_MAX_HEADING = 2**16
_TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv")
_COLUMNS: Mapping[str, str] = {
    **{field: field for field in FIELDS},
    "step": "step",
    "return": "return",
}
_OTHER_NAMES = {"task": "env"}  # another word for the environment


def read_table(path: Path, options: CurveOptions) -> Iterator[ReturnCurve | UnreadCurve]:
    """Read the runs of a table, even if some of them cannot be read.

    Args:
        path: A CSV file with a heading, or a Parquet file.
        options: `columns` gives the names of columns if they are not the usual ones; with `wide`,
            each column whose name matches the pattern is a run.

    Raises:
        UnusableError: It is damaged, too large, or lacks a column.
    """
    names = {options.columns.get(field, field) for field in FIELDS if field != "seed"}
    table = _load_columns(path, {*names, *_OTHER_NAMES})
    step_name = options.columns.get("step", "step")
    if step_name not in table:
        raise UnusableError(_describe_missing("step", step_name, table))
    steps = _to_steps(table[step_name], step_name)
    groups = (
        _split_wide(table, steps, options) if options.wide else _split_long(table, steps, options)
    )
    for part, facts, at, values in groups:
        try:
            evaluations = _group_by_step(at, values, options.empty)
        except UnusableError as error:
            yield UnreadCurve(part, str(error))
            continue
        yield ReturnCurve(
            path,
            (path,),
            evaluations,
            options.kind or UNKNOWN,
            are_means=True,
            facts=facts,
            part=part,
        )


_Group = tuple[str, dict[str, Any], Sequence[int], Sequence[Any]]


def _split_wide(
    table: Mapping[str, Sequence[Any]], steps: Sequence[int], options: CurveOptions
) -> Iterator[_Group]:
    pattern = PathPattern(options.wide)
    found = {name: facts for name in table if (facts := pattern.match_name(name)) is not None}
    if not found:
        raise UnusableError(
            f"no column fits --wide {options.wide!r}; there are {', '.join(list(table)[:12])}"
        )
    for name, facts in found.items():
        # Shorter runs end in empty cells, which NumPy and pandas may write as NaN.
        rows = [
            (step, value)
            for step, value in zip(steps, table[name], strict=True)
            if options.empty == "fail" or not _is_missing(value)
        ]
        yield name, facts, [step for step, _ in rows], [value for _, value in rows]


def _split_long(
    table: Mapping[str, Sequence[Any]], steps: Sequence[int], options: CurveOptions
) -> Iterator[_Group]:
    names = {role: options.columns.get(role, name) for role, name in _COLUMNS.items()}
    for other, role in _OTHER_NAMES.items():
        if names[role] not in table and role not in options.columns and other in table:
            names[role] = other
    for role, name in names.items():
        if name not in table and (role == "return" or role in options.columns):
            raise UnusableError(_describe_missing(role, name, table))
    roles = [role for role in FIELDS if names[role] in table]
    # NaN is not equal to itself: as a part of names it would make each row a run.
    columns = ([None if _is_missing(v) else v for v in table[names[role]]] for role in roles)
    keys = list(zip(*columns, strict=True)) or [()] * len(steps)
    rows: dict[tuple[Any, ...], list[int]] = collections.defaultdict(list)
    for i, key in enumerate(keys):
        rows[key].append(i)
    if len(rows) > _MAX_RUNS:
        raise UnusableError(f"holds {len(rows):,} runs where {_MAX_RUNS:,} are allowed")
    values = table[names["return"]]
    for key, members in rows.items():
        facts = {
            role: _to_fact(role, value)
            for role, value in zip(roles, key, strict=True)
            if value is not None
        }
        part = ", ".join(f"{role}={value}" for role, value in facts.items())
        yield part, facts, [steps[i] for i in members], [values[i] for i in members]


def _group_by_step(steps: Sequence[int], values: Sequence[Any], empty: str) -> RunEvaluations:
    """Return evaluations: several values at a step are the episodes of one evaluation."""
    by_step: dict[int, list[float]] = collections.defaultdict(list)
    for step, value in zip(steps, values, strict=True):
        if value is None or value == "":
            if empty == "refuse":
                raise UnusableError(
                    f"the return at step {step:,} is missing: add --empty-returns fail where the "
                    "training had diverged, or --empty-returns skip where it was not evaluated"
                )
            if empty == "fail":
                by_step[step].append(math.nan)
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UnusableError(f"the return at step {step:,} is {value!r}, no number like 12.5")
        by_step[step].append(float(value))
    if not by_step:
        raise UnusableError("has no returns")
    counts = {len(found) for found in by_step.values()}
    if len(counts) > 1:
        raise UnusableError(
            f"{min(counts)} to {max(counts)} values at a step. Several are the "
            "episodes of one evaluation, and their number must be the same; runs of several seeds "
            "need a column that distinguishes them, such as --columns seed=NAME"
        )
    ordered = sorted(by_step)
    results = np.array([by_step[step] for step in ordered], np.float64)
    lengths = np.zeros(results.shape, np.int64)
    return check_arrays(np.array(ordered, np.int64), results, lengths, "its returns")


def _to_steps(column: Sequence[Any], name: str) -> list[int]:
    steps = []
    for number, value in enumerate(column, 1):
        is_whole = isinstance(value, int | float) and math.isfinite(value) and value == int(value)
        if isinstance(value, bool) or not is_whole or not 0 <= value < 2**53:
            raise UnusableError(f"column {name}, row {number}: {value!r} is not a number of steps")
        steps.append(int(value))
    return steps


def _to_fact(role: str, value: Any) -> Any:
    if isinstance(value, bytes):
        raise UnusableError(f"{role}={value[:40]!r} is not a text in UTF-8")
    if len(text := str(value)) > _MAX_NAME:
        raise UnusableError(f"{role}={text[:40]}... is not a name: it has {len(text):,} characters")
    if role != "seed":
        return text
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _describe_missing(role: str, name: str, table: Mapping[str, Any]) -> str:
    return (
        f"has no column {name}; it has {', '.join(list(table)[:12])}. "
        f"Say which one is the {role}: --columns {role}=NAME"
        + (", or, if each run has a column, --wide PATTERN" if role == "return" else "")
    )


def _load_columns(path: Path, texts: Collection[str]) -> dict[str, list[Any]]:
    """Return the columns of a file by name, as lists of values; `texts` have no numbers."""
    import pyarrow

    raw = read_bounded(path, MAX_FILE_BYTES)
    try:
        if path.name.endswith(_TEXT_SUFFIXES):
            table = _read_text_table(_unpack_gzip(raw) if path.suffix == ".gz" else raw, texts)
        else:
            table = _read_parquet(raw)
        _check_count(table.num_rows * table.num_columns)
        if not table.num_rows:
            raise UnusableError("has no rows")
        if len(set(table.column_names)) < table.num_columns:
            raise UnusableError("has two columns of one name")
        return {name: _list_values(table[name]) for name in table.column_names}
    except (pyarrow.ArrowException, OSError, *DECODE_ERRORS) as error:
        raise UnusableError(f"cannot be read as a table: {summarize_error(error)}") from error


def _unpack_gzip(raw: bytes) -> bytes:
    """Return the text in a gzip file, of a bounded size."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            text = file.read(_MAX_DECODED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UnusableError("no gzip file, or one that is cut off") from error
    if len(text) > _MAX_DECODED_BYTES:
        raise UnusableError(f"is too large: over {_MAX_DECODED_BYTES:,} bytes after decompression")
    return text


def _read_text_table(raw: bytes, texts: Collection[str]) -> Any:
    """Return the columns of a text whose heading is separated by comma, semicolon or tab."""
    import pyarrow.csv

    heading = raw[:_MAX_HEADING].partition(b"\n")[0]
    # A heading without any of them is one column; for equal counts the comma wins.
    delimiter = max((b",", b";", b"\t"), key=heading.count)
    _check_count(sum(raw.count(end) for end in (delimiter, b"\n", b"\r")))
    defaults = pyarrow.csv.ConvertOptions()
    # A return of NaN means that the training diverged; an empty one does not.
    nulls = [name for name in defaults.null_values if "nan" not in name.lower()]
    return pyarrow.csv.read_csv(
        io.BytesIO(raw),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter.decode()),
        # As numbers, the names 1.10 and 1.1 would be one.
        convert_options=pyarrow.csv.ConvertOptions(
            null_values=nulls, column_types=dict.fromkeys(texts, pyarrow.string())
        ),
    )


def _read_parquet(raw: bytes) -> Any:
    """Return the columns without lists and structures; repeated texts stay one object."""
    import pyarrow
    import pyarrow.parquet

    from parallax.harness.record.parquet_pages import check_pages, read_column_sizes

    # The sizes in the footer are compared with the pages before these are decoded.
    groups = read_column_sizes(io.BytesIO(raw), _MAX_FOOTER_BYTES)
    columns = [column for group in groups for column in group]
    decoded = sum(column.uncompressed for column in columns)
    if decoded > _MAX_DECODED_BYTES:
        raise UnusableError(f"is too large: {decoded:,} bytes after decompression")
    _check_count(sum(column.values for column in columns))
    check_pages(io.BytesIO(raw), groups)
    options = {
        "thrift_string_size_limit": _MAX_FOOTER_BYTES,
        "thrift_container_size_limit": _MAX_VALUES,
        "page_checksum_verification": True,
    }
    schema = pyarrow.parquet.ParquetFile(io.BytesIO(raw), **options).schema_arrow
    plain = [field for field in schema if not pyarrow.types.is_nested(field.type)]
    texts = [field.name for field in plain if not pyarrow.types.is_primitive(field.type)]
    file = pyarrow.parquet.ParquetFile(io.BytesIO(raw), read_dictionary=texts, **options)
    _check_count(file.metadata.num_rows)
    return file.read([field.name for field in plain])


def _list_values(column: Any) -> list[Any]:
    """Return the values of a column; equal texts of a dictionary are one object."""
    import pyarrow

    if not pyarrow.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values: list[Any] = []
    for chunk in column.chunks:
        words = [*chunk.dictionary.to_pylist(), None]
        values += [words[-1 if index is None else index] for index in chunk.indices.to_pylist()]
    return values


def _check_count(count: int) -> None:
    if count > _MAX_VALUES:
        raise UnusableError(f"is too large: {count:,} values where {_MAX_VALUES:,} are allowed")
