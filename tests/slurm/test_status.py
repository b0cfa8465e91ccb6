"""States and damage of run folders, without Slurm."""

import json
import shutil
import time
from pathlib import Path

import msgspec
import pytest
import recorded
from rich.console import Console
from slurm_fakes import FakeSlurm, a_record

from parallax.harness.record.lock_owner import LockOwner
from parallax.harness.record.reading import read_run
from parallax.slurm import states
from parallax.slurm.queue import SlurmJob, SlurmQueue, query_slurm
from parallax.slurm.states import assess_run
from parallax.slurm.status import estimate_seconds_left, render_status, status_to_json

QUEUED = SlurmJob("5_1", "PENDING")


def change(folder, **changes):
    recorded.edit(folder, **changes)


def said(folder, *jobs):
    """Return Slurm's answer about one run."""
    alive = tuple(job for job in jobs if job.is_alive)
    over = frozenset(job.job_id for job in jobs if not job.is_alive)
    preferred = {folder: (alive or jobs)[-1]} if jobs else {}
    return SlurmQueue(preferred, ("squeue",), {folder: alive}, {folder: over})


def lock_run(folder, machine, age, job=""):
    lock_folder = folder / ".lease" / "token"
    lock_folder.mkdir(parents=True)
    owner = LockOwner("token", host="far", machine=machine, pid=1, born="0", job=job)
    (lock_folder / "owner.json").write_bytes(msgspec.json.encode(owner))
    beat = {"step": 30, "time": time.time() - age, "period": 30.0}
    (folder / "progress.json").write_text(json.dumps(beat))


@pytest.mark.parametrize(
    ("changes", "job", "state", "reason"),
    [
        ({}, None, "completed", ""),
        ({}, QUEUED, "completed", ""),
        ({"status": "pending"}, None, "pending", ""),
        ({"status": "pending"}, QUEUED, "queued", "job 5_1 is PENDING"),
        ({"status": "pending"}, SlurmJob("5_1", "OUT_OF_MEMORY"), "pending", "OUT_OF_MEMORY"),
        ({"status": "running"}, None, "lost", "no process holds it"),
        ({"status": "running"}, QUEUED, "queued", "job 5_1"),
        ({"status": "running"}, SlurmJob("5_1", "TIMEOUT"), "timeout", "TIMEOUT"),
        ({"status": "failed", "failure": "it broke\nhere"}, QUEUED, "failed", "it broke"),
        ({"status": "interrupted", "failure": "stopped"}, None, "interrupted", "stopped"),
        ({"status": "interrupted", "stopped_by": "time limit"}, None, "timeout", ""),
        ({"status": 7}, None, "broken", "status: expected `str`, got `int`"),
        ({"spec": None}, None, "broken", "spec: expected `object`, got `null`"),
    ],
)
def test_state_comes_from_the_folder_and_then_from_slurm(folder, changes, job, state, reason):
    change(folder, **changes)
    found = assess_run(folder, said(folder, job) if job else None)
    assert (found.state, found.reason.partition("\n")[0].find(reason) >= 0) == (state, True)


def test_run_on_another_machine_is_assessed_by_slurm_and_not_by_time(folder):
    change(folder, status="running", steps={"taken": 0, "scheduled": 40})
    lock_run(folder, "another", age=7300)
    found = assess_run(folder, None)
    assert (found.state, found.step) == ("running", 30)
    assert "process 1 on far, which cannot be checked from here" in found.reason
    shutil.rmtree(folder / ".lease")
    lock_run(folder, "another", age=-1e9, job="5_1")
    assert assess_run(folder, said(folder, SlurmJob("5_1", "RUNNING"))).state == "running"
    assert assess_run(folder, said(folder, SlurmJob("5_1", "NODE_FAIL"))).state == "lost"
    assert "; Slurm was not queried" in assess_run(folder, None).reason


def test_locally_locked_run_has_no_job_of_an_earlier_submission(folder):
    change(folder, status="running", job="5_1")
    with recorded.lock_run(folder):
        assert assess_run(folder, said(folder, SlurmJob("5_1", "COMPLETED"))).job is None
        assert assess_run(folder, said(folder, SlurmJob("5_1", "COMPLETED"))).state == "running"


def test_lock_owner_is_assessed_by_its_own_job(folder):
    change(folder, status="running")
    lock_run(folder, "another", age=5, job="77_0")
    both = said(folder, SlurmJob("77_0", "RUNNING"), SlurmJob("88_0", "PENDING"))
    assert (assess_run(folder, both).state, assess_run(folder, both).job) == ("running", "77_0")
    ended = said(folder, SlurmJob("77_0", "NODE_FAIL"), SlurmJob("88_0", "PENDING"))
    assert assess_run(folder, ended).state == "queued"
    unknown = assess_run(folder, said(folder, SlurmJob("88_0", "PENDING")))
    assert unknown.state == "running"
    assert "about whose job Slurm says nothing" in unknown.reason


def test_job_missing_in_slurm_is_ended_if_the_submission_names_it(folder, tmp_path, monkeypatch):
    fake = FakeSlurm(tmp_path / "bin", monkeypatch)
    fake.write("squeue", "")
    change(folder, status="running")
    lock_run(folder, "another", age=5, job="77_0")
    elements = [[folder], [folder.with_name("seed=1")]]
    for number, state in (("77", "lost"), ("78", "running"), (None, "running")):
        record = a_record(tmp_path, "a", elements, job_id=number)
        assert assess_run(folder, query_slurm([record])).state == state
    (fake.folder / "squeue").unlink()
    assert assess_run(folder, query_slurm([record])).state == "running"  # nothing answered


def test_run_that_ends_during_the_query_is_listed(folder, monkeypatch):
    change(folder, status="running")
    run_lock = recorded.lock_run(folder)

    def read(path):
        reading = read_run(path)
        change(folder, status="failed", failure="it broke")
        run_lock.__exit__(None, None, None)
        return reading

    monkeypatch.setattr("parallax.slurm.states.read_run", read)
    assert assess_run(folder).state == "failed"


@pytest.mark.parametrize(
    ("started", "beat"),
    [
        (0.0, {"step": 30, "time": 1e300}),
        (0.0, {"step": 30, "time": -1}),
        (0.0, {"step": 30, "time": 5e-324}),
        (0.0, {"step": 10**400, "time": 1.0}),
        (-1e12, {"step": 1, "time": -1.0}),
    ],
)
def test_implausible_times_are_omitted(folder, started, beat):
    change(folder, status="running", steps={"taken": 0, "scheduled": 2**53})
    change(folder, timings={"started": started})
    lock_run(folder, "another", age=5)
    (folder / "progress.json").write_text(json.dumps(beat | {"period": 1.0}))
    run, queue = assess_run(folder), SlurmQueue({}, ())
    Console().print(render_status([run], queue, Path("/"), 9))
    content = json.loads(status_to_json([run], queue, Path("/")), parse_constant=pytest.fail)
    assert content["seconds_left"] in (None, 0.0)


def test_commands_work_without_slurm(complete):
    results = str(complete.results)
    text = complete.python("parallax", "status", results, "--watch")
    assert "testbed: 1 runs: 1 completed" in text and "Slurm was not queried" in text
    assert complete.status()["answered"] == []
    assert "Nothing to submit." in complete.python("parallax", "slurm", "resubmit", results)
    assert "No job is queued or running." in complete.python("parallax", "slurm", "cancel", results)
    assert "1 runs were read: no files are damaged." in complete.python(
        "parallax", "run", "validate", results
    )


def test_study_that_was_never_submitted_needs_a_profile(complete, folder):
    study = folder.parents[0] / "copy" / "testbed"
    shutil.copytree(complete.results / "testbed", study)
    for run in study.rglob("seed=0"):
        change(run, status="pending")
    result = complete.call("parallax", "slurm", "resubmit", str(study), "--yes")
    assert result.returncode == 2 and "name a profile with --profile" in result.stderr
    missing = complete.call("parallax", "status", str(study / "nowhere"))
    assert missing.returncode == 2 and "is not a folder" in missing.stderr


def test_expected_end_is_that_of_the_slowest_run_and_of_the_study(folder):
    change(folder, status="running", steps={"taken": 0, "scheduled": 40})
    change(folder, timings={"started": time.time() - 105})
    lock_run(folder, "another", age=5)
    run = assess_run(folder, None)
    assert run.rate == pytest.approx(30 / 100, rel=0.01)
    assert estimate_seconds_left([run]) == pytest.approx((run.steps - 30) / run.rate)
    assert estimate_seconds_left([]) is None


def test_rate_of_a_resumed_run_is_that_of_its_own_steps(folder):
    change(folder, status="running", steps={"taken": 0, "scheduled": 40})
    change(folder, timings={"started": time.time() - 105})
    lock_run(folder, "another", age=5)
    beat = json.loads((folder / "progress.json").read_text())
    (folder / "progress.json").write_text(json.dumps(beat | {"resumed_from": 10}))
    assert assess_run(folder, None).rate == pytest.approx(20 / 100, rel=0.01)
    # A run whose record names a later resume step has no negative rate.
    (folder / "progress.json").write_text(json.dumps(beat | {"resumed_from": 99}))
    assert assess_run(folder, None).rate == 0


def test_resumptions_of_all_attempts_are_counted(folder):
    attempt = read_run(folder).content | {"status": "interrupted", "steps": 5}
    names = ("status", "failure", "steps", "started", "ended", "host", "job", "stopped_by")
    before = [
        {name: attempt.get(name) for name in names} | {"resumed_from": step}
        for step in (None, 3, 7)
    ]
    change(folder, attempts=before, resumed_from=9)
    run = assess_run(folder)
    assert (run.resumed_from, run.resumptions) == (9, 3)


def test_run_that_ends_during_the_query_is_complete(folder, monkeypatch):
    """The first look finds it running, and its owner gone."""
    done = read_run(folder)
    change(folder, status="running")
    running = read_run(folder)
    assert done.complete and not running.complete
    looks = iter([running, done])
    owners = iter([LockOwner("token", machine="elsewhere"), None])
    monkeypatch.setattr(states, "read_run", lambda folder: next(looks))
    monkeypatch.setattr(states, "read_lock_owner", lambda folder: next(owners))
    assert assess_run(folder).state == "completed"
    # One whose owner is another at each look is believed at the last one.
    looks = iter([running] * 20)
    owners = (LockOwner(str(i), machine=f"host-{i}", host=f"host-{i}") for i in range(20))
    run = assess_run(folder)
    assert run.state == "running" and "locked by process" in run.reason
    # One that begins between the two reads has an owner at the next.
    owner = LockOwner("token", machine="elsewhere", host="elsewhere")
    looks, owners = iter([running] * 3), iter([None, owner, owner])
    assert assess_run(folder).state == "running"
