"""Traces: resuming a writer, recovering a truncated stream, and refusing invalid files."""

import io
import subprocess
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from parallax.harness.record import files, trace
from parallax.harness.record.files import UnusableError

COLUMNS = {"step": [1, 2, 2], "metric": ["a", "b", "a"], "value": [0.5, 1.0, np.nan]}


@pytest.fixture
def folders(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    return tmp_path / "first", tmp_path / "second"


def read_all(writer):
    file = io.BytesIO()
    writer.write_parquet(file)
    return pyarrow.parquet.read_table(file).to_pydict()


def test_writer_resumes_from_a_state_with_unwritten_values(folders):
    first, second = map(trace.TraceWriter, folders)
    assert read_all(first) == {"step": [], "metric": [], "value": []}
    first.record(1, {"a": 0.5, "b": 1.0})
    empty = first.state()
    assert len(empty["stream"]) == 0 and empty["steps"].tolist() == [1, 1]
    assert (empty["metrics"], empty["values"].tolist()) == (["a", "b"], [0.5, 1.0])
    first.append()
    first.record(2, {"a": 2.0})
    state = first.state()
    assert state["steps"].tolist() == [2] and state["stream"].dtype == np.uint8
    first.append()
    first.close()
    expected = {"step": [1, 1, 2], "metric": ["a", "b", "a"], "value": [0.5, 1.0, 2.0]}
    assert read_all(first) == expected
    second.load_state(state)
    assert read_all(second) == {name: values[:2] for name, values in expected.items()}
    second.append()
    second.record(3, {"c": 3.0})
    second.append()
    second.append()  # nothing new
    second.close()
    assert read_all(second) == {
        name: [*expected[name], more]
        for name, more in (("step", 3), ("metric", "c"), ("value", 3.0))
    }
    third = trace.TraceWriter(folders[0].parent)
    third.load_state(empty)
    assert not (folders[0].parent / "trace.arrows").exists()
    third.append()
    third.close()
    assert read_all(third) == {"step": [1, 1], "metric": ["a", "b"], "value": [0.5, 1.0]}


@pytest.mark.parametrize(
    "change",
    [
        {"stream": [0, 2**30, 2**30 + 4, 9]},
        {"metrics": [1, 2]},
        {"metrics": []},
        {"metrics": ["a", "\ud800"]},
        {"steps": np.array([2.5, 3.5])},
        {"values": np.array(["x", "y"])},
        {"values": np.ones((2, 1))},
        {"steps": [2, 2]},
    ],
)
def test_state_with_invalid_offsets_or_types_is_refused(folders, change):
    first, second = map(trace.TraceWriter, folders)
    first.record(1, {"QQQQ": 0.5, "WWWW": 1.0, "z": 2.0})
    first.append()
    first.record(2, {"a": 0.5, "b": 1.0})
    state = first.state() | change
    if "stream" in change:
        raw = first.state()["stream"].tobytes()
        places = [np.array(each, np.int32).tobytes() for each in ([0, 4, 8, 9], change["stream"])]
        assert raw.count(places[0]) == 1
        state["stream"] = np.frombuffer(raw.replace(*places), np.uint8)
    with pytest.raises((ValueError, TypeError, AttributeError)):
        second.load_state(state)


def test_writing_a_trace_does_not_import_pandas(tmp_path):
    code = (
        "import io, pathlib, sys; from parallax.harness.record.trace import TraceWriter\n"
        "writer = TraceWriter(pathlib.Path(sys.argv[1])); writer.record(1, {'loss': 0.5})\n"
        "writer.append(); writer.close(); writer.write_parquet(io.BytesIO())\n"
        "print('pandas' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"False\n"


@pytest.mark.parametrize(
    ("compression", "names", "words"),
    [("zstd", None, "compressed"), ("lz4", None, "compressed"), (None, "abc", "columns a, b, c")],
)
def test_a_state_with_a_compressed_trace_is_refused_before_it_is_decoded(
    folders, compression, names, words
):
    """A thousand bytes can stand for gigabytes."""
    first, second = map(trace.TraceWriter, folders)
    schema = trace._TRACE_SCHEMA
    columns = [np.zeros(10**6, np.int64), [""] * 10**6, np.zeros(10**6)]
    arrays = [pyarrow.array(*pair) for pair in zip(columns, schema.types, strict=True)]
    batch = pyarrow.record_batch(arrays, names=list(names or schema.names))
    stream = io.BytesIO()
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with pyarrow.ipc.new_stream(stream, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    state = first.state() | {"stream": np.frombuffer(stream.getvalue(), np.uint8)}
    before = pyarrow.total_allocated_bytes()
    with pytest.raises(ValueError, match=words):
        second.load_state(state)
    assert pyarrow.total_allocated_bytes() - before < 2**20


def test_truncated_stream_keeps_complete_batches(folders):
    writer = trace.TraceWriter(folders[0])
    sizes = []
    for step in range(3):
        writer.record(step, {"a": float(step)})
        writer.append()
        sizes.append((folders[0] / "trace.arrows").stat().st_size)
    writer.close()
    with (folders[0] / "trace.arrows").open("rb+") as file:
        file.truncate(sizes[2] - 1)
    assert read_all(writer)["step"] == [0, 1]
    with (folders[0] / "trace.arrows").open("rb+") as file:
        file.truncate(3)
    assert read_all(writer)["step"] == []


def test_metric_values_are_selected_by_name_despite_missing_names(tmp_path):
    path = tmp_path / "trace.parquet"
    table = pyarrow.table(COLUMNS | {"metric": ["a", None, "a"]}, trace._TRACE_SCHEMA)
    pyarrow.parquet.write_table(table, path)
    steps, values = trace.read_metric(path, "a")
    assert steps.tolist() == [1, 2] and values[0] == 0.5 and np.isnan(values[1])
    assert (steps.dtype, values.dtype) == (np.int64, np.float64)
    trace.check_trace_file(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_MAX_GROUP_ROWS", "is too large: 3 values in a group of rows"),
        ("_MAX_METRIC_ROWS", "has more than 2 values of a"),
    ],
)
def test_values_that_are_read_at_a_time_have_a_largest_number(tmp_path, monkeypatch, name, words):
    path = tmp_path / "trace.parquet"
    table = pyarrow.table(COLUMNS | {"metric": ["a", "a", "a"]}, trace._TRACE_SCHEMA)
    pyarrow.parquet.write_table(table, path)
    monkeypatch.setattr(trace, name, 3)
    assert len(trace.read_metric(path, "a")[0]) == 3
    monkeypatch.setattr(trace, name, 2)
    with pytest.raises(UnusableError, match=words):
        trace.read_metric(path, "a")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"metric": ["a"], "step": [1]}, "^corrupted trace.parquet: has columns 'metric', 'step'$"),
        ({"step": [1], "value": [0.5]}, "^corrupted trace.parquet: has no column 'metric'$"),
        (COLUMNS | {"more": [1, 2, 3]}, "has columns 'step', 'metric', 'value', 'more'"),
        (COLUMNS | {"value": [1, 2, 3]}, "has columns 'step', 'metric', 'value'"),
    ],
)
def test_files_with_other_columns_are_no_traces(tmp_path, columns, words):
    path = tmp_path / "trace.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    for read in (trace.check_trace_file, lambda path: trace.read_metric(path, "a")):
        with pytest.raises(UnusableError, match=words):
            read(path)


def test_files_are_written_through_their_staging_folder_and_as_strict_json(folders):
    place, staging = folders
    seen = []

    def write(file):
        seen.append((len(list(staging.iterdir())), len(list(place.iterdir()))))
        file.write(b"1")

    files.write_atomically(place / "a", write, staging)
    assert seen == [(1, 0)] and (place / "a").read_bytes() == b"1"
    assert list(staging.iterdir()) == []
    files.write_atomically(place / ("b" * 250), lambda file: file.write(b"2"))
    files.write_path_atomically(place / "c.png", lambda path: path.write_text(path.suffix))
    assert (place / "c.png").read_text() == ".png"
    files.write_json(place / "d", {"a": [float("-inf"), None, True], 2: float("nan")})
    text = '{\n  "a": [\n    "-inf",\n    null,\n    true\n  ],\n  "2": "nan"\n}\n'
    assert (place / "d").read_text() == text
    assert sorted(path.name for path in place.iterdir()) == ["a", "b" * 250, "c.png", "d"]
    assert files.escape_unprintable("a\tb\x1b\u00e9\u200b") == "a\\tb\\x1b\u00e9\\u200b"
    assert files.escape_unprintable("sb3\ufe0f \u5b57") == "sb3\\ufe0f \u5b57"


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    parts = iter([b"123", b"45", b"6", b""])
    monkeypatch.setattr(files.os, "read", lambda descriptor, size: next(parts))
    with pytest.raises(UnusableError, match=r"^grows while it is read$"):
        files.read_bounded(path, 5)
    parts = iter([b"123", b"45", b""])
    assert files.read_bounded(path, 5) == b"12345"
