"""Diagnoses, imported runs, packages and batch jobs as they are stored and read."""

import json
import sys
import types

import numpy as np
import pytest

from parallax.harness.record import provenance
from parallax.harness.record.diagnosis import read_diagnosis
from parallax.harness.record.files import UnusableError
from parallax.harness.record.imported import write_imported_run
from parallax.harness.record.lock_owner import BatchJob
from parallax.harness.record.npz_files import RunEvaluations
from parallax.harness.record.run_json import ImportSource


def test_a_diagnosis_may_have_four_mebibytes_and_no_more(tmp_path):
    content = json.dumps({"findings": [], "signals": {}}).encode()
    (tmp_path / "diagnosis.json").write_bytes(content.ljust(2**22))
    assert read_diagnosis(tmp_path).reason == ""
    (tmp_path / "diagnosis.json").write_bytes(content.ljust(2**22 + 1))
    assert "diagnosis.json cannot be read" in read_diagnosis(tmp_path).reason


def test_versions_are_those_of_the_distributions_whose_modules_are_imported(monkeypatch):
    found = provenance.list_imported_packages()
    assert found["numpy"] == np.__version__ and found["pytest"] == pytest.__version__
    monkeypatch.setattr(provenance.sys, "modules", {"numpy.linalg": np.linalg})
    assert provenance.list_imported_packages() == {"numpy": np.__version__}
    monkeypatch.setattr(provenance.sys, "modules", {"types": types, "sys": sys})
    assert provenance.list_imported_packages() == {}


def test_a_job_outside_of_slurms_limits_has_a_minute_after_a_warning(monkeypatch):
    assert BatchJob("7").notice == 60.0 and BatchJob("7").restart == 0
    monkeypatch.setenv("PARALLAX_JOB", "7")
    for name in ("PARALLAX_RESTART", "PARALLAX_LIMIT", "PARALLAX_NOTICE"):
        monkeypatch.delenv(name, raising=False)
    assert BatchJob.from_environment() == BatchJob("7")


def make_evaluations():
    returns = np.array([[1.0, 2.0], [3.0, 4.0]])
    return RunEvaluations(np.array([100, 200]), returns, np.full((2, 2), 9))


SPEC = {"study": "s", "env": "Hopper-v4", "algorithm": "ppo", "hps": "own", "steps": 200}


def test_an_imported_run_is_whole_in_its_folder_and_alone(tmp_path):
    folder = tmp_path.joinpath("s", "Hopper-v4", "ppo", "own", "sb3", "default", "seed=0")
    arguments = make_evaluations(), SPEC, {"lr": 0.1}, ImportSource("log.csv")
    write_imported_run(folder, *arguments)
    assert sorted(file.name for file in folder.iterdir()) == ["evaluations.npz", "run.json"]
    assert not list(tmp_path.glob(".import-*"))
    assert json.loads((folder / "run.json").read_text())["final_score"] == 3.5
    with pytest.raises(UnusableError, match="is there already"):
        write_imported_run(folder, *arguments)


def test_an_imported_run_that_cannot_be_written_leaves_nothing(tmp_path):
    results = tmp_path / "results"
    above = results.joinpath("s", "Hopper-v4", "ppo", "own", "sb3")
    above.mkdir(parents=True)
    (above / "default").write_text("a file where a folder should be")
    arguments = make_evaluations(), SPEC, {}, ImportSource("log.csv")
    with pytest.raises(OSError):
        write_imported_run(above / "default" / "seed=0", *arguments)
    assert [entry.name for entry in results.iterdir()] == ["s"]
