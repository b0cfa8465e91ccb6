"""The command that writes the reference runs of the package."""

import runpy
import sys

import pytest

from parallax.analysis.data import reference_runs


def test_it_is_a_command_that_needs_a_file(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["reference_runs"])
    with pytest.raises(IndexError):
        runpy.run_path(reference_runs.__file__, run_name="__main__")


def test_it_says_that_it_is_done(monkeypatch, tmp_path):
    written = tmp_path / "written.parquet"
    monkeypatch.setattr(reference_runs, "REFERENCE_FILE", written)
    rows = list(reference_runs.read_rows(reference_runs.FOLDER / "reference_runs.parquet"))
    reference_runs.write_rows(rows[:2], tmp_path / "study.parquet")
    assert reference_runs.main([str(tmp_path / "study.parquet")]) == 0
    assert len(list(reference_runs.read_rows(written))) == 2
