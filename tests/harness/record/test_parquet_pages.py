"""Sizes in a footer are PyArrow's own, and altered footers never end the process."""

import pathlib
import subprocess
import sys

import pyarrow.parquet
import pytest

from parallax.harness.record import parquet_pages
from parallax.harness.record.files import UnusableError
from parallax.harness.record.parquet_pages import read_column_sizes

DOCS = pathlib.Path(__file__).parents[3] / "docs"
CODE = """
import random, sys
from pathlib import Path
from parallax.harness.record.files import UnusableError
from parallax.harness.record.packed import read_rows
raw, path, rng = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), random.Random(0)
footer, refused = int.from_bytes(raw[-8:-4], "little"), 0
for _ in range(500):
    altered = bytearray(raw)
    altered[rng.randrange(len(raw) - 8 - footer, len(raw) - 8)] = rng.randrange(256)
    path.write_bytes(altered)
    try:
        next(read_rows(path))
    except UnusableError:
        refused += 1
print(refused)
"""


def test_sizes_are_those_that_pyarrow_reads():
    path = DOCS / "ladder" / "ladder.parquet"
    with path.open("rb") as file:
        found = read_column_sizes(file, 2**20)
    metadata = pyarrow.parquet.read_metadata(path)
    assert len(found) == metadata.num_row_groups > 0
    for i, group in enumerate(found):
        theirs = [metadata.row_group(i).column(j) for j in range(metadata.num_columns)]
        assert [one.name for one in group] == [one.path_in_schema for one in theirs]
        assert [one.values for one in group] == [one.num_values for one in theirs]
        assert [one.uncompressed for one in group] == [
            one.total_uncompressed_size for one in theirs
        ]


def test_altered_footers_do_not_end_the_process(tmp_path):
    """PyArrow's view of a column ends it where size statistics contradict themselves."""
    command = [
        sys.executable,
        "-c",
        CODE,
        str(DOCS / "ladder" / "ladder.parquet"),
        str(tmp_path / "altered"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 100


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"\0" * 8, b"\xff" * 40, b"PAR1\0\5\0\0\0PAR1"])
def test_what_is_no_footer_is_refused(tmp_path, raw):
    (tmp_path / "file").write_bytes(raw)
    with (tmp_path / "file").open("rb") as file, pytest.raises(UnusableError, match="damaged"):
        read_column_sizes(file, 2**20)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (1, b"", None),
        (2, b"", None),
        (3, b"x", None),
        (5, b"\x03", -2),
        (6, b"\xac\x02", 150),
        (7, b"12345678", None),
        (8, b"\x03abc", b"abc"),
        (9, b"\x25\x02\x04", [1, 2]),  # two whole numbers
        (9, b"\x32abc", [None] * 3),  # three of true or false, a byte each
        (9, b"\xf3\x10" + bytes(16), [None] * 16),  # a list whose length has its own bytes
        (12, b"\x15\x02\x00", {1: 1}),
    ],
)
def test_values_of_the_compact_protocol_are_read_or_skipped_whole(kind, raw, value):
    reader = parquet_pages._CompactReader(raw + b"rest")
    assert reader._read_value(kind, 0) == value
    assert raw + b"rest" == raw + reader._raw[reader.position :]


@pytest.mark.parametrize(("kind", "raw"), [(3, b""), (7, b"1234567"), (8, b"\x05abcd")])
def test_a_value_that_ends_too_early_is_no_value(kind, raw):
    with pytest.raises(IndexError):
        parquet_pages._CompactReader(raw)._read_value(kind, 0)
    with pytest.raises(ValueError, match="more items than there are bytes"):
        parquet_pages._CompactReader(b"\x42abc")._read_value(9, 0)
    with pytest.raises(ValueError, match="no footer"):
        parquet_pages._CompactReader(b"")._read_value(11, 0)
