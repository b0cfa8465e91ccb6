"""Rows of packed files as they are written and read, up to every limit."""

import msgspec
import pyarrow
import pyarrow.parquet
import pytest
import support

from parallax.harness.contract.run_spec import RUN_DEFAULTS, spec_to_dict
from parallax.harness.record import packed, run_json
from parallax.harness.record.files import UnusableError
from parallax.harness.record.packed import (
    PACKED_SCHEMA,
    hash_row,
    read_evaluations,
    read_rows,
    translate_row,
    write_rows,
)
from parallax.harness.record.run_json import RecordedSpec


def make_row(folder, **changes):
    names = dict.fromkeys(("study", "env", "algorithm", "hps", "framework", "variant"), "name")
    values = {"seed": 1, "final_score": 2.0, "timesteps": [10, 20], "completed": True}
    values |= {"returns": [[1, 2], [3, 4]], "ep_lengths": [[5, 6], [7, 8]], "failed": False}
    values |= {"seconds": 1.5, "not_used_because": None, "run_json": "{}", "spec": "[1]"}
    return names | values | {"folder": folder} | changes


@pytest.fixture
def path(tmp_path):
    write_rows(
        [make_row("b", run_json="xxxx,xxxx"), make_row("a"), make_row("c")], tmp_path / "rows"
    )
    return tmp_path / "rows"


def test_rows_are_sorted_by_folder_with_a_hash_of_all_other_columns(path):
    rows = list(read_rows(path))
    assert [row["folder"] for row in rows] == ["a", "b", "c"]
    assert list(rows[0]) == PACKED_SCHEMA.names
    expected = make_row("a", returns=[[1.0, 2.0], [3.0, 4.0]])
    assert rows[0] == expected | {"content_sha256": hash_row(rows[0])}
    assert len({row["content_sha256"] for row in rows}) == 3
    for name in set(PACKED_SCHEMA.names) - {"content_sha256"}:
        assert hash_row(rows[0] | {name: "other"}) != rows[0]["content_sha256"]
    assert hash_row(rows[0] | {"content_sha256": "x"}) == rows[0]["content_sha256"]


@pytest.mark.parametrize(
    ("name", "limit", "words"),
    [
        ("_MOST_VALUES", 12, "12 values in a column where 11 are allowed"),
        ("_MOST_LISTS", 6, "6 evaluations in 3 rows where 5 are allowed"),
        ("_MOST_JSON", 9, "9 bytes in one run_json where 8 are allowed"),
        # `[1]` is in each of the three rows, and two have `{}`.
        ("_MOST_CONTAINERS", 5, "5 lists and mappings in records where 4 are allowed"),
        ("_MOST_ITEMS", 1, "1 values in records where 0 are allowed"),
    ],
)
def test_files_are_read_up_to_their_limits(path, monkeypatch, name, limit, words):
    monkeypatch.setattr(packed, name, limit)
    assert len(list(read_rows(path))) == 3
    monkeypatch.setattr(packed, name, limit - 1)
    with pytest.raises(UnusableError, match=f"^it is too large: {words}. If these are your own ru"):
        list(read_rows(path))


def test_file_without_runs_is_refused(tmp_path):
    write_rows([], tmp_path / "rows")
    with pytest.raises(UnusableError, match=r"^it has no runs$"):
        list(read_rows(tmp_path / "rows"))


def test_a_file_has_a_largest_number_of_rows(tmp_path, monkeypatch):
    """The limit is also that of the lists in a footer, which has one for each column."""
    write_rows([make_row(f"{number:02}") for number in range(60)], tmp_path / "rows")
    monkeypatch.setattr(packed, "_MOST_ROWS", 60)
    assert [row["folder"] for row in read_rows(tmp_path / "rows")][::59] == ["00", "59"]
    monkeypatch.setattr(packed, "_MOST_ROWS", 59)
    with pytest.raises(UnusableError, match=r"^it is too large: 60 rows where 59 are allowed\."):
        list(read_rows(tmp_path / "rows"))


def test_files_and_columns_have_a_largest_size_in_bytes(path, monkeypatch):
    size = path.stat().st_size
    with path.open("rb") as file:
        groups = packed.read_column_sizes(file, 2**20)
    decompressed = sum(column.uncompressed for group in groups for column in group)
    table = pyarrow.parquet.read_table(path)
    decoded = table.nbytes
    assert decoded < decompressed
    for name, limit, words in (
        ("_MOST_BYTES", size, f"{size:,} bytes where {size - 1:,} are allowed"),
        ("_MOST_DECODED", decompressed, f"{decompressed:,} bytes after decompression where "),
    ):
        monkeypatch.setattr(packed, name, limit)
        assert len(list(read_rows(path))) == 3
        monkeypatch.setattr(packed, name, limit - 1)
        with pytest.raises(UnusableError, match=f"^it is too large: {words}"):
            list(read_rows(path))
        monkeypatch.undo()


def test_few_rows_are_decoded_at_a_time_and_one_at_least(path, monkeypatch):
    """Of large groups of rows, as many as the limit allows if all bytes were those of one row."""
    monkeypatch.setattr(packed, "_MOST_BATCH", 1)
    with pytest.raises(UnusableError, match=r"bytes after decoding in 1 rows where 1 are allowed"):
        list(read_rows(path))
    sizes = []
    check = packed.check_size
    monkeypatch.undo()
    monkeypatch.setattr(packed, "_BATCH", 2)
    monkeypatch.setattr(packed, "check_size", lambda *given: (sizes.append(given), check(*given)))
    assert len(list(read_rows(path))) == 3
    batches = [(what, size) for size, _, what in sizes if "after decoding" in what]
    assert [what for what, _ in batches] == [
        "bytes after decoding in 2 rows",
        "bytes after decoding",
        "bytes after decoding in 1 rows",
        "bytes after decoding",
    ]
    numbers = [size for _, size in batches]
    assert numbers[1] == numbers[0] and numbers[3] == numbers[0] + numbers[2]


@pytest.mark.parametrize(
    ("metadata", "names", "words"),
    [
        ({}, PACKED_SCHEMA.names, "it holds no packed runs; make such a file with `parallax"),
        ({"parallax.runs": "1"}, PACKED_SCHEMA.names[1:], "it holds no packed runs"),
        ({"parallax.runs": "2"}, PACKED_SCHEMA.names, "a later version of this project wrote it"),
    ],
)
def test_other_files_are_refused(path, metadata, names, words):
    table = pyarrow.parquet.read_table(path).select(names).replace_schema_metadata(metadata)
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(UnusableError, match=f"^{words}"):
        list(read_rows(path))


def test_files_without_hashes_have_rows_without_one(path):
    table = pyarrow.parquet.read_table(path)
    table = table.select(["more", *reversed(PACKED_SCHEMA.names[:-1])][1:])
    pyarrow.parquet.write_table(table.replace_schema_metadata({"parallax.runs": "1"}), path)
    rows = list(read_rows(path))
    assert list(rows[0]) == PACKED_SCHEMA.names[:-1]
    assert packed.check_hash(rows[0]) is None


def test_old_names_in_columns_are_translated_and_missing_ones_stay():
    row = {"env": "envs.a:B-v0", "variant": "alignment=full", "study": "keep=last"}
    new = {"env": "parallax.envs.a:B-v0", "variant": "alignment=exact", "study": "keep=last"}
    assert translate_row(row) == new
    assert translate_row({"env": None, "variant": ""}) == {"env": None, "variant": ""}


@pytest.mark.parametrize("changes", [{"returns": [[1], [2, 3]]}, {"timesteps": [2**70, 1]}])
def test_evaluations_that_are_not_arrays_are_damage(changes):
    assert read_evaluations(make_row("a")).results.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(UnusableError, match=r"^corrupted row: evaluations do not fit together"):
        read_evaluations(make_row("a", **changes))


OVERRIDES = [
    {},
    {"learning_rate": 1e-05, "clip_range": 0.1, "hidden_sizes": [64, 32]},
    {"target_kl": 0.01, "normalize_advantage": False},
    {"hidden_sizes": [64] * 40},  # a hash
]


@pytest.mark.parametrize("hyperparameters", OVERRIDES)
@pytest.mark.parametrize("run", [{}, {"n_envs": 2, "eval_every": 50}])
def test_variant_agrees_with_its_record_and_other_variants_do_not(hyperparameters, run):
    spec = support.spec(hyperparameters=hyperparameters, alignment="exact", **run)
    recorded = msgspec.convert(spec_to_dict(spec), RecordedSpec)
    assert run_json.find_other_variant(spec.variant, recorded) == ""
    for part in ("steps=600,", "alignment=exact", "learning_rate=", "eval_every=50"):
        if part in spec.variant:
            assert run_json.find_other_variant(spec.variant.replace(part, ""), recorded)
    assert run_json.find_other_variant(f"{spec.variant},gamma=0.5", recorded)


def test_variants_name_the_fields_of_a_run():
    assert set(run_json.VARIANT_FIELDS) == set(RUN_DEFAULTS)
