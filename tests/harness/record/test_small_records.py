"""Diagnoses, imported runs, packages and batch jobs as they are stored and read."""

import json
import sys
import types

import numpy as np
import pytest

from parallax.harness.record import diagnosis, provenance
from parallax.harness.record.diagnosis import NOT_REQUESTED, read_diagnosis
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "it is nested too deep"),
        ("{}", "cannot be read"),
        ('{"findings": [{"id": "a"}]}', "a finding lacks what findings have"),
    ],
)
def test_a_diagnosis_that_cannot_be_read_has_a_reason(tmp_path, text, words):
    (tmp_path / "diagnosis.json").write_text(text)
    found = read_diagnosis(tmp_path)
    assert (found.folder, found.findings) == (tmp_path, ())
    assert found.reason.startswith("diagnosis.json cannot be read (") and words in found.reason


def test_a_diagnosis_that_is_missing_was_not_requested_and_others_cannot_be_read(tmp_path):
    (tmp_path / "packed.parquet").touch()
    assert read_diagnosis(tmp_path / "none").reason == NOT_REQUESTED
    assert read_diagnosis(tmp_path / "packed.parquet" / "run").reason == NOT_REQUESTED
    found = read_diagnosis(tmp_path / ("a" * 300))
    assert found.folder.parent == tmp_path
    assert found.reason == "diagnosis.json cannot be read (File name too long)"


def test_a_finding_has_texts_whole_numbers_and_a_known_level(tmp_path):
    good = dict.fromkeys(diagnosis._TEXT_FIELDS, "x")
    good |= {"level": "error", "first_step": 1, "last_step": 2, "count": 3}
    for changes in ({}, {"level": "fatal"}, {"count": "3"}, {"first_step": 0.5}, {"id": 7}):
        text = json.dumps({"findings": [good | changes], "signals": {"a": {"curve": [[1, 2]]}}})
        (tmp_path / "diagnosis.json").write_text(text)
        found = read_diagnosis(tmp_path)
        assert (len(found.findings), found.reason == "") == ((0, False) if changes else (1, True))
        assert found.curves == ({} if changes else {"a": ((1, 2.0),)})


def test_the_machine_is_described_as_far_as_the_system_reports(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance.platform, "processor", lambda: "generic")
    files = {"/proc/cpuinfo": "flags : a\nmodel name\t: Fast One\nmodel name\t: Fast Two\n"}

    def read(path):
        if str(path) not in files:
            raise PermissionError
        return files[str(path)]

    monkeypatch.setattr(provenance.Path, "read_text", read)
    assert provenance.read_processor_model() == "Fast One"
    files["/proc/cpuinfo"] = "flags : a\n"
    assert provenance.read_processor_model() == "generic"
    files.clear()
    assert provenance.read_processor_model() == "generic"
    library = tmp_path / "libfast.so.4.5"
    monkeypatch.setenv("LD_PRELOAD", f"{library}:/gone/libother.so")
    assert provenance.list_preloaded_libraries() == []
    files["/proc/self/maps"] = "".join(
        f"7f-80 r-xp 00 00:00 1     {path}\n" for path in (f"{library}.10", "/lib/libc.so", library)
    )
    assert provenance.list_preloaded_libraries() == [str(library), f"{library}.10"]
    monkeypatch.delenv("LD_PRELOAD")
    assert provenance.list_preloaded_libraries() == []


def test_the_commit_is_that_of_the_checkout_and_unknown_outside(monkeypatch):
    answers = {"rev-parse": "abc", "status": " M a.py"}
    monkeypatch.setattr(provenance, "_run_git", lambda folder, name, *rest: answers[name])
    assert provenance.read_project_commit() == {"commit": "abc", "dirty": True}
    answers["status"] = ""
    assert provenance.read_project_commit() == {"commit": "abc", "dirty": False}

    def fail(*_):
        raise FileNotFoundError("git")

    monkeypatch.setattr(provenance, "_run_git", fail)
    assert provenance.read_project_commit() == {"commit": None, "dirty": None}
