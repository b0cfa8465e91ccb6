"""Small packed files that decode to much are refused before memory is filled."""

import contextlib
import random
import subprocess
import sys

import pyarrow
import pyarrow.parquet
import pytest

from parallax.harness.record.files import UnusableError
from parallax.harness.record.packed import PACKED_SCHEMA, read_rows

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
    printed, memory = done.stdout.splitlines()
    return printed, int(memory)


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("rows where", {"rows": 100_000, "groups": 30, "run_json": "{}"}),
        ("bytes after decoding", {"rows": 1000, "run_json": "x" * 2**20}),
        ("bytes after decoding", {"rows": 50_000, "run_json": "x" * 10_000}),
        ("bytes in one run_json", {"rows": 1, "run_json": "x" * 2**22}),
        ("bytes after decompression", {"rows": 10, "groups": 30, "run_json": "x" * 2**24}),
        ("values in a column", {"rows": 1, "returns": [[0.0] * 2**20] * 9}),
        ("bytes after decoding in 1 rows", {"rows": 1, "returns": [[0.0] * 2**20] * 8}),
        ("values in a column", {"rows": 1000, "timesteps": [0] * 20_000}),
    ],
)
def test_constant_columns_are_refused_before_they_are_decoded(tmp_path, message, options):
    write_constant(tmp_path / "rows.parquet", **options)
    assert (tmp_path / "rows.parquet").stat().st_size < 5 * 2**20
    printed, memory = read(tmp_path / "rows.parquet")
    assert "it is too large" in printed and message in printed
    assert memory < MOST


def encode_number(value, length=0):
    """A number as Thrift's compact protocol writes it, in as many bytes as another one."""
    value, raw = 2 * value, bytearray()
    while value > 127 or len(raw) < length - 1:
        raw.append(value & 127 | 128)
        value >>= 7
    return bytes([*raw, value])


def change_header(path, name, value):
    """Lets the footer say something else of the column `run_json`."""
    file = pyarrow.parquet.ParquetFile(path)
    group = file.metadata.row_group(0)
    columns = [group.column(j) for j in range(group.num_columns)]
    column = next(one for one in columns if one.path_in_schema == "run_json")
    true = encode_number(getattr(column, name))  # other columns may say the same
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert content.count(true, footer) >= 1
    changed = content[footer:].replace(true, encode_number(value, len(true)))
    path.write_bytes(content[:footer] + changed)
    pyarrow.parquet.ParquetFile(path).metadata.row_group(0)  # it can still be read


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("total_uncompressed_size", "pages of column run_json take 134,"),
        ("num_values", "hold 1,024 values where its footer says 99"),
    ],
)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_larger_than_declared_in_the_footer_are_not_read(tmp_path, name, message, version):
    path = tmp_path / "rows.parquet"
    arrays = [pyarrow.nulls(1024, field.type) for field in PACKED_SCHEMA]
    arrays[PACKED_SCHEMA.names.index("run_json")] = pyarrow.array(["x" * 2**17] * 1024)
    table = pyarrow.Table.from_arrays(arrays, schema=PACKED_SCHEMA)
    options = {"compression": "zstd", "use_dictionary": False, "data_page_version": version}
    pyarrow.parquet.write_table(table, path, data_page_size=2**30, **options)
    assert path.stat().st_size < 2**17
    change_header(path, name, 99)
    printed, memory = read(path)
    assert message in printed and memory < 2**26


@pytest.mark.parametrize("seed", range(40))
def test_headers_of_pages_that_are_damaged_are_refused_or_read(tmp_path, seed):
    """Any byte of a page or of its header may be another one."""
    path, generator = tmp_path / "rows.parquet", random.Random(seed)
    write_constant(path, 50, run_json="{}")
    content = bytearray(path.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for _ in range(3):
        content[generator.randrange(4, footer)] = generator.randrange(256)
    path.write_bytes(content)
    with contextlib.suppress(UnusableError):
        assert len(list(read_rows(path))) == 50


def test_rows_of_allowed_size_are_read_in_little_memory(tmp_path):
    write_constant(tmp_path / "rows.parquet", 10_000, run_json="x" * 10_000)
    printed, memory = read(tmp_path / "rows.parquet")
    assert printed == "10000" and memory < MOST


def test_dictionary_encoded_text_counts_in_each_row(tmp_path):
    rows, path = 3000, tmp_path / "rows.parquet"
    arrays = [pyarrow.nulls(rows, field.type) for field in PACKED_SCHEMA]
    index = pyarrow.array([0] * rows, pyarrow.int32())
    shared = pyarrow.DictionaryArray.from_arrays(index, pyarrow.array(["x" * 300_000]))
    arrays[PACKED_SCHEMA.names.index("run_json")] = shared
    fields = [field.with_type(one.type) for field, one in zip(PACKED_SCHEMA, arrays, strict=True)]
    schema = pyarrow.schema(fields, PACKED_SCHEMA.metadata)
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, schema=schema), path)
    assert path.stat().st_size < 2**16
    printed, memory = read(path)
    assert "it is too large" in printed and "bytes after decoding" in printed
    assert memory < MOST
