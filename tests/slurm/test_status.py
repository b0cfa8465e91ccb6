"""States and damage of run folders, without Slurm."""

import json
import shutil
import sys
import time

import pytest

from harness.record.lease import Holder
from slurm.listings import Job
from slurm.states import assess
from slurm.status import seconds_left

QUEUED = Job("5_1", "PENDING")


def change(folder, **changes):
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(run | changes))


def hold(folder, machine, age):
    lease = folder / ".lease" / "token"
    lease.mkdir(parents=True)
    holder = Holder("token", host="far", machine=machine, pid=1, born="0", time=time.time() - age)
    (lease / "owner.json").write_text(json.dumps(vars(holder)))
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
        ({"status": "running"}, None, "lost", "silent"),
        ({"status": "running"}, QUEUED, "queued", "job 5_1"),
        ({"status": "running"}, Job("5_1", "TIMEOUT"), "timeout", "TIMEOUT"),
        ({"status": "failed", "failure": "it broke\nhere"}, QUEUED, "failed", "it broke"),
        ({"status": "interrupted", "failure": "stopped"}, None, "interrupted", "stopped"),
        ({"status": "interrupted", "stopped_by": "time limit"}, None, "timeout", ""),
        ({"status": 7}, None, "broken", "unknown status 7"),
        ({"spec": None}, None, "broken", "no readable run.json"),
    ],
)
def test_state_comes_from_the_folder_and_then_from_slurm(folder, changes, job, state, reason):
    change(folder, **changes)
    found = assess(folder, job)
    assert (found.state, found.reason.partition("\n")[0].find(reason) >= 0) == (state, True)


def test_run_on_another_machine_is_running_until_it_is_silent(folder):
    change(folder, status="running", steps={"taken": 0, "scheduled": 40})
    hold(folder, "another", age=5)
    found = assess(folder, None)
    assert (found.state, found.step) == ("running", 30)
    shutil.rmtree(folder / ".lease")
    hold(folder, "another", age=7300)
    assert assess(folder, None).reason == "silent for 2 h 1 min"
    assert assess(folder, None).state == "lost"


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
