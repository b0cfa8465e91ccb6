"""States of runs and of preflights, and when Slurm is queried."""

import itertools
import json
import os
import types
from pathlib import Path

import pytest
from slurm_fakes import a_record, a_run

from parallax.harness.contract.fields import RunsFailedError
from parallax.harness.record.checkpoints import LastCheckpoint
from parallax.harness.record.lock import Heartbeat
from parallax.slurm import queue, states
from parallax.slurm.queue import SlurmJob, SlurmQueue
from parallax.slurm.states import RunState, assess_run


def make_record(**changes):
    timings = types.SimpleNamespace(started=100.0)
    steps = types.SimpleNamespace(taken=0, scheduled=600)
    values = {"status": "running", "failure": None, "stopped_by": None, "imported": None}
    values |= {"timings": timings, "steps": steps, "job": "5", "resumed_from": 40, "resumptions": 2}
    return types.SimpleNamespace(**(values | changes))


def make_reading(record, complete=False, seed=3):
    place = types.SimpleNamespace(
        study="s", framework="sb3", algorithm="ppo", env="A-v0", hps="own", seed=seed
    )
    return types.SimpleNamespace(record=record, complete=complete, place=place, reason="odd")


def make_beat(step=300, time=150.0, resumed_from=None):
    return Heartbeat(step=step, time=time, period=1.0, resumed_from=resumed_from)


def assess(monkeypatch, reading, owner=None, beat=None, checkpoint=None, job=None, alive=True):
    monkeypatch.setattr(states, "read_run", lambda folder: reading)
    monkeypatch.setattr(states, "read_lock_owner", lambda folder: owner)
    monkeypatch.setattr(states, "read_heartbeat", lambda folder: beat)
    monkeypatch.setattr(states, "find_last_checkpoint", lambda folder: checkpoint)
    known = SlurmQueue({Path("f"): SlurmJob("9_1", job)} if job else {}, ("squeue",))
    return assess_run(Path("f"), known)


NAMES = ("s", "sb3", "ppo", "A-v0", "own")


def test_a_running_run_has_the_step_and_the_rate_of_its_heartbeat(monkeypatch):
    owner = types.SimpleNamespace(is_local=True, is_running=lambda: True, job="77")
    found = assess(monkeypatch, make_reading(make_record()), owner, make_beat(resumed_from=40))
    values = {"rate": 260 / 50, "job": "77", "resumed_from": 40, "resumptions": 2}
    assert found == RunState(Path("f"), "running", *NAMES, 3, 300, 600, **values)
    owner.job = ""
    found = assess(monkeypatch, make_reading(make_record()), owner, None, LastCheckpoint(1, 7))
    assert (found.job, found.rate, found.step, found.resume_step) == (None, None, 0, None)


def test_waiting_run_has_its_steps_and_resume_step(monkeypatch):
    steps = types.SimpleNamespace(taken=250, scheduled=600)
    record = make_record(status="interrupted", failure="stopped\nhere", steps=steps)
    reading = make_reading(record, seed=None)
    found = assess(monkeypatch, reading, None, make_beat(), LastCheckpoint(4, 1200), "PENDING")
    values = {"job": "9_1", "resumed_from": 40, "resumptions": 2, "resume_step": 1200}
    first, _, rest = found.reason.partition("; ")
    assert first == "job 9_1 is PENDING" and rest.endswith("; will resume from step 1,200")
    state = RunState(Path("f"), "queued", *NAMES, -1, 250, 600, reason=found.reason, **values)
    assert found == state
    steps.taken = 0  # then the heartbeat may know more
    found = assess(monkeypatch, reading, None, make_beat(), None, "PENDING")
    assert (found.step, found.rate) == (300, None)


@pytest.mark.parametrize(("imported", "reason"), [(None, ""), ("csv", "imported")])
def test_complete_run_is_assessed_without_its_lock(monkeypatch, imported, reason):
    steps = types.SimpleNamespace(taken=600, scheduled=600)
    record = make_record(status="completed", imported=imported, steps=steps)
    owner = types.SimpleNamespace(is_local=True, is_running=lambda: True)
    reading = make_reading(record, complete=True)
    found = assess(monkeypatch, reading, owner, None, LastCheckpoint(1, 5))
    assert (found.state, found.reason, found.rate) == ("completed", reason, None)
    assert (found.step, found.job, found.resume_step) == (600, "5", None)


@pytest.mark.parametrize(
    ("beat", "resumed_from", "rate"),
    [
        *((None, None, None), (make_beat(time=100.0), None, None)),
        *((make_beat(time=150.0), None, 6.0), (make_beat(time=99.0), None, None)),
        *((make_beat(time=100.0 + 1e12), None, None), (make_beat(), 300, 0.0)),
        *((make_beat(), 301, 0.0), (make_beat(), 299, 1 / 50), (make_beat(step=-5), None, 0.0)),
        (make_beat(step=2**60, time=101.0), None, 2.0**53),
    ],
)
def test_a_rate_is_of_the_steps_since_the_attempt_began(beat, resumed_from, rate):
    if beat is not None and resumed_from is not None:
        beat = make_beat(resumed_from=resumed_from)
    assert states._compute_rate(make_record(), beat) == rate
    unknown = make_record(timings=types.SimpleNamespace(started=None))
    assert states._compute_rate(unknown, beat) is None


@pytest.mark.parametrize(
    ("status", "job", "owner", "state", "reason"),
    [
        ("running", None, None, "lost", "no process holds it"),
        ("running", "TIMEOUT", None, "timeout", "Slurm says TIMEOUT"),
        ("running", "FAILED", None, "lost", "no process holds it; Slurm says FAILED"),
        ("running", "FAILED", "me", "lost", "it was me; Slurm says FAILED"),
        ("running", None, "me", "lost", "it was me"),
        ("running", "RUNNING", "me", "queued", "job 9_1 is RUNNING"),
        ("pending", "FAILED", None, "pending", "Slurm says FAILED"),
        ("pending", None, None, "pending", ""),
        ("completed", None, None, "broken", "odd"),
        ("failed", "PENDING", None, "failed", ""),
    ],
)
def test_state_without_a_process_comes_from_record_and_job(status, job, owner, state, reason):
    job = job and SlurmJob("9_1", job)
    owner = owner and types.SimpleNamespace(describe=lambda: owner_name)
    owner_name = "me"
    reading = make_reading(make_record(status=status))
    assert states._determine_state(reading, owner, job, None) == (state, reason)
    assert states._determine_state(reading, owner, job, "doubt") == ("running", "doubt")


def test_studies_that_were_submitted_need_an_answer_of_slurm(tmp_path):
    folder = a_run(tmp_path)
    silent = SlurmQueue({}, ())
    assert states.check_slurm_answered([folder], silent) is None
    a_record(folder.parents[5], "a", [[folder]])
    assert states.check_slurm_answered([folder], SlurmQueue({}, ("sacct",))) is None
    assert states.check_slurm_answered([tmp_path], silent) is None
    with pytest.raises(RunsFailedError, match=r"^Slurm does not answer here \(squeue, scontrol"):
        states.check_slurm_answered([folder], silent)


def test_the_submissions_of_all_studies_are_looked_up_once(monkeypatch, tmp_path):
    folders = [a_run(tmp_path, study=name, seed=seed) for name in "ba" for seed in (0, 1)]
    for folder in folders[::2]:
        a_record(folder.parents[5], f"{folder.parents[5].name}-1", [[folder]])
    queries = []
    monkeypatch.setattr(states, "query_slurm", lambda records: queries.append(records) or "queue")
    monkeypatch.setattr(states, "assess_run", lambda folder, queue: (folder, queue))
    runs, found = states.survey_runs(tmp_path)
    assert found == "queue" and runs == [(folder, "queue") for folder in sorted(folders)]
    assert [record.name for record in queries[0]] == ["a-1", "b-1"] and len(queries) == 1
    assert states.find_study_folders([*folders, tmp_path]) == [tmp_path / "a", tmp_path / "b"]
    said = []
    (tmp_path / "c").symlink_to(tmp_path / "a")
    states.survey_runs(tmp_path, said.append)
    assert len(said) == 1


def test_the_last_preflight_is_the_newest_that_can_be_read(tmp_path):
    assert states.read_last_preflight(tmp_path) is None
    for number, (state, age) in enumerate([("failed", 5), ("passed", 1), ("queued", 9)]):
        file = tmp_path / "slurm" / f"p-{number}" / "preflight.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"state": state, "said": f"word {number}"}))
        os.utime(file, (1e9 - age, 1e9 - age))
    found = states.read_last_preflight(tmp_path)
    place = tmp_path / "slurm" / "p-1" / "preflight.json"
    assert found == (place, states.PreflightOutcome("passed", "word 1"))
    place.write_text("{")
    assert states.read_last_preflight(tmp_path)[1].said == "word 0"


def test_titles_name_what_a_run_trains():
    assert RunState(Path("f"), "lost", *NAMES, 3).title == "sb3 ppo A-v0 own seed=3"


def query(monkeypatch, tmp_path, squeue, scontrol, sacct, seconds=0.0):
    """Query two arrays; each command's answer takes some seconds."""
    clock = itertools.count(0.0, seconds)
    monkeypatch.setattr(queue.time, "monotonic", lambda: next(clock))
    queries = []
    for name, answer in {"squeue": squeue, "scontrol": scontrol, "sacct": sacct}.items():

        def answer_query(names, name=name, answer=answer):
            queries.append((name, names))
            return answer

        monkeypatch.setattr(queue, f"_query_{name}", answer_query)
    folders = [tmp_path / f"seed={i}" for i in range(3)]
    records = [a_record(tmp_path, "a", [folders[:1], folders[1:2]], job_id="7")]
    records.append(a_record(tmp_path, "b", [folders[2:]], job_id="8"))
    return queue.query_slurm(records), queries, folders


RUNNING, ENDED = SlurmJob("7_0", "RUNNING"), SlurmJob("7_1", "FAILED")
ALL = {("a", "0"): RUNNING, ("a", "1"): ENDED, ("b", "0"): SlurmJob("8", "PENDING")}


def test_slurm_jobs_are_listed_by_run_folder(monkeypatch, tmp_path):
    found, queries, folders = query(monkeypatch, tmp_path, ALL, None, None)
    assert queries == [("squeue", ["a", "b"])]
    alive = {folders[0]: (RUNNING,), folders[2]: (ALL["b", "0"],)}
    over = {folders[0]: frozenset(), folders[1]: frozenset(["7_1"]), folders[2]: frozenset()}
    jobs = dict(zip(folders, ALL.values(), strict=True))
    assert found == SlurmQueue(jobs, ("squeue",), alive, over)


def test_only_jobs_missing_in_the_queue_are_queried_in_accounting(monkeypatch, tmp_path):
    known = {("a", "0"): RUNNING, ("a", "1"): ENDED}
    late = {("a", "0"): SlurmJob("7_0", "FAILED"), ("b", "0"): SlurmJob("8", "TIMEOUT")}
    found, queries, folders = query(monkeypatch, tmp_path, None, known, late)
    assert queries == [("squeue", ["a", "b"]), ("scontrol", ["a", "b"]), ("sacct", ["b"])]
    assert found.answered == ("scontrol", "sacct") and found.jobs[folders[0]] == RUNNING
    assert found.over[folders[2]] == {"8"}
    found, _, folders = query(monkeypatch, tmp_path, known, None, None)
    assert found.answered == ("squeue",) and folders[2] not in found.jobs
    assert found.over[folders[2]] == {"8", "8_0"}  # one job is no array
    found, _, folders = query(monkeypatch, tmp_path, None, None, None)
    assert (found.jobs, found.answered, found.over[folders[2]]) == ({}, (), frozenset())


@pytest.mark.parametrize(("seconds", "names"), [(19.9, 3), (20.0, 2)])
def test_controller_that_times_out_is_not_queried_again(monkeypatch, tmp_path, seconds, names):
    _, queries, _ = query(monkeypatch, tmp_path, None, None, None, seconds)
    assert len(queries) == names and queries[-1][0] == "sacct"


def test_last_live_job_of_a_run_counts_or_the_last_one(tmp_path):
    folder = tmp_path / "seed=0"
    records = [a_record(tmp_path, f"a-{i}", [[folder]], job_id=str(i)) for i in range(3)]
    jobs = {("a-0", "0"): SlurmJob("0", "PENDING"), ("a-1", "0"): SlurmJob("1", "FAILED")}
    found = queue._index_by_folder(records, jobs, ("squeue",))
    assert found.jobs == {folder: jobs["a-0", "0"]} and found.over == {folder: {"1", "2", "2_0"}}
    assert found.alive == {folder: (jobs["a-0", "0"],)}
    jobs["a-0", "0"] = SlurmJob("0", "TIMEOUT")
    found = queue._index_by_folder(records, jobs, ("squeue",))
    assert found.jobs == {folder: jobs["a-1", "0"]} and found.alive == {}


def test_arrays_are_queried_in_batches_by_their_names(monkeypatch):
    queries = []
    monkeypatch.setattr(queue, "_NAMES_PER_COMMAND", 2)
    monkeypatch.setattr(queue, "run_slurm", lambda *command: queries.append(command) or command[-1])
    parse = lambda text: {(text, "0"): text}  # noqa: E731
    found = queue._query_in_batches(("squeue", "-x"), ["c", "a", "b", "a"], parse)
    batches = [("squeue", "-x", "--name=a,b"), ("squeue", "-x", "--name=c")]
    assert queries == batches and list(found) == [("--name=a,b", "0"), ("--name=c", "0")]
    monkeypatch.setattr(queue, "run_slurm", lambda *command: None)
    assert queue._query_in_batches(("squeue",), ["a"], parse) is None
    assert queue._query_scontrol(["a"]) is None
    monkeypatch.setattr(queue, "run_slurm", lambda *command: queries.append(command) or "")
    for query_jobs in (queue._query_squeue, queue._query_scontrol, queue._query_sacct):
        assert query_jobs(["a"]) == {}
    fields = "--format=JobID,State,JobName"
    options = ("--allusers", "--allocations", "--noheader", "--parsable2")
    assert queries[2:] == [
        ("squeue", "--array", "--noheader", "--states=all", "--format=%F|%K|%T|%r|%j", "--name=a"),
        ("scontrol", "--oneliner", "show", "job"),
        ("sacct", *options, "--starttime=2000-01-01", fields, "--name=a"),
    ]


def test_variables_that_filter_slurms_output_are_left_out(monkeypatch):
    for name in ("SQUEUE_USERS", "SACCT_X", "SCANCEL_X", "SLURM_CONF"):
        monkeypatch.setenv(name, "x")
    found = queue.make_slurm_environment()
    assert not {"SQUEUE_USERS", "SACCT_X", "SCANCEL_X"} & found.keys()
    assert (found["SLURM_CONF"], found["SLURM_BITSTR_LEN"]) == ("x", "0")
    assert found["PATH"] == os.environ["PATH"]
