"""Runs in one file equal those of the folders, and can be merged with other runs."""

import dataclasses
import json
import math
import os
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.packed import write_packed
from parallax.analysis.data.runs import CompletedRun, RunCollection, RunId, StudyCell
from parallax.harness.cli.main import main
from parallax.harness.record.packed import PACKED_SCHEMA, hash_row

VARIANT = "steps=20000,eval_every=2000,eval_episodes=4"


@pytest.fixture
def study(results, make_run):
    """Two frameworks, a run that failed, and a file of another tool."""
    own = {"variant": VARIANT}
    for seed in range(3):
        make_run(framework="sb3", seed=seed, score=100 + seed, **own)
        make_run(framework="cleanrl", seed=seed, score=80 + seed, **own)
    make_run(framework="torchrl", seed=0, status="failed", failure="it broke", **own)
    file = results.with_name("evaluations.npz")
    (zeros, ones) = np.zeros((2, 4)), np.ones((2, 4), int)
    np.savez(file, timesteps=[1, 2], results=zeros, ep_lengths=ones)
    words = ["--study", "demo", "--results-dir", str(results)]
    assert main(["import", str(file), "--algorithms", "ppo", "--env", "Hopper-v5", *words]) == 0
    return results / "demo"


@pytest.fixture
def packed(study, tmp_path):
    path = tmp_path / "demo.parquet"
    assert main(["study", "pack", str(study), "--output", str(path)]) == 0
    return path


@pytest.fixture
def packed_before(tmp_path):
    """A file of runs of another tool, which were packed without a record before the import."""
    cell = StudyCell("demo", "Hopper-v4", "ppo", "rl_zoo3", "")
    runs = [
        CompletedRun(
            *(RunId(cell, "sb3", seed), tmp_path / name),
            *(np.array([50, end]), np.array([[seed], [seed + 1.0]]), np.ones((2, 1), int)),
            {"n_timesteps": 100, "zoo_seed": 7},
        )
        for seed, name, end in ((1, "a", 100), (2, "b", 99))
    ]
    file = tmp_path / "old.parquet"
    write_packed(RunCollection(tmp_path, tuple(runs), ()), file)
    return file


def test_files_packed_with_runs_of_other_tools_stay_readable(packed_before):
    loaded = load_runs(packed_before)
    assert [(run.id.seed, run.final_score) for run in loaded.runs] == [(1, 2.0), (2, 3.0)]


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


def test_packed_file_contains_the_data_of_its_folders(study, packed):
    folders, file = load_runs(study), load_runs(packed)
    assert facts(file) == facts(folders)
    assert (file.requested, file.completed, file.used) == (8, 7, 7)
    assert [item.reason for item in file.excluded] == ["failed: it broke"]
    with pytest.raises(ValueError, match="read-only"):
        file.runs[0].results[0, 0] = 1


def test_the_same_runs_make_the_same_bytes_also_of_a_file(study, packed, tmp_path):
    for number, source in enumerate((study, packed)):
        again = tmp_path / f"again{number}.parquet"
        assert main(["study", "pack", str(source), "--output", str(again)]) == 0
        assert again.read_bytes() == packed.read_bytes()


def test_runs_of_folders_that_leave_settings_out_can_be_used_when_packed(results, make_run):
    for seed in range(2):
        make_run(seed=seed, variant="steps=20000", score=100 + seed)
        make_run(seed=seed, variant="", score=90 + seed, study="other", n_envs=4)
    file = results / "all.parquet"
    for _ in range(2):  # the second time, over the first file
        assert main(["study", "pack", str(results), "--output", str(file)]) == 0
    packed = load_runs(file)
    assert sorted(run.final_score for run in packed.runs) == sorted(
        run.final_score for run in load_runs(results).runs
    )
    assert len(packed.runs) == 4 and not packed.excluded


def test_columns_are_readable_without_this_project(packed):
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
    assert {json.loads(row["run_json"])["status"] for row in rows} == {"completed", "failed"}


@pytest.mark.parametrize("words", [[], ["--tables"]], ids=["verdicts", "tables"])
def test_packed_file_has_the_verdicts_of_its_folders(study, packed, tmp_path, words, capsys):
    outputs = tmp_path / "folders", tmp_path / "file"
    for source, output in zip((study, packed), outputs, strict=True):
        assert main(["study", "verdicts", str(source), "--output", str(output), *words]) == 0
    written = [{path.name: path.read_bytes() for path in output.rglob("*.*")} for output in outputs]
    assert written[0] and written[0] == written[1]


def test_output_of_a_packed_file_is_written_next_to_it(packed):
    assert main(["study", "verdicts", str(packed)]) == 0
    assert list(packed.with_name("demo-analysis").glob("*.csv"))


def test_runs_of_other_files_are_merged_into_the_study(packed, tmp_path, make_run, capsys):
    for seed in range(3):
        own = {"study": "mine", "framework": "mine", "variant": VARIANT}
        make_run(seed=seed, score=90 + seed, **own)
    folder = next(p for p in tmp_path.rglob("mine") if p.is_dir() and p.parent.name != "original")
    both = tmp_path / "both.parquet"
    assert main(["study", "pack", str(packed), str(folder), "--output", str(both)]) == 0
    loaded = load_runs(both)
    assert loaded.used == 10 and len(loaded.cells) == 2  # one is the other tool's
    mine = [run for run in loaded.runs if run.id.framework == "mine"]
    assert [run.id.cell.study for run in mine] == ["demo"] * 3
    assert all("merged from mine" in str(run.path) for run in mine)
    assert main(["study", "verdicts", str(both)]) == 0
    assert "mine" in (tmp_path / "both-analysis" / "consistency.csv").read_text()
    # A second time they are there already.
    assert main(["study", "merge", str(both), str(folder)]) == 2
    assert (
        "3 of its runs are in the study already: mine ppo on Hopper-v5" in capsys.readouterr().err
    )
    assert main(["study", "pack", str(both), "--study", "demo"]) == 2
    assert "also name the runs to add to it" in capsys.readouterr().err


def test_folders_of_one_name_are_merged_one_after_another(packed, tmp_path, make_run):
    both = tmp_path / "both.parquet"
    for number, framework in enumerate(("mine", "yours", "theirs")):
        folder = make_run(study="other", framework=framework, variant=VARIANT, seed=0).parent
        source = both if number else packed
        words = ["study", "pack", str(source), str(folder), "--study", "demo"]
        assert main([*words, "--output", str(both)]) == 0
    loaded = load_runs(both)
    assert {run.id.framework for run in loaded.runs} >= {"mine", "yours", "theirs"}
    assert loaded.used == len(load_runs(packed).runs) + 3
    assert not any("another row" in item.reason for item in loaded.excluded)


def damage_bytes(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def damage_version(path):
    table = pyarrow.parquet.read_table(path)
    later = table.replace_schema_metadata({b"parallax.runs": b"2"})
    pyarrow.parquet.write_table(later, path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"PAR1"), "Error: "),
        (damage_bytes, "Error: "),
        (damage_version, "a later version of this project wrote it"),
        (
            lambda path: pyarrow.parquet.write_table(pyarrow.table({"step": [1]}), path),
            "it holds no packed runs; make such a file with `parallax study pack RESULTS`",
        ),
    ],
)
def test_a_damaged_file_is_one_message(packed, damage, message, capsys):
    damage(packed)
    assert main(["study", "verdicts", str(packed)]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1 and str(packed) in error


def test_output_without_parquet_suffix_is_refused_before_writing(study, tmp_path, capsys):
    assert main(["study", "pack", str(study), "--output", str(tmp_path / "demo.csv")]) == 2
    assert "give a file that ends in .parquet" in capsys.readouterr().err
    assert not (tmp_path / "demo.csv").exists()


OLD = pyarrow.schema(
    [field for field in PACKED_SCHEMA if field.name != "content_sha256"], PACKED_SCHEMA.metadata
)


def edit(path, change, schema):
    """Edit the first usable row; rows of the current schema get a valid hash."""
    rows = pyarrow.parquet.read_table(path).to_pylist()
    change(next(row for row in rows if row["framework"] == "sb3" and row["run_json"]))
    if schema is PACKED_SCHEMA:
        for row in rows:
            row["content_sha256"] = hash_row(row)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)


def edit_record(row, change):
    record = json.loads(row["run_json"])
    change(record)
    row["run_json"] = json.dumps(record)


def drop_evaluations(row):
    for name in ("timesteps", "returns", "ep_lengths"):
        row[name] = row[name][:2]
    row["final_score"] = float(np.mean(row["returns"][-1]))


def hide_failure(row):
    edit_record(row, lambda run: run.update(status="failed"))
    row["not_used_because"] = "same run as another one, which is used"


def drop_middle_evaluations(row):
    for name in ("timesteps", "returns", "ep_lengths"):
        del row[name][4:6]


def move_evaluation(row):
    row["timesteps"][2] += 1000


def set_variant(row, variant):
    row["variant"] = variant


def set_return(row, value):
    row["returns"][-1][0] = value


def repeat_step(row):
    row["timesteps"][1] = row["timesteps"][0]


def drop_episodes(row):
    for name in ("returns", "ep_lengths"):
        row[name] = [episodes[:1] for episodes in row[name]]
    row["final_score"] = row["returns"][-1][0]


def change_guarded_record(row):
    row["run_json"] = json.dumps({**json.loads(row["run_json"]), "host": "h", "checksum": "0"})


ATTACKS = [
    (drop_evaluations, "too short: last evaluation at step 2,000 of 20,480"),
    (lambda row: edit_record(row, lambda run: run.update(status="failed")), "failed: no reason"),
    (lambda row: edit_record(row, lambda run: run.update(status="running")), "running"),
    (lambda row: set_return(row, math.nan), "non-finite returns: 1 of"),
    (lambda row: set_return(row, math.inf), "non-finite returns: 1 of"),
    (lambda row: set_return(row, 1e308), "non-finite returns: 1 of"),
    (repeat_step, "timesteps do not increase"),
    (drop_episodes, "evaluations have 1 episodes, and eval_episodes=4"),
    (lambda row: row["timesteps"].pop(), "evaluations do not fit together"),
    (lambda row: row["returns"][0].pop(), "evaluations do not fit together"),
    (lambda row: row.update(returns=None), "evaluations do not fit together"),
    (lambda row: row.update(timesteps=[], returns=[], ep_lengths=[]), "do not fit together"),
    (lambda row: row.update(framework="torchrl"), "column framework is torchrl"),
    (lambda row: row.update(algorithm="sac"), "column algorithm is sac, and run_json says ppo"),
    (lambda row: row.update(env="Ant-v5"), "column env is Ant-v5"),
    (lambda row: row.update(hps="zoo"), "column hps is zoo"),
    (lambda row: row.update(seed=7), "column seed is 7"),
    (lambda row: row.update(final_score=1e6), "column final_score is 1000000.0"),
    (lambda row: row.update(seconds=5.0), "column seconds is 5.0"),
    (lambda row: row.update(seconds=math.inf), "column seconds is inf"),
    (lambda row: row.update(completed=None), "column completed is None"),
    (lambda row: row.update(failed=True), "column failed is True"),
    (lambda row: row.update(variant="steps=2"), "column variant is steps=2"),
    (hide_failure, "column completed is True, not failed"),
    (lambda row: row.update(not_used_because=""), "column not_used_because is empty"),
    (lambda row: row.update(not_used_because=" "), "column not_used_because is empty"),
    (
        lambda row: row.update(failed=True, not_used_because="failed: why"),
        "column failed is True, and run_json says completed",
    ),
    (
        lambda row: row.update(failed=True, not_used_because="cut off", run_json="{"),
        "column failed is True, and run_json says nothing",
    ),
    (lambda row: set_variant(row, "steps=20000"), "run_json says steps=20000,eval_every"),
    (
        lambda row: set_variant(row, row["variant"] + ",gamma=0.5"),
        "run_json says steps=20000,eval_every",
    ),
    (
        lambda row: set_variant(row, row["variant"] + ",n_envs=8"),
        "run_json says steps=20000,eval_every",
    ),
    (
        lambda row: set_variant(row, row["variant"] + ",note=8"),
        "run_json says steps=20000,eval_every",
    ),
    (
        lambda row: set_variant(row, "eval_every=2000,eval_episodes=4"),
        "run_json says steps=20000,eval_every",
    ),
    (drop_middle_evaluations, "10 evaluations, and eval_every=2,000 in 20,480 steps means 12"),
    (move_evaluation, "an evaluation is at step 5,000, not 4,000"),
    (lambda row: row.update(run_json="{"), "corrupted run.json"),
    (change_guarded_record, "its checksum does not match"),
]


@pytest.mark.parametrize("schema", [OLD, PACKED_SCHEMA], ids=["without hashes", "hashed again"])
@pytest.mark.parametrize(("attack", "reason"), ATTACKS)
def test_a_row_passes_the_checks_of_a_run_folder(packed, attack, reason, schema):
    usable = load_runs(packed).used
    edit(packed, attack, schema)
    loaded = load_runs(packed)
    assert loaded.used == usable - 1
    assert any(reason in item.reason for item in loaded.excluded), loaded.excluded


@pytest.mark.parametrize(("attack", "reason"), ATTACKS[::9])
def test_a_command_names_the_reason_of_an_excluded_row(packed, attack, reason, capsys):
    edit(packed, attack, PACKED_SCHEMA)
    assert main(["study", "verdicts", str(packed)]) == 0
    assert reason in capsys.readouterr().out


@pytest.mark.parametrize("value", [math.nan, 1e308])
def test_comparison_skips_excluded_rows(packed, value, capsys):
    edit(packed, lambda row: set_return(row, value), PACKED_SCHEMA)
    assert main(["compare", str(packed)]) == 0
    text = capsys.readouterr().out
    assert "nan" not in text.lower() and "e+30" not in text


def test_an_edited_row_is_found_by_its_hash(packed):
    rows = pyarrow.parquet.read_table(packed).to_pylist()
    for row in rows:
        for i, episodes in enumerate(row["returns"] or ()):
            row["returns"][i] = [value + 1 for value in episodes]
        if row["final_score"] is not None:
            row["final_score"] += 1
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=PACKED_SCHEMA), packed)
    loaded = load_runs(packed)
    assert loaded.used == 0
    changed = [item for item in loaded.excluded if "content_sha256 does not match" in item.reason]
    assert len(changed) == loaded.requested - 1  # the last one had failed


def test_row_without_a_hash_is_excluded_if_others_have_one(packed):
    rows = pyarrow.parquet.read_table(packed).to_pylist()
    for row in rows:
        row["content_sha256"] = None
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=PACKED_SCHEMA), packed)
    assert load_runs(packed).used == 0


def test_files_without_hashes_are_read(packed, tmp_path):
    old = tmp_path / "old.parquet"
    rows = pyarrow.parquet.read_table(packed).to_pylist()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=OLD), old)
    assert facts(load_runs(old)) == facts(load_runs(packed))


@pytest.mark.parametrize("name", ["study/cheap", "clipping", "target", "td3_sbx"])
def test_published_files_are_used_completely(name):
    loaded = load_runs(Path(__file__).parents[3] / f"docs/{name}.parquet")
    assert loaded.used == loaded.requested > 0


def test_excluded_runs_stay_excluded_when_packed_again(packed, tmp_path):
    edit(packed, lambda row: set_return(row, math.nan), OLD)
    again = tmp_path / "again.parquet"
    assert main(["study", "pack", str(packed), "--output", str(again)]) == 0
    reasons = [{item.reason for item in load_runs(path).excluded} for path in (packed, again)]
    assert reasons[0] == reasons[1]


ODD_COLUMNS = [
    ("folder", None),
    ("folder", ""),
    ("folder", "/etc"),
    ("folder", "../../x"),
    ("folder", "a/../../x"),
    ("folder", "a\0b"),
    ("folder", "x" * 5000),
    ("study", None),
    ("env", None),
    ("variant", None),
    ("framework", "x" * 300),
    ("seed", -1),
    ("seed", None),
    ("run_json", "9" * 5000),
    ("run_json", "[" * 100_000),
    ("returns", [[3e38] * 4] * 12),
    ("returns", [[None] * 4] * 12),
    ("ep_lengths", [[-1] * 4] * 12),
    ("timesteps", [-1, *range(11)]),
    ("final_score", math.nan),
]


@pytest.mark.parametrize("schema", [OLD, PACKED_SCHEMA], ids=["without hashes", "hashed again"])
@pytest.mark.parametrize(("column", "value"), ODD_COLUMNS)
def test_invalid_columns_are_a_reason_and_no_traceback(packed, column, value, schema, tmp_path):
    usable = load_runs(packed).used
    edit(packed, lambda row: row.update({column: value}), schema)
    loaded = load_runs(packed)
    assert loaded.used == usable - 1
    assert all(item.path.is_relative_to(packed) for item in loaded.excluded)
    words = ["study", "verdicts", str(packed), "--tables", "--output", str(tmp_path / "out")]
    assert main(words) == 0
    assert main(["study", "pack", str(packed), "--output", str(tmp_path / "again.parquet")]) == 0
    assert load_runs(tmp_path / "again.parquet").used == usable - 1


@pytest.mark.parametrize(
    "change", [{"completed": False}, {"failed": True}, {"final_score": 9.0}, {"final_score": None}]
)
def test_columns_of_a_run_of_another_tool_agree_with_its_evaluations(packed_before, change):
    rows = pyarrow.parquet.read_table(packed_before).to_pylist()
    rows[0].update(change)
    rows[0]["content_sha256"] = hash_row(rows[0])
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(rows, schema=PACKED_SCHEMA), packed_before
    )
    (item,) = load_runs(packed_before).excluded
    assert "corrupted row: columns completed, failed and final_score are" in item.reason


ODD_SPECS = (None, "", "null", "[]", '{"n_timesteps": "a"}', '{"n_timesteps": -1}', "[" * 9999)


@pytest.mark.parametrize("spec", [*ODD_SPECS, '{"hyperparameters": [1]}', '{"x": 1}'])
def test_invalid_spec_of_another_tool_is_a_reason(packed_before, spec):
    rows = pyarrow.parquet.read_table(packed_before).to_pylist()
    rows[0]["spec"] = spec
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=OLD), packed_before)
    (item,) = load_runs(packed_before).excluded
    assert "column spec" in item.reason


@pytest.mark.parametrize("name", ["README.md", "tables", "figures", "readme"])
def test_what_is_no_file_or_folder_is_named_before_anything_is_written(
    packed, tmp_path, capsys, name
):
    folder = tmp_path / "page"
    folder.mkdir()
    os.mkfifo(folder / name)
    options = ["--readme", str(folder / name)] if name == "readme" else []
    assert main(["study", "publish", str(packed), str(folder), *options]) == 2
    assert f"{folder / name} is no " in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == [name]


def test_runs_are_not_packed_into_what_is_no_regular_file(study, tmp_path, capsys):
    pipe = tmp_path / "pipe.parquet"
    os.mkfifo(pipe)
    assert main(["study", "pack", str(study), "--output", str(pipe)]) == 2
    assert f"{pipe} is no regular file. Name another file" in capsys.readouterr().err
    assert pipe.is_fifo()


def test_a_complete_run_is_not_replaced_by_its_damaged_folder(tmp_path, make_run, capsys):
    variant = "steps=20000,eval_every=2000,eval_episodes=4"
    folder = make_run(study="other", seed=7, variant=variant)
    file, study = tmp_path / "other.parquet", folder.parents[5]
    command = ["study", "pack", str(study), "--output", str(file)]
    assert main(command) == main(command) == 0
    before = file.read_bytes()
    (folder / "evaluations.npz").write_bytes(b"PK")
    assert main(command) == 2
    assert "1 runs that would be lost" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_file_with_other_runs_is_not_replaced(study, packed, tmp_path, make_run, capsys):
    other = tmp_path / "other.parquet"
    make_run(framework="skrl", study="other", seed=7)
    assert main(["study", "pack", str(study.with_name("other")), "--output", str(other)]) == 0
    before = other.read_bytes()
    assert main(["study", "pack", str(study), "--output", str(other)]) == 2
    assert f"{other} has 1 runs that would be lost" in capsys.readouterr().err
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / packed.name).write_bytes(before)
    assert main(["study", "publish", str(packed), str(folder)]) == 2
    assert "1 runs that would be lost" in capsys.readouterr().err
    assert other.read_bytes() == (folder / packed.name).read_bytes() == before
    other.write_bytes(b"something else")
    assert main(["study", "pack", str(study), "--output", str(other)]) == 2
    assert "Name another file" in capsys.readouterr().err and other.read_bytes()[:4] == b"some"


def test_figures_that_are_too_large_to_publish_are_named(packed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("parallax.analysis.figures.figure_spec.MAX_SETTINGS", 0)
    assert main(["study", "publish", str(packed), str(tmp_path / "page")]) == 0
    assert "Not drawn: overview: of 1 settings, 0 are drawn" in capsys.readouterr().out
