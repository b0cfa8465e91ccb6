"""Runs that a job cannot start, and the processes that it warns."""

import dataclasses
import os

import pytest
import recorded
from slurm_fakes import a_run

from parallax.harness.record.reading import read_run
from parallax.harness.sweep.run_process import RunOutcome
from parallax.slurm.requeueable_job import JobFailedError, JobLimits, RunJob

LIMITS = JobLimits(60, 60, 2, 0, 0)


@pytest.fixture(autouse=True)
def in_a_job(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    for name in ("PARALLAX_JOB", "PARALLAX_RESTART", "PARALLAX_LIMIT"):
        monkeypatch.setenv(name, "0")
    monkeypatch.delenv("SLURM_ARRAY_JOB_ID", raising=False)


class Process:
    """Completes at once."""

    started: list

    def __init__(self, spec, folder, *options):
        self.started.append(folder)
        self.spec, self.folder = spec, folder

    def wait(self, seconds):
        return True

    def outcome(self):
        return RunOutcome(self.spec, self.folder, "completed")


def test_run_with_an_invalid_record_fails_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(Process, "started", [], raising=False)
    monkeypatch.setattr("parallax.slurm.requeueable_job.RunProcess", Process)
    odd = a_run(tmp_path, changed={"alignment": "odd"})
    other = a_run(tmp_path, seed=1)
    with pytest.raises(JobFailedError, match=r"1 of 2 runs are not complete: .*seed=0: .*odd"):
        RunJob(LIMITS)([str(odd), str(other)])
    assert Process.started == [other]
    assert "alignment" in read_run(odd).reason and read_run(odd).record.status == "failed"


def test_node_without_the_requested_allocator_fails_its_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(Process, "started", [], raising=False)
    monkeypatch.setattr("parallax.slurm.requeueable_job.RunProcess", Process)
    folder = a_run(tmp_path)
    limits = dataclasses.replace(LIMITS, malloc="/nowhere/lib.so")
    with pytest.raises(
        JobFailedError, match=r"malloc=/nowhere/lib.so cannot be loaded.*Install it"
    ):
        RunJob(limits)([str(folder)])
    assert not Process.started and "Install it" in read_run(folder).record.failure


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({}, True),
        *((changes, False) for changes in ({"machine": "elsewhere"}, {"pid": -1}, {"pid": 0})),
    ],
)
def test_only_a_process_of_this_machine_is_warned(tmp_path, monkeypatch, changes, warned):
    monkeypatch.setenv("PARALLAX_JOB", "77")
    folder = a_run(tmp_path)
    recorded.lock_run(folder, **changes)
    sent = []
    monkeypatch.setattr(
        "parallax.slurm.requeueable_job.os.kill", lambda pid, number: sent.append(pid)
    )
    RunJob(LIMITS)._stop_run(folder)
    assert sent == ([os.getpid()] if warned else [])
