"""Sizes in a footer are PyArrow's own, and altered footers never end the process."""

import dataclasses
import functools
import io
import pathlib
import subprocess
import sys

import pyarrow.parquet
import pytest

from parallax.harness.record import parquet_pages
from parallax.harness.record.files import UnusableError
from parallax.harness.record.packed import read_rows
from parallax.harness.record.parquet_pages import ColumnSizes, check_pages, read_column_sizes
from parallax.harness.record.trace import check_trace_file

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


def test_sizes_equal_those_of_pyarrow():
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
def test_invalid_footers_are_refused(tmp_path, raw):
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
def test_compact_protocol_values_are_read_or_skipped_completely(kind, raw, value):
    reader = parquet_pages._CompactReader(raw + b"rest", 100)
    assert reader._read_value(kind, 0) == value
    assert raw + b"rest" == raw + reader._raw[reader.position :]


@pytest.mark.parametrize(("kind", "raw"), [(3, b""), (7, b"1234567"), (8, b"\x05abcd")])
def test_truncated_value_is_refused(kind, raw):
    with pytest.raises(IndexError):
        parquet_pages._CompactReader(raw, 9)._read_value(kind, 0)
    with pytest.raises(ValueError, match="more items than there are bytes"):
        parquet_pages._CompactReader(b"\x42abc", 9)._read_value(9, 0)
    with pytest.raises(ValueError, match="no footer"):
        parquet_pages._CompactReader(b"", 9)._read_value(11, 0)


@pytest.mark.parametrize("kind", [1, 5, 12], ids=["booleans", "numbers", "structures"])
def test_footers_of_millions_of_parts_are_refused_before_pyarrow_reads_them(tmp_path, kind):
    """A file of 15 MB took 4 GB of memory."""
    footer = b"\x19" + bytes([0xF0 | kind]) + b"\x80\x80\x40" + bytes(2**20 + 1)
    path = tmp_path / "file.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    for read in (lambda: list(read_rows(path)), lambda: check_trace_file(path)):
        with pytest.raises(UnusableError, match="more parts in a footer or page than 1,048,576"):
            read()


def test_headers_of_thousands_of_parts_are_refused():
    """A file of 6 MB, of which many columns have one page, took an hour."""
    raw = b"\x19\xf5\x80\x02" + bytes(257)
    sizes = ColumnSizes("a", 0, 0, len(raw), 0)
    with pytest.raises(UnusableError, match="more parts in a footer or page than 256"):
        check_pages(io.BytesIO(raw), [[sizes]])


def whole(value):
    """A whole number of the compact protocol: its kind and bytes."""
    value, raw = (value << 1) ^ (value >> 63), bytearray()
    while value > 127:
        raw.append(value & 127 | 128)
        value >>= 7
    return 6, bytes([*raw, value])


def text(content):
    return 8, bytes([len(content)]) + content


def items(*values):
    return 9, bytes([len(values) << 4 | values[0][0]]) + b"".join(raw for _, raw in values)


def struct(fields):
    raw, last = b"", 0
    for number, (kind, content) in fields.items():
        raw += bytes([(number - last) << 4 | kind]) + content
        last = number
    return 12, raw + b"\0"


def column(values=5, uncompressed=70, compressed=60, data=90, **places):
    sizes = {5: values, 6: uncompressed, 7: compressed, 9: data, **places.get("more", {})}
    path = {3: items(text(b"returns"), text(b"list"), text(b"x"))}
    return struct({3: struct(path | {number: whole(size) for number, size in sizes.items()})})


def make_file(footer, before=b"PAR1", length=None):
    size = len(footer[1]) if length is None else length
    return io.BytesIO(before + footer[1] + size.to_bytes(4, "little") + b"PAR1")


def test_sizes_of_a_footer_are_read_by_group_and_column():
    footer = struct(
        {
            1: whole(2),
            4: items(
                struct({1: items(column(), column(0, 0, 0, 0)), 2: whole(9)}),
                struct({1: items(column(more={11: 80}), column(more={11: 0}))}),
                struct({2: whole(9)}),
            ),
        }
    )
    name = "returns.list.x"
    for before in (b"PAR1", b""):
        assert read_column_sizes(make_file(footer, before), len(footer[1])) == [
            [ColumnSizes(name, 5, 70, 60, 90), ColumnSizes(name, 0, 0, 0, 0)],
            [ColumnSizes(name, 5, 70, 60, 80), ColumnSizes(name, 5, 70, 60, 90)],
            [],
        ]
    assert read_column_sizes(make_file(struct({1: whole(2)})), 100) == []
    wrong = "^it is damaged: the size of its footer is wrong$"
    for size, most in ((len(footer[1]), len(footer[1]) - 1), (0, 100), (len(footer[1]) + 1, 1000)):
        with pytest.raises(UnusableError, match=wrong):
            read_column_sizes(make_file(footer, b"", length=size), most)


@pytest.mark.parametrize("place", ["values", "uncompressed", "compressed", "data"])
def test_a_size_below_0_is_damage(place):
    footer = struct({4: items(struct({1: items(column(**{place: -1}))}))})
    with pytest.raises(UnusableError, match=r"^it is damaged: its footer cannot be read$"):
        read_column_sizes(make_file(footer), 1000)


def page(size, compressed, values, kind=5):
    """A page: its header and as many bytes as it says; the header's size comes out as well."""
    inner = {kind: struct({1: whole(values), 2: whole(50)})} if kind else {}
    header = struct({1: whole(0), 2: whole(size), 3: whole(compressed), **inner})[1]
    return header + bytes(compressed)


def test_pages_of_a_column_are_bounded_by_the_footer(monkeypatch):
    pages = page(30, 10, 99, 7) + page(20, 10, 3) + page(25, 0, 2, 8) + page(0, 0, 0)
    opened = io.BytesIO(b"PAR1" + pages + page(10**6, 5, 10**6))
    right = ColumnSizes("a", 5, 75, len(pages), 4)
    check_pages(opened, [[right], [right]])
    for changes, words in (
        ({"uncompressed": 74}, "pages of column a take 75 bytes where its footer says 74"),
        ({"values": 4}, "pages of column a hold 5 values where its footer says 4"),
        ({"compressed": len(pages) + 1}, "pages of column a take 1,000,075 bytes where its foot"),
    ):
        with pytest.raises(UnusableError, match=f"^it is damaged: {words}"):
            check_pages(opened, [[dataclasses.replace(right, **changes)]])
    monkeypatch.setattr(parquet_pages, "_MAX_PAGES", 8)
    check_pages(opened, [[right, right]])
    monkeypatch.setattr(parquet_pages, "_MAX_PAGES", 7)
    with pytest.raises(UnusableError, match=r"^it is too large: more than 7 pages$"):
        check_pages(opened, [[right], [right]])


SIZES = {2: whole(0), 3: whole(0)}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (SIZES | {5: whole(7)}, ""),
        (SIZES | {5: struct({2: whole(1)})}, ""),
        (SIZES | {5: struct({1: whole(0)})}, ""),
        ({2: whole(0)}, "a page has no size"),
        ({3: whole(0)}, "a page has no size"),
        (SIZES | {2: whole(-1)}, "a page has no size"),
        (SIZES | {3: whole(-1)}, "a page has no size"),
        (SIZES | {5: struct({1: whole(-1)})}, "a page has less than no values"),
        (SIZES | {5: struct({1: text(b"x")})}, "a page has less than no values"),
    ],
)
def test_page_sizes_and_counts_are_not_negative(fields, words, monkeypatch):
    raw = struct(fields)[1]
    sizes = ColumnSizes("a", 0, 0, len(raw), 0)
    if words:
        with pytest.raises(UnusableError, match=f"^it is damaged: {words}$"):
            check_pages(io.BytesIO(raw), [[sizes]])
        return
    monkeypatch.setattr(parquet_pages, "_MAX_HEADER", len(raw))
    assert check_pages(io.BytesIO(raw), [[sizes]]) is None
    monkeypatch.setattr(parquet_pages, "_MAX_HEADER", len(raw) - 1)
    with pytest.raises(
        UnusableError, match=r"^it is damaged: the header of a page cannot be read$"
    ):
        check_pages(io.BytesIO(raw), [[sizes]])


def read_struct(raw):
    return parquet_pages._CompactReader(raw, 10**6).read_struct(0)


def nest(depth, inner, wrap):
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def test_structures_are_nested_up_to_a_depth():
    for wrap in (lambda inner: struct({1: inner}), items):
        assert read_struct(struct({1: nest(11, struct({}), wrap)})[1])
        with pytest.raises(ValueError, match="nested too deeply"):
            read_struct(struct({1: nest(12, struct({}), wrap)})[1])
    assert read_struct(struct({1: nest(11, items(whole(1)), items)})[1])
    with pytest.raises(ValueError, match="nested too deeply"):
        read_struct(struct({1: nest(12, items(whole(1)), items)})[1])


def test_field_ids_are_relative_or_absolute_and_unique():
    assert read_struct(b"\x16\x02\x36\x04\x06\x28\x06\x00") == {1: 1, 4: 2, 20: 3}
    assert read_struct(b"\xf6\x02\x16\x04\x00") == {15: 1, 16: 2}
    with pytest.raises(ValueError, match="occurs twice"):
        read_struct(b"\x16\x02\x06\x02\x06\x00")


def test_numbers_have_at_most_64_bits():
    for raw, value in (
        (b"\xff" * 9 + b"\x01", -(2**63)),
        (b"\xfe" + b"\xff" * 8 + b"\x01", 2**63 - 1),
        (b"\x7f", -64),
        (b"\x80\x01", 64),
    ):
        assert read_struct(b"\x16" + raw + b"\x00") == {1: value}
    with pytest.raises(ValueError, match="more than 64 bits"):
        read_struct(b"\x16" + b"\x80" * 10 + b"\x00\x00")


def test_a_list_has_at_most_as_many_items_as_there_are_bytes():
    reader = functools.partial(parquet_pages._CompactReader, max_parts=99)
    assert reader(b"\xe5" + bytes([2] * 14))._read_value(9, 0) == [1] * 14
    assert reader(b"\xf5\x0f" + bytes([2] * 15))._read_value(10, 0) == [1] * 15
    with pytest.raises(ValueError, match="more items than there are bytes"):
        reader(b"\xe5" + bytes([2] * 13))._read_value(9, 0)
