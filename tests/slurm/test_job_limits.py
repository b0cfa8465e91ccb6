"""Limits of requeueing, times of warnings, and the stop of a run."""

import io
import types
from pathlib import Path

import pytest

from parallax.harness.contract.fields import SpecError
from parallax.harness.record.checkpoints import LastCheckpoint
from parallax.harness.record.lock import LockHeldError, LockLostError
from parallax.slurm import requeueable_job
from parallax.slurm.requeueable_job import (
    JobLimits,
    RunJob,
    can_be_requeued,
    compute_seconds_to_warning,
    has_exhausted_restarts,
)


def make_limits(run=10, job=20, signal=120, timeouts=1, preemptions=1):
    return JobLimits(run, job, signal, timeouts, preemptions)


@pytest.mark.parametrize(("restarts", "comes_back"), [(0, True), (1, True), (2, False)])
def test_preempted_job_is_requeued_up_to_the_limit(restarts, comes_back):
    assert can_be_requeued(restarts, make_limits(preemptions=2)) is comes_back


@pytest.mark.parametrize(
    ("seconds", "stops", "limits", "is_over"),
    [
        (420, 2, make_limits(), True),  # a minute before the warning at 480 s
        (419, 2, make_limits(), False),
        (420, 1, make_limits(), False),
        (480, 2, make_limits(signal=10), True),  # four fifths of the limit
        (479, 2, make_limits(signal=10), False),
        (30, 1, make_limits(run=2, signal=60, timeouts=0), True),  # half the time to the warning
        (29, 1, make_limits(run=2, signal=60, timeouts=0), False),
    ],
)
def test_a_run_that_used_its_time_too_often_does_not_start_again(seconds, stops, limits, is_over):
    assert has_exhausted_restarts(seconds, stops, limits) is is_over


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [(make_limits(), 1020), (make_limits(job=2, signal=60), 30), (make_limits(job=5), 120)],
)
def test_time_limit_warning_is_expected_within_a_minute(limits, seconds):
    assert compute_seconds_to_warning(limits) == seconds


@pytest.mark.parametrize(
    ("variables", "number", "restart"),
    [
        ({"SLURM_JOB_ID": "7"}, "7", 0),
        (
            {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
            | {"SLURM_RESTART_COUNT": "2"},
            *("7_3", 2),
        ),
    ],
)
def test_a_job_has_slurms_number_and_restarts(monkeypatch, variables, number, restart):
    for name in ("JOB_ID", "ARRAY_JOB_ID", "ARRAY_TASK_ID", "RESTART_COUNT"):
        monkeypatch.delenv(f"SLURM_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(requeueable_job.time, "monotonic", lambda: 1000.0)
    job = requeueable_job._make_batch_job(make_limits())
    assert (job.id, job.restart, job.limit_from, job.notice) == (number, restart, 2020, 120)


def make_reading(complete=False, status="pending", **record):
    record = status and types.SimpleNamespace(status=status, **record)
    return types.SimpleNamespace(complete=complete, record=record, spec="spec")


@pytest.mark.parametrize(
    ("reading", "is_runnable"),
    [
        *((make_reading(), True), (make_reading(status="interrupted"), True)),
        *((make_reading(status="failed"), False), (make_reading(status=None), False)),
        (make_reading(complete=True), False),
    ],
)
def test_runs_that_would_fail_again_are_left_out(monkeypatch, reading, is_runnable):
    monkeypatch.setattr(requeueable_job, "read_run", lambda folder: reading)
    assert requeueable_job._is_runnable(Path("a")) is is_runnable
    monkeypatch.setattr(requeueable_job, "spec_from_dict", lambda spec: f"read {spec}")
    found = ["read spec"] * is_runnable
    assert list(requeueable_job._read_specs(["a"])) == found

    def fail(spec):
        raise SpecError("odd")

    monkeypatch.setattr(requeueable_job, "spec_from_dict", fail)
    assert list(requeueable_job._read_specs(["a"])) == []


class Log(io.StringIO):
    """A job's output, of which a kill leaves what was flushed."""

    def __init__(self):
        super().__init__()
        self.written = []

    def flush(self):
        self.written.append(self.getvalue())


@pytest.mark.parametrize(
    ("is_runnable", "waits", "words"), [(True, 1, "a: interrupted why\n"), (False, 0, "a: done\n")]
)
def test_job_output_is_flushed_before_the_job_is_killed(monkeypatch, is_runnable, waits, words):
    log, slept, job = Log(), [], RunJob(make_limits())
    outcome = types.SimpleNamespace(status="interrupted", failure="why")
    process = types.SimpleNamespace(wait=lambda seconds: True, outcome=lambda: outcome)
    fakes = {
        "read_run": lambda folder: types.SimpleNamespace(reason="done", spec="spec"),
        "_is_runnable": lambda folder: is_runnable,
        "spec_from_dict": lambda spec: spec,
        "find_last_checkpoint": lambda folder: None,
        "RunProcess": lambda *given: process,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(requeueable_job, name, fake)
    monkeypatch.setattr(requeueable_job.time, "sleep", lambda s: slept.append((s, *log.written)))
    monkeypatch.setattr("sys.stdout", log)
    assert job._run_folder(Path("a"), None) == ("why" if is_runnable else None)
    assert log.written == [words] and slept == [(300.0, words)] * waits


@pytest.mark.parametrize("error", [None, LockHeldError("x"), LockLostError("x")])
def test_a_run_that_cannot_begin_is_recorded_and_named(monkeypatch, error):
    marked, log = [], Log()
    monkeypatch.setattr("sys.stdout", log)

    def mark(*given):
        marked.append(given)
        if error:
            raise error

    monkeypatch.setattr(requeueable_job, "mark_run_ended", mark)
    assert requeueable_job._mark_failed(Path("a"), "why") == "why"
    assert marked == [(Path("a"), {"status": "failed", "failure": "why"})]
    assert log.written == ["a: why\n"]


@pytest.mark.parametrize(
    ("checkpoint", "resumed_from", "is_new"),
    [
        *((None, None, False), (LastCheckpoint(1, 300), None, False)),
        *((LastCheckpoint(2, 301), 300, True), (LastCheckpoint(2, 300), 300, False)),
        *((LastCheckpoint(2, 0), None, False), (LastCheckpoint(2, 1), None, True)),
        (LastCheckpoint(2, 301), "no record", False),
    ],
)
def test_only_a_checkpoint_beyond_the_start_is_progress(
    monkeypatch, checkpoint, resumed_from, is_new
):
    job = RunJob(make_limits())
    job._last_checkpoint = LastCheckpoint(1, 300)
    status = None if resumed_from == "no record" else "interrupted"
    reading = make_reading(status=status, resumed_from=resumed_from)
    monkeypatch.setattr(requeueable_job, "find_last_checkpoint", lambda folder: checkpoint)
    monkeypatch.setattr(requeueable_job, "read_run", lambda folder: reading)
    assert job._has_new_checkpoint(Path("a")) is is_new


@pytest.mark.parametrize(
    ("begun", "stops", "is_over"), [(580, 2, True), (581, 2, False), (0, 1, False)]
)
def test_stops_at_the_time_limit_are_counted(monkeypatch, begun, stops, is_over):
    reasons = [*["time limit"] * stops, "user", None, "preemption"]
    attempts = [{"stopped_by": reason} for reason in reasons]
    monkeypatch.setattr(requeueable_job, "read_run", lambda folder: folder)
    monkeypatch.setattr(requeueable_job, "collect_attempts", lambda reading: attempts)
    monkeypatch.setattr(requeueable_job.time, "monotonic", lambda: 1000.0)
    job = RunJob(make_limits())
    job._run_started = begun
    assert job._has_exhausted_time(Path("a")) is is_over


@pytest.mark.parametrize(("ends_after", "waits"), [(3, 3), (10**6, 5)])
def test_a_stopped_run_is_waited_for_until_two_thirds_of_the_notice(monkeypatch, ends_after, waits):
    owner = types.SimpleNamespace(job="7", is_local=True, is_running=lambda: True, pid=5)
    now, sent = types.SimpleNamespace(value=1000.0, waits=0), []

    def sleep(seconds):
        now.value, now.waits = now.value + 16, now.waits + 1
        assert seconds == 0.1

    fake = types.SimpleNamespace(monotonic=lambda: now.value, sleep=sleep)
    monkeypatch.setattr(requeueable_job, "time", fake)
    monkeypatch.setattr(
        *(requeueable_job, "read_lock_owner"),
        lambda folder: owner if now.waits < ends_after else None,
    )
    batch = types.SimpleNamespace(from_environment=lambda: types.SimpleNamespace(id="7"))
    monkeypatch.setattr(requeueable_job, "BatchJob", batch)
    monkeypatch.setattr(requeueable_job.os, "kill", lambda *given: sent.append(given))
    RunJob(make_limits())._stop_run(Path("a"))
    assert now.waits == waits and sent == [(5, requeueable_job.signal.SIGUSR2)]
    owner.job = "8"  # another job's process
    RunJob(make_limits())._stop_run(Path("a"))
    assert len(sent) == 1


@pytest.mark.parametrize(
    ("by", "restart", "exhausted", "left"),
    [
        ("preemption", 0, True, ["a", "b"]),
        ("preemption", 1, False, None),
        ("time limit", 9, False, ["a", "b"]),
        ("time limit", 0, True, ["b"]),
    ],
)
def test_warned_job_is_requeued_with_its_remaining_runs(monkeypatch, by, restart, exhausted, left):
    job, stopped = RunJob(make_limits()), []
    batch = types.SimpleNamespace(restart=restart)
    fakes = {
        "get_stop_reason": lambda number: by,
        "BatchJob": types.SimpleNamespace(from_environment=lambda: batch),
        "_is_runnable": lambda folder: folder.name != "done",
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(requeueable_job, name, fake)
    monkeypatch.setattr(job, "_stop_run", stopped.append)
    monkeypatch.setattr(job, "_has_new_checkpoint", lambda folder: False)
    monkeypatch.setattr(job, "_has_exhausted_time", lambda folder: exhausted)
    job._current = "a"
    back = job.checkpoint(["done", "a", "b"])
    assert stopped == [Path("a")] and (back and back.args) == (left and (left,))
    if back:
        assert back.function._limits == make_limits() and back.function._current == ""
    monkeypatch.setattr(job, "_has_new_checkpoint", lambda folder: True)
    assert job.checkpoint(["done", "a", "b"]).args == (["a", "b"],)
    job._current = ""
    assert job.checkpoint(["done"]) is None and len(stopped) == 2


def test_a_job_names_the_runs_that_are_not_complete(monkeypatch, capsys):
    job = RunJob(make_limits())
    failures = {"a": None, "b": "broke", "c": "gone"}
    exported = []
    monkeypatch.setattr(
        requeueable_job,
        "_make_batch_job",
        lambda limits: types.SimpleNamespace(export_to_environment=lambda: exported.append(limits)),
    )
    monkeypatch.setattr(requeueable_job, "_read_specs", lambda folders: [])
    monkeypatch.setattr(job, "_run_folder", lambda folder, servers: failures[folder.name])
    with pytest.raises(
        requeueable_job.JobFailedError, match=r"^2 of 3 runs are not complete: b: broke; c: gone$"
    ):
        job(list(failures))
    assert job(["a"]) is None and exported == [make_limits()] * 2
