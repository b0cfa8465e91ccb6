"""Small packed files that decode to much are refused before memory is filled."""

import subprocess
import sys

import pyarrow
import pyarrow.parquet
import pytest

from parallax.harness.record.packed import PACKED_SCHEMA

MOST = 2**29  # bytes of memory beyond what the libraries take
CODE = """
import resource, sys
from pathlib import Path
from parallax.harness.record.files import UnusableError
from parallax.harness.record.packed import read_rows
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(sum(1 for _ in read_rows(Path(sys.argv[1]))))
except UnusableError as error:
    print(error)
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


def write_constant(path, rows, groups=1, **columns):
    """Writes rows that are all the same, one group of rows after another."""
    arrays = []
    for field in PACKED_SCHEMA:
        value = columns.get(field.name)
        if isinstance(value, list):
            arrays.append(pyarrow.array([value] * rows, field.type))
        else:
            arrays.append(pyarrow.repeat(pyarrow.scalar(value, field.type), rows))
    table = pyarrow.Table.from_arrays(arrays, schema=PACKED_SCHEMA)
    with pyarrow.parquet.ParquetWriter(path, PACKED_SCHEMA, compression="zstd") as writer:
        for _ in range(groups):
            writer.write_table(table)


def read(path):
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(path)], capture_output=True, text=True, check=True
    )
    told, memory = done.stdout.splitlines()
    return told, int(memory)


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("rows where", {"rows": 100_000, "groups": 30, "run_json": "{}"}),
        ("bytes after decoding", {"rows": 1000, "run_json": "x" * 2**20}),
        ("bytes after decoding", {"rows": 50_000, "run_json": "x" * 10_000}),
        ("bytes in one run_json", {"rows": 1, "run_json": "x" * 2**22}),
        ("bytes after decompression", {"rows": 10, "groups": 30, "run_json": "x" * 2**24}),
        ("values in a column", {"rows": 1, "returns": [[0.0] * 2**20] * 20}),
        ("bytes after decoding in 1 rows", {"rows": 1, "returns": [[0.0] * 2**20] * 15}),
        ("values in a column", {"rows": 1000, "timesteps": [0] * 20_000}),
    ],
)
def test_constant_columns_are_refused_before_they_are_decoded(tmp_path, message, options):
    write_constant(tmp_path / "rows.parquet", **options)
    assert (tmp_path / "rows.parquet").stat().st_size < 5 * 2**20
    told, memory = read(tmp_path / "rows.parquet")
    assert "it is too large" in told and message in told
    assert memory < MOST


def test_rows_of_allowed_size_are_read_in_little_memory(tmp_path):
    write_constant(tmp_path / "rows.parquet", 10_000, run_json="x" * 10_000)
    told, memory = read(tmp_path / "rows.parquet")
    assert told == "10000" and memory < MOST
