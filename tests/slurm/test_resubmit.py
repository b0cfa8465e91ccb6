"""Resubmission: runs, names, time limits, and trust in their code."""

import json
import os
import sys

import pytest
import support
from slurm_fakes import FakeSlurm, a_record, a_run

from parallax.harness.cli.main import main
from parallax.harness.contract.fields import SpecError
from parallax.harness.record.lock import RunLock
from parallax.slurm.launch import launch_sweep
from parallax.slurm.settings import load_settings


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A cluster that takes everything and runs nothing."""
    commands = FakeSlurm(tmp_path / "bin", monkeypatch)
    commands.write("squeue", "")
    commands.write("sacct", "")
    commands.write("scontrol", "")
    commands.write("srun", "")
    commands.write("sbatch", "print('Submitted batch job 77')")
    return commands


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def resubmit(results, *options):
    return main(["slurm", "resubmit", str(results), *map(str, options)])


def trap(tmp_path, monkeypatch):
    """A module and a program that leave a mark when they are run; returns the mark."""
    mark = tmp_path / "mark"
    (tmp_path / "trap_module.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (tmp_path / "trap_program").write_text(f"#!/bin/sh\n: > {mark}\n")
    (tmp_path / "trap_program").chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    return mark


NAMED = {
    "python": ({"python": "{tmp}/trap_program"}, {}, "interpreter: {tmp}/trap_program"),
    "module": ({"env": "trap_module:X-v0"}, {}, "import of the module trap_module"),
    "setup": ({}, {"setup": ["source x", "module y"]}, "set-up line on the nodes: module y"),
    "node": ({}, {"python": "{tmp}/x"}, "interpreter on the nodes: {tmp}/x"),
    "malloc": ({}, {"malloc": "{tmp}/x.so"}, "library that runs load: malloc={tmp}/x.so"),
    "sbatch": ({}, {"sbatch": {"chdir": "/x"}}, "option of sbatch: --chdir=/x"),
}


def filled(content, tmp_path):
    return json.loads(json.dumps(content).replace("{tmp}", str(tmp_path)))


@pytest.mark.parametrize("name", NAMED)
def test_code_that_a_folder_names_is_shown_and_not_run(
    fake, results, tmp_path, monkeypatch, capsys, name
):
    mark = trap(tmp_path, monkeypatch)
    changes, settings, line = filled(NAMED[name], tmp_path)
    folder = a_run(results, **changes)
    a_record(folder.parents[5], "a", [[folder]], settings=settings)
    output = refuse(results, capsys, "--yes")
    assert line in output and "Add --trust" in output
    if changes:
        # A dry run checks the runs as well, which starts what they name.
        assert line in refuse(results, capsys, "--dry-run")
    else:
        assert resubmit(results, "--dry-run") == 0
    assert not mark.exists() and not fake.calls("sbatch")


def refuse(results, capsys, *options):
    assert resubmit(results, *options) == 2
    return capsys.readouterr().err


def test_trusted_settings_are_used_again(fake, results):
    folder = a_run(results)
    record = a_record(folder.parents[5], "a", [[folder]], settings={"setup": ["source x"]})
    assert resubmit(results, "--yes", "--trust") == 0
    scripts = list(record.folder.parent.glob("*/*submission*.sh"))
    assert scripts and all("\nsource x\n" in script.read_text() for script in scripts)


def test_no_consent_is_needed_without_named_code(fake, results, tmp_path):
    runs = [a_run(results, python=sys.executable), a_run(results, seed=1)]
    runs.append(a_run(results, env="parallax.envs.scripted:ParallaxScripted-v0", seed=2))
    a_record(runs[0].parents[5], "a", [runs], settings={"setup": ["source x"]})
    profile = tmp_path / "mine.yaml"
    profile.write_text("setup: [source mine]\n")
    # The settings are the user's own then, not the folder's.
    assert resubmit(results, "--yes", "--profile", profile) == 0
    assert len(fake.calls("sbatch")) == 1


def test_two_commands_do_not_submit_the_same_runs(fake, results, capsys):
    """Each would find the runs not queued, before the other's jobs are."""
    folder = a_run(results)
    study = folder.parents[5]
    a_record(study, "a", [[folder]])
    with RunLock.acquire(study / "slurm"):
        output = refuse(results, capsys, "--yes")
    assert f"another such command (process {os.getpid()}" in output
    assert not fake.calls("sbatch")
    assert resubmit(results, "--dry-run") == 0
    assert resubmit(results, "--yes") == 0
    assert len(fake.calls("sbatch")) == 1 and not list(study.glob("slurm/.lease*"))


def test_user_confirms_at_a_terminal(fake, results, monkeypatch, capsys):
    folder = a_run(results)
    a_record(folder.parents[5], "a", [[folder]], settings={"setup": ["source x"]})
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers = iter(["", "y", "y"])
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    assert resubmit(results) == 2
    output = capsys.readouterr()
    assert (
        "    set-up line on the nodes: source x\n" in output.out and "did not trust" in output.err
    )
    assert not fake.calls("sbatch")
    assert resubmit(results) == 0
    assert len(fake.calls("sbatch")) == 1


def test_control_characters_of_records_are_escaped(fake, results, capsys):
    folder = a_run(results, changed={"python": "/x\x1b[2K\n/y"})
    a_record(folder.parents[5], "a", [[folder]])
    output = refuse(results, capsys, "--yes")
    assert r"interpreter: /x\x1b[2K\n/y" in output and "\x1b" not in output


@pytest.mark.parametrize("options", [(), ("--time", "24:00:00"), ("--time", "01:00:00")])
def test_runs_without_more_time_are_named(fake, results, capsys, options):
    runs = [a_run(results, "interrupted", seed=seed) for seed in (0, 1)]
    runs.append(a_run(results, "interrupted", algorithm="sac"))
    runs.append(a_run(results, seed=2))
    for run in runs[:3]:
        content = json.loads((run / "run.json").read_text()) | {"stopped_by": "time limit"}
        (run / "run.json").write_text(json.dumps(content))
    a_record(runs[0].parents[5], "a", [runs])
    assert resubmit(results, "--yes", *options) == 0
    output = capsys.readouterr().out
    assert len(fake.calls("sbatch")) == 2
    assert "3 runs were stopped at their time limit and get no more time than before" in output
    limit = options[1] if options else "24:00:00"
    assert f"2 with {limit} (ppo)" in output and "add --time HH:MM:SS" in output
    # Nothing is said of runs that get more, or that had not had their time.
    assert resubmit(results, "--yes", "--time", "99:00:00") == 0
    assert "time limit and get no more" not in capsys.readouterr().out


def test_runs_of_a_renamed_study_resume_in_its_folder(fake, results):
    folder = a_run(results, study="a")
    a_record(folder.parents[5], "a-ppo-1", [[folder]])
    (results / "a").rename(results / "b")
    assert resubmit(results / "b", "--yes") == 0
    assert [path.name for path in results.iterdir()] == ["b"]
    (again,) = (results / "b").rglob("run.json")
    assert json.loads(again.read_text())["spec"]["study"] == "b"
    names = [json.loads(path.read_text())["name"] for path in results.glob("b/slurm/*.json")]
    assert sorted(name[:6] for name in names) == ["a-ppo-", "b-ppo-"]


def test_run_in_the_folder_of_another_is_not_submitted(fake, results, capsys):
    folder = a_run(results)
    a_record(folder.parents[5], "a", [[folder]])
    folder.rename(folder.with_name("seed=5"))
    assert resubmit(results, "--yes") == 1
    output = capsys.readouterr().out
    assert "it holds the run of another folder, <results>/test/" in output
    assert [path.name for path in folder.parent.iterdir()] == ["seed=5"]


def test_settings_that_did_not_exist_yet_have_their_defaults(fake, results, capsys):
    folder = a_run(results)
    record = a_record(folder.parents[5], "a", [[folder]])
    path = record.folder.with_suffix(".json")
    content = json.loads(path.read_text())
    del content["settings"]["preemption_restarts"]
    path.write_text(json.dumps(content))
    assert resubmit(results, "--yes") == 0
    content["settings"] = {"time": 7, "surprise": 1}
    path.write_text(json.dumps(content | {"job_id": "78"}))
    assert resubmit(results, "--yes") == 2
    assert "must hold settings as" in capsys.readouterr().err


def test_unwritable_folder_is_named_in_the_error(fake, results, capsys):
    folder = a_run(results)
    profile = ["--profile", "default"]
    (folder.parents[5] / "slurm").write_text("in the way")
    assert resubmit(results, "--yes", *profile) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_folder_that_cannot_be_created_fails_as_without_slurm(fake, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "taken").write_text("a file where the study's folder would be")
    specs = [support.spec(study="taken")]
    with pytest.raises(SpecError, match=r"results_dir: .* cannot be written"):
        launch_sweep(specs, tmp_path / "results", load_settings("default", {}))
    assert not fake.calls("sbatch")


def test_missing_slurm_is_reported_and_leaves_no_record(fake, results, capsys):
    runs = [a_run(results, seed=seed) for seed in (0, 1)]
    a_record(runs[0].parents[5], "a", [runs])
    for name in ("srun", "sbatch"):
        (fake.folder / name).unlink()
    assert resubmit(results, "--yes") == 1
    output = capsys.readouterr().err
    assert "sbatch refused" in output and "0 runs are queued" in output
    assert [path.name for path in results.glob("*/slurm/*.json")] == ["a.json"]
