import dataclasses
import json
import shutil
import sys
import time
import venv
from pathlib import Path

import forked
import numpy as np
import pyarrow.parquet
import pytest
import support

from parallax.harness.cli import run as run_commands
from parallax.harness.cli.main import main
from parallax.harness.cli.run import compare_evaluations, compare_provenance, draw_runs
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import check_interpreter
from parallax.harness.contract.run_spec import spec_to_dict
from parallax.harness.record.files import write_json
from parallax.harness.record.packed import PACKED_SCHEMA, write_rows
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.run_process import RunOutcome
from parallax.harness.sweep.sweep import run_sweep

PPO = {"rollout_steps": 128, "minibatch_size": 64, "epochs": 1}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    spec = support.spec(hyperparameters=PPO, steps=256, eval_every=128)
    (outcome,) = run_sweep([spec], tmp_path_factory.mktemp("results"), n_jobs=1)
    assert outcome.status == "completed"
    return outcome.folder


@pytest.fixture
def finished(done, tmp_path):
    """A run of one's own, to be changed."""
    return shutil.copytree(done, tmp_path / "finished")


def rerun(folder, *arguments):
    return forked.run("parallax", "run", "reproduce", folder, *arguments)


@pytest.mark.long
def test_packed_run_is_reproduced_identically(done, tmp_path):
    file = tmp_path / "study.parquet"
    assert main(["study", "pack", str(done), "--output", str(file)]) == 0
    result = rerun(file, "--runs", "1", "--seed", "3")
    assert result.returncode == 0, result.stderr
    assert "Evaluations: identical" in result.stdout and "Weights:     identical" in result.stdout
    assert "Software and machine: the same" in result.stdout
    assert "1 of 1 runs are identical." in result.stdout


def test_differences_of_a_reproduced_run_are_named(done, finished, tmp_path, monkeypatch, capsys):
    run = dict(read_run(finished).content)
    run["provenance"]["packages"]["torch"] = "1.0"
    run["provenance"]["platform"] = "\x1b[2Jx\r\nEvaluations: identical"
    for guard in ("checksum", "files"):
        del run[guard]
    (finished / "run.json").write_text(json.dumps(run | {"weights_sha256": "0"}))
    with np.load(finished / "evaluations.npz") as file:
        content = dict(file)
    content["results"][1] += 1
    np.savez(finished / "evaluations.npz", **content)

    def train_again(specs, results_dir, n_jobs):  # as the test above shows: identically
        folder = shutil.copytree(done, specs[0].folder(results_dir))
        return [RunOutcome(specs[0], folder, "completed")]

    monkeypatch.setattr(run_commands, "run_sweep", train_again)
    assert main(["run", "reproduce", str(finished), "--output", str(tmp_path / "again")]) == 1
    printed = capsys.readouterr().out
    assert "1 of 2 differ, from step 256 on; mean returns by up to 1" in printed
    assert "packages torch: 1.0 then, " in printed
    assert "\x1b" not in printed and "\nEvaluations: identical" not in printed
    assert list((tmp_path / "again").rglob("evaluations.npz"))


def test_folder_without_a_complete_run_is_refused(tmp_path):
    result = rerun(tmp_path)
    assert result.returncode == 2
    assert "holds no complete run" in result.stderr and "Traceback" not in result.stderr


@pytest.fixture
def recorded(tmp_path):
    """A folder with all that is read of a complete run, made without training."""
    spec = support.spec()
    folder = spec.folder(tmp_path)
    folder.mkdir(parents=True)
    content = {
        "schema": 1,
        "status": "completed",
        "spec": spec_to_dict(spec),
        "steps": {"scheduled": 600},
        "weights_sha256": "0",
        "provenance": {"packages": {}},
    }
    write_json(folder / "run.json", content)
    np.savez(
        folder / "evaluations.npz",
        timesteps=[300, 600],
        results=[[1.0, 1.0]] * 2,
        ep_lengths=[[1, 1]] * 2,
    )
    assert read_run(folder).complete
    return folder, content


def test_run_is_not_compared_with_itself_or_an_existing_run(recorded, tmp_path, capsys):
    folder, _ = recorded
    moved = shutil.copytree(folder, tmp_path / "moved")
    for name in (folder, moved):
        assert main(["run", "reproduce", str(name), "--output", str(tmp_path)]) == 2
        printed = capsys.readouterr()
        assert f"--output {tmp_path}: {folder} already holds a complete run" in printed.err
        assert "Name another folder" in printed.err and printed.out == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: [], "corrupted run.json"),
        (lambda run: run | {"steps": []}, "steps: expected `object`, got `array`"),
        (lambda run: run | {"spec": []}, "spec: expected `object`, got `array`"),
        (lambda run: run | {"spec": without(run["spec"], "seed")}, "missing required field `seed`"),
        (lambda run: run | {"spec": without(run["spec"], "hyperparameters")}, "parameters lacks"),
        (lambda run: run | {"weights_sha256": None}, "weights_sha256 is missing"),
        (lambda run: without(run, "provenance"), "provenance is missing"),
        (lambda run: run | {"provenance": {"threads": 1}}, "provenance.threads: expected"),
    ],
)
def test_damaged_record_is_refused_in_one_message(recorded, change, message, capsys):
    folder, content = recorded
    write_json(folder / "run.json", change(content))
    assert main(["run", "reproduce", str(folder)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and str(folder) in printed.err and printed.out == ""


def test_logger_of_a_record_is_not_started(recorded, tmp_path, monkeypatch):
    folder, content = recorded
    write_json(folder / "run.json", content | {"spec": content["spec"] | {"logger": "wandb"}})
    started = []
    monkeypatch.setattr(
        run_commands, "run_sweep", lambda specs, *_, **__: started.extend(specs) or []
    )
    with pytest.raises(ValueError, match="zip"):  # no outcome
        run_commands.reproduce_runs(folder, [read_run(folder)], tmp_path / "new")
    assert [spec.logger for spec in started] == ["none"]


def without(mapping, name):
    return {key: value for key, value in mapping.items() if key != name}


def test_provenance_names_what_appeared_and_vanished():
    before = {"python": "3.11", "packages": {"a": "1", "b": "1"}}
    after = {"python": "3.11", "packages": {"b": "2", "c": "1"}}
    assert compare_provenance(before, after) == {
        "packages a": ("1", "absent"),
        "packages b": ("1", "2"),
        "packages c": ("absent", "1"),
    }


@pytest.fixture
def packed(recorded, tmp_path):
    """A file of eight complete runs and one that is not used, made without training."""
    _, content = recorded
    row = dict.fromkeys(PACKED_SCHEMA.names) | {
        "completed": True,
        "failed": False,
        "final_score": 1.0,
    }
    row |= {"timesteps": [300, 600], "returns": [[1, 1]] * 2, "ep_lengths": [[1, 1]] * 2}
    row["variant"] = support.spec().variant
    names = ("study", "env", "algorithm", "hps", "framework")
    row |= {name: content["spec"][name] for name in names}
    rows = []
    for seed in range(9):
        spec = content["spec"] | {"seed": seed}
        record = json.dumps(content | {"spec": spec})
        rows.append(row | {"seed": seed, "folder": f"seed={seed}", "run_json": record})
    rows[4]["not_used_because"] = "failed"
    write_rows(rows, tmp_path / "study.parquet")
    return tmp_path / "study.parquet"


def test_runs_are_drawn_by_seed_from_those_that_are_used(packed):
    def names(count, seed):
        return [run.folder.name for run in draw_runs(packed, count, seed)]

    assert names(3, 0) == names(3, 0)
    assert len({tuple(names(3, seed)) for seed in range(10)}) > 3
    assert names(8, 0) == [f"seed={seed}" for seed in range(9) if seed != 4]
    assert all(run.evaluations.results.tolist() == [[1, 1]] * 2 for run in draw_runs(packed, 8, 1))


def test_rows_that_fail_a_check_are_not_drawn(packed, capsys):
    rows = pyarrow.parquet.read_table(packed).to_pylist()
    rows[0]["returns"] = [[float("nan"), 1.0]]
    rows[1]["env"] = "Ant-v5"
    write_rows(rows, packed)
    assert len(draw_runs(packed, 6, 0)) == 6
    assert main(["run", "reproduce", str(packed), "--runs", "7"]) == 2
    assert "holds 6 complete runs" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["0", "9"])
def test_more_runs_than_exist_are_refused(packed, count, capsys):
    assert main(["run", "reproduce", str(packed), "--runs", count]) == 2
    assert f"--runs={count}: {packed} holds 8 complete runs" in capsys.readouterr().err


def test_number_of_runs_is_refused_with_a_run_folder(recorded, capsys):
    assert main(["run", "reproduce", str(recorded[0]), "--runs", "5"]) == 2
    assert "--runs=5 draws from a file of packed runs" in capsys.readouterr().err
    assert main(["run", "reproduce", str(recorded[0]), "--seed", "5"]) == 2
    assert "--seed=5 draws from a file of packed runs" in capsys.readouterr().err


def test_a_damaged_file_is_refused_in_one_message(packed, capsys):
    packed.write_bytes(packed.read_bytes()[:-9])
    assert main(["run", "reproduce", str(packed)]) == 2
    printed = capsys.readouterr()
    assert str(packed) in printed.err and "Traceback" not in printed.err and printed.out == ""


def test_lengths_of_episodes_are_compared_too(packed):
    before, after = draw_runs(packed, 2, 0)
    assert compare_evaluations(before, after) == ""
    longer = dataclasses.replace(after.evaluations, ep_lengths=after.evaluations.ep_lengths + 1)
    after = dataclasses.replace(after, evaluations=longer)
    difference = compare_evaluations(before, after)
    assert difference == "2 of 2 differ, from step 300 on; in lengths of episodes only"


@pytest.fixture(scope="module")
def second_environment(tmp_path_factory):
    """A virtual environment of its own that sees this one's packages but not the project."""
    folder = tmp_path_factory.mktemp("second")
    venv.create(folder, with_pip=False)
    (site,) = (folder / "lib").glob("python*/site-packages")
    mine = Path(next(path for path in sys.path if path.endswith("site-packages")))
    for entry in mine.iterdir():
        if not entry.name.startswith(("parallax_drl", "_parallax_drl", "__pycache__")):
            (site / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


@pytest.mark.long
def test_another_interpreter_trains_and_everything_else_stays(second_environment, tmp_path):
    spec = support.spec(
        hyperparameters=PPO, steps=256, eval_every=128, python=str(second_environment)
    )
    (outcome,) = run_sweep([spec], tmp_path, n_jobs=1)
    assert outcome.status == "completed", outcome.failure
    run = read_run(outcome.folder).content
    assert run["provenance"]["executable"] == str(second_environment)
    assert [o.status for o in run_sweep([spec], tmp_path, n_jobs=1)] == ["skipped"]
    here = support.spec(hyperparameters=PPO, steps=256, eval_every=128)
    assert here.folder(tmp_path) == spec.folder(tmp_path)
    assert [o.status for o in run_sweep([here], tmp_path, n_jobs=1)] == ["skipped"]


def test_interpreter_that_lacks_the_framework_is_refused(tmp_path):
    venv.create(tmp_path / "empty", with_pip=False)
    python = str(tmp_path / "empty" / "bin" / "python")
    with pytest.raises(SpecError, match=r"cannot train with sb3: ModuleNotFoundError: No module"):
        check_interpreter(python, "sb3")
    with pytest.raises(SpecError, match="cannot be started"):
        check_interpreter(str(tmp_path / "none"), "sb3")


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ("exit 0", "does not answer as a Python does: 'exit code 0, without output'"),
        ("echo able 3 11; echo $*", "does not answer as a Python does"),
        ("yes", "prints without end"),
        ("sleep 1000 & sleep 1000", "did not answer within 2 s"),
        ("while true; do echo; sleep 0.1; done", "did not answer within 2 s"),
        ("shift; echo $(($2 * $3)) 3 9", "is Python 3.9"),
        (
            "case $2 in import*) shift; echo $(($2 * $3)) 3 11;; esac",
            "cannot train with sb3: it ended without output",
        ),
    ],
)
def test_non_python_program_is_refused(body, refusal, tmp_path, monkeypatch):
    monkeypatch.setattr("parallax.harness.contract.interpreter._PYTHON_CHECK_SECONDS", 2.0)
    # What a shell can multiply.
    monkeypatch.setattr("parallax.harness.contract.interpreter._LARGEST_FACTOR", 2**31)
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    began = time.monotonic()
    for _ in range(50):  # every run of a sweep checks
        with pytest.raises(SpecError) as caught:
            check_interpreter(str(program), "sb3")
    assert time.monotonic() - began < 15
    assert f"framework.python={program} " in str(caught.value)
    assert refusal in str(caught.value)
    assert "cannot train" in refusal or "Name the path of a Python" in str(caught.value)


def test_program_true_is_not_accepted_as_python():
    with pytest.raises(SpecError, match=r"framework.python=/bin/true does not answer as a Python"):
        check_interpreter("/bin/true", "sb3")
