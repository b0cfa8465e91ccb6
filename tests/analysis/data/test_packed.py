"""Runs in one file are those of the folders, and runs of others can stand beside them."""

import dataclasses
import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from analysis.__main__ import main
from analysis.data.load import load
from harness.record.packed import SCHEMA


@pytest.fixture
def study(results, make_run):
    """Two frameworks, a run that failed, and a file of another tool."""
    for seed in range(3):
        make_run(framework="sb3", seed=seed, score=100 + seed)
        make_run(framework="cleanrl", seed=seed, score=80 + seed)
    make_run(framework="torchrl", seed=0, status="failed", failure="it broke")
    foreign = results / "demo" / "Hopper-v5" / "theirs_1"
    foreign.mkdir(parents=True)
    (zeros, ones) = np.zeros((2, 4)), np.ones((2, 4), int)
    np.savez(foreign / "evaluations.npz", timesteps=[1, 2], results=zeros, ep_lengths=ones)
    return results / "demo"


@pytest.fixture
def packed(study, tmp_path):
    path = tmp_path / "demo.parquet"
    assert main(["pack", str(study), "--output", str(path)]) == 0
    return path


def facts(loaded):
    """All that is known of runs, their place apart."""
    found = []
    for item in loaded.folders:
        known = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
        known |= {"path": item.path.relative_to(loaded.root), "record": None}
        found.append({name: _plain(value) for name, value in known.items()})
    return sorted(found, key=lambda known: str(known["path"]))


def _plain(value):
    return (str(value.dtype), value.tolist()) if isinstance(value, np.ndarray) else repr(value)


def test_a_file_holds_what_the_folders_hold(study, packed):
    folders, file = load(study), load(packed)
    assert facts(file) == facts(folders)
    assert (file.requested, file.completed, file.used) == (8, 7, 7)
    assert [item.reason for item in file.excluded] == ["failed: it broke"]
    with pytest.raises(ValueError, match="read-only"):
        file.runs[0].results[0, 0] = 1


def test_the_same_runs_make_the_same_bytes_also_of_a_file(study, packed, tmp_path):
    for number, source in enumerate((study, packed)):
        again = tmp_path / f"again{number}.parquet"
        assert main(["pack", str(source), "--output", str(again)]) == 0
        assert again.read_bytes() == packed.read_bytes()


def test_columns_are_there_for_any_reader(packed):
    rows = [row for row in pyarrow.parquet.read_table(packed).to_pylist() if row["run_json"]]
    scores = {
        row["seed"]: row["final_score"]
        for row in rows
        if row["framework"] == "sb3" and row["study"] == "demo"
    }
    assert [round(scores[seed]) for seed in range(3)] == [100, 101, 102]
    for row in rows:
        if row["final_score"] is not None:
            assert np.mean(row["returns"][-1]) == row["final_score"]
    assert {json.loads(row["run_json"])["status"] for row in rows} == {
        "completed",
        "failed",
    }


@pytest.mark.parametrize("command", ["verdicts", "tables"])
def test_a_file_is_judged_like_the_folders(study, packed, tmp_path, command, capsys):
    outputs = tmp_path / "folders", tmp_path / "file"
    for source, output in zip((study, packed), outputs, strict=True):
        assert main([command, str(source), "--output", str(output)]) == 0
    written = [{path.name: path.read_bytes() for path in output.iterdir()} for output in outputs]
    assert written[0] and written[0] == written[1]


def test_what_is_made_of_a_file_lies_beside_it(packed):
    assert main(["verdicts", str(packed)]) == 0
    assert list(packed.with_name("demo-analysis").glob("*.csv"))


def test_runs_of_others_join_the_study(packed, tmp_path, make_run, capsys):
    for seed in range(3):
        make_run(study="mine", framework="mine", seed=seed, score=90 + seed)
    folder = next(p for p in tmp_path.rglob("mine") if p.is_dir() and p.parent.name != "original")
    both = tmp_path / "both.parquet"
    assert main(["add", str(packed), str(folder), "--output", str(both)]) == 0
    loaded = load(both)
    assert loaded.used == 10 and len(loaded.cells) == 2  # one is the other tool's
    mine = [run for run in loaded.runs if run.id.framework == "mine"]
    assert [run.id.cell.study for run in mine] == ["demo"] * 3
    assert all("added from mine" in str(run.path) for run in mine)
    assert main(["verdicts", str(both)]) == 0
    assert "mine" in (tmp_path / "both-analysis" / "consistency.csv").read_text()
    # A second time they are there already.
    assert main(["add", str(both), str(folder)]) == 2
    assert (
        "3 of its runs are in the study already: mine ppo on Hopper-v5" in capsys.readouterr().err
    )


def damage_bytes(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def damage_version(path):
    table = pyarrow.parquet.read_table(path)
    later = table.replace_schema_metadata({b"parallax.runs": b"2"})
    pyarrow.parquet.write_table(later, path)


def damage_shape(path):
    rows = pyarrow.parquet.read_table(path).to_pylist()
    next(row for row in rows if row["timesteps"])["timesteps"].pop()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=SCHEMA), path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"PAR1"), "error: "),
        (damage_bytes, "error: "),
        (damage_version, "a later version of this project wrote it"),
        (damage_shape, "evaluations do not fit together"),
        (
            lambda path: pyarrow.parquet.write_table(pyarrow.table({"step": [1]}), path),
            "it holds no packed runs; `parallax pack RESULTS` makes such a file",
        ),
    ],
)
def test_a_damaged_file_is_one_message(packed, damage, message, capsys):
    damage(packed)
    assert main(["verdicts", str(packed)]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1 and str(packed) in error


def test_a_file_that_is_no_parquet_is_refused_before_it_is_written(study, tmp_path, capsys):
    assert main(["pack", str(study), "--output", str(tmp_path / "demo.csv")]) == 2
    assert "give a file that ends in .parquet" in capsys.readouterr().err
    assert not (tmp_path / "demo.csv").exists()
