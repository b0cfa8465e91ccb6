"""Requeueing of warned jobs, and the resume step that status reports."""

import dataclasses
import time

import pytest
from rich.console import Console
from slurm_fakes import a_record, a_run

from parallax.harness.contract.run_spec import spec_from_dict
from parallax.harness.record.checkpoints import CheckpointStore, find_last_checkpoint
from parallax.harness.record.files import write_json
from parallax.harness.record.lock import RunLock
from parallax.harness.record.reading import read_run
from parallax.slurm.queue import SlurmJob, SlurmQueue
from parallax.slurm.requeueable_job import JobLimits, RunJob
from parallax.slurm.resubmit import _print_limits
from parallax.slurm.settings import load_settings
from parallax.slurm.states import assess_run
from parallax.slurm.status import render_status

LIMITS = JobLimits(60, 60, 120, 0, 0)
STOPPED = {"stopped_by": "time limit", "failure": "stopped at the job's time limit"}


def keep(folder, *steps):
    with RunLock.acquire(folder) as run_lock:
        checkpoints = CheckpointStore(run_lock)
        for step in steps:
            checkpoints.save({"step": step}, {})


def change(folder, **changes):
    write_json(folder / "run.json", read_run(folder).content | changes)


@pytest.fixture
def folder(tmp_path):
    return a_run(tmp_path, "interrupted")


@pytest.fixture(params=["time limit", "preemption"])
def warned(request, folder, monkeypatch):
    """A job that has had its time with a run that was stopped; it began from step 300."""
    at = time.monotonic() + (-1 if request.param == "time limit" else 1000)
    monkeypatch.setenv("PARALLAX_JOB", "77")
    monkeypatch.setenv("PARALLAX_LIMIT", str(at))
    change(folder, stopped_by=request.param, resumed_from=300, timings={"started": at - 3600})
    keep(folder, 300)
    job = RunJob(LIMITS)
    job._current, job._run_started, job._last_checkpoint = (
        str(folder),
        at - 3600,
        find_last_checkpoint(folder),
    )
    return job


def comes_back(job, folder):
    back = job.checkpoint([str(folder)])
    return back is not None and back.args == ([str(folder)],)


def test_run_with_progress_is_requeued_despite_the_limits(warned, folder):
    keep(folder, 301)
    assert comes_back(warned, folder)


def test_run_without_progress_is_not_requeued(warned, folder):
    keep(folder, 300)
    assert not comes_back(warned, folder)


def test_run_that_did_not_start_is_not_requeued_for_an_old_checkpoint(warned, folder):
    change(folder, resumed_from=None)  # of the attempt that saved step 300
    assert not comes_back(warned, folder)


def test_run_without_checkpoints_is_requeued_up_to_the_limits(warned, folder):
    with RunLock.acquire(folder) as run_lock:
        CheckpointStore(run_lock).remove()
    assert not comes_back(warned, folder)
    warned._limits = dataclasses.replace(LIMITS, timeout_restarts=1, preemption_restarts=1)
    assert comes_back(warned, folder)


def test_last_checkpoint_is_the_last_complete_one(folder):
    assert find_last_checkpoint(folder) is None
    keep(folder, 5, 9)
    assert (find_last_checkpoint(folder).number, find_last_checkpoint(folder).step) == (2, 9)
    state = folder / "checkpoint" / "2.state"
    state.write_bytes(state.read_bytes()[:-1])
    assert (find_last_checkpoint(folder).number, find_last_checkpoint(folder).step) == (1, 5)
    keep(folder, 5, -3)
    assert find_last_checkpoint(folder).step == 5


def shown(run):
    console = Console(width=200, record=True)
    console.print(render_status([run], SlurmQueue({}, ()), run.folder, 10))
    return console.export_text()


def test_status_names_the_step_a_waiting_run_will_resume_from(folder):
    change(folder, **STOPPED)
    keep(folder, 1234)
    queued = assess_run(folder, SlurmQueue({folder: SlurmJob("5_1", "PENDING")}, ("squeue",)))
    assert (queued.state, queued.resume_step) == ("queued", 1234)
    words = "job 5_1 is PENDING; stopped at the job's time limit; will resume from step 1,234"
    assert queued.reason == words and words in shown(queued)
    left = assess_run(folder)
    assert left.state == "timeout" and left.reason.endswith("; will resume from step 1,234")


def test_warning_counts_only_runs_without_a_checkpoint(folder, capsys):
    change(folder, **STOPPED)
    study = folder.parents[5]
    record = a_record(study, "a", [[folder]])
    spec, settings = record_spec(folder), load_settings("default", {})
    _print_limits({assess_run(folder): spec}, {study: [record]}, {study: settings})
    assert "1 runs were stopped at their time limit" in capsys.readouterr().out
    keep(folder, 7)
    _print_limits({assess_run(folder): spec}, {study: [record]}, {study: settings})
    assert capsys.readouterr().out == ""


def record_spec(folder):
    return spec_from_dict(read_run(folder).spec)
