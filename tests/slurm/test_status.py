"""States and damage of run folders, without Slurm."""

import json
import shutil
import sys
import time

import msgspec
import pytest
import recorded

from harness.record.lease import Holder
from slurm.listings import Job
from slurm.states import assess
from slurm.status import seconds_left

QUEUED = Job("5_1", "PENDING")


def change(folder, **changes):
    recorded.edit(folder, **changes)


def hold(folder, machine, age, job=""):
    lease = folder / ".lease" / "token"
    lease.mkdir(parents=True)
    holder = Holder("token", host="far", machine=machine, pid=1, born="0", job=job)
    (lease / "owner.json").write_bytes(msgspec.json.encode(holder))
    beat = {"step": 30, "time": time.time() - age, "period": 30.0}
    (folder / "progress.json").write_text(json.dumps(beat))


@pytest.mark.parametrize(
    ("changes", "job", "state", "reason"),
    [
        ({}, None, "completed", ""),
        ({}, QUEUED, "completed", ""),
        ({"status": "pending"}, None, "pending", ""),
        ({"status": "pending"}, QUEUED, "queued", "job 5_1 is PENDING"),
        ({"status": "pending"}, Job("5_1", "OUT_OF_MEMORY"), "pending", "OUT_OF_MEMORY"),
        ({"status": "running"}, None, "lost", "no process holds it"),
        ({"status": "running"}, QUEUED, "queued", "job 5_1"),
        ({"status": "running"}, Job("5_1", "TIMEOUT"), "timeout", "TIMEOUT"),
        ({"status": "failed", "failure": "it broke\nhere"}, QUEUED, "failed", "it broke"),
        ({"status": "interrupted", "failure": "stopped"}, None, "interrupted", "stopped"),
        ({"status": "interrupted", "stopped_by": "time limit"}, None, "timeout", ""),
        ({"status": 7}, None, "broken", "status: expected `str`, got `int`"),
        ({"spec": None}, None, "broken", "spec: expected `object`, got `null`"),
    ],
)
def test_state_comes_from_the_folder_and_then_from_slurm(folder, changes, job, state, reason):
    change(folder, **changes)
    found = assess(folder, job)
    assert (found.state, found.reason.partition("\n")[0].find(reason) >= 0) == (state, True)


def test_run_on_another_machine_is_judged_by_slurm_and_by_no_clock(folder):
    change(folder, status="running", steps={"taken": 0, "scheduled": 40})
    hold(folder, "another", age=7300)
    found = assess(folder, None)
    assert (found.state, found.step) == ("running", 30)
    assert "process 1 on far, which cannot be looked at from here" in found.reason
    shutil.rmtree(folder / ".lease")
    hold(folder, "another", age=-1e9, job="5_1")
    assert assess(folder, Job("5_1", "RUNNING"), asked=True).state == "running"
    assert assess(folder, Job("5_1", "NODE_FAIL"), asked=True).state == "lost"
    assert assess(folder, None, asked=True).state == "lost"  # Slurm has forgotten it
    assert "about which Slurm was not asked" in assess(folder, None).reason


def test_run_that_is_held_here_has_no_job_of_an_earlier_submission(folder):
    change(folder, status="running", job="5_1")
    with recorded.hold(folder):
        assert assess(folder, Job("5_1", "COMPLETED")).job is None
        assert assess(folder, Job("5_1", "COMPLETED")).state == "running"


def test_commands_work_where_there_is_no_slurm(complete):
    results = str(complete.results)
    text = complete.python("slurm", "status", results, "--watch")
    assert "lab: 1 runs: 1 completed" in text and "Slurm was not asked" in text
    assert complete.status()["asked"] == []
    assert "Nothing to submit." in complete.python("slurm", "resubmit", results)
    assert "No job is queued or running." in complete.python("slurm", "cancel", results)
    assert "1 runs were read: no files are damaged." in complete.python(
        "slurm", "validate", results
    )


def test_study_that_was_never_submitted_needs_a_profile(complete, folder):
    study = folder.parents[0] / "copy" / "lab"
    shutil.copytree(complete.results / "lab", study)
    for run in study.rglob("seed=0"):
        change(run, status="pending")
    result = complete.ask(sys.executable, "-m", "slurm", "resubmit", str(study), "--yes")
    assert result.returncode == 2 and "name a profile with --profile" in result.stderr
    missing = complete.ask(sys.executable, "-m", "slurm", "status", str(study / "nowhere"))
    assert missing.returncode == 2 and "is not a folder" in missing.stderr


def test_expected_end_is_that_of_the_slowest_and_of_the_whole(folder):
    change(folder, status="running", steps={"taken": 0, "scheduled": 40})
    change(folder, timings={"started": time.time() - 105})
    hold(folder, "another", age=5)
    run = assess(folder, None)
    assert run.rate == pytest.approx(30 / 100, rel=0.01)
    assert seconds_left([run]) == pytest.approx((run.steps - 30) / run.rate)
    assert seconds_left([]) is None
