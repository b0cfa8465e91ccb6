"""Parts of submission, watching and preflight, without Slurm."""

import argparse
import dataclasses
import datetime
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import pytest
import support
from constants import compare_with_stored
from slurm_fakes import FakeSlurm, a_record

from parallax.harness.contract.fields import RunsFailedError, SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.record.files import make_number_parser
from parallax.harness.sweep.run_process import format_signal_name
from parallax.slurm import (
    commands,
    launch,
    requeueable_job,
    resubmit,
    settings,
    states,
    status,
    submit,
)
from parallax.slurm.arrays import JobArray, JobResources, create_record
from parallax.slurm.preflight import PreflightOptions, _TrialWorker
from parallax.slurm.preflight_trials import make_trials, shorten_hyperparameters
from parallax.slurm.queue import SlurmQueue, query_slurm
from parallax.slurm.requeueable_job import JobLimits, _make_batch_job
from parallax.slurm.settings import load_settings
from parallax.slurm.states import RunState, assess_run


def test_a_watched_status_is_printed_until_no_run_is_left(monkeypatch, tmp_path, capsys):
    folder = tmp_path / "seed=0"
    looks = [[RunState(folder, state)] for state in ("queued", "running", "completed", "lost")]
    waits = []
    monkeypatch.setattr(states, "survey_runs", lambda *_: (looks.pop(0), SlurmQueue({}, ())))
    monkeypatch.setattr(commands.time, "sleep", waits.append)
    options = argparse.Namespace(files=False, json=False, watch=True, folder=tmp_path, list=20)
    assert commands.run_status(options) == 0
    assert len(waits) == 2 and [runs[0].state for runs in looks] == ["lost"]
    assert "completed" in capsys.readouterr().out


def test_status_without_watch_is_read_once(monkeypatch, tmp_path):
    looks = []
    monkeypatch.setattr(
        states, "survey_runs", lambda *_: looks.append(1) or ([], SlurmQueue({}, ()))
    )
    options = argparse.Namespace(files=False, json=False, watch=False, folder=tmp_path, list=20)
    assert commands.run_status(options) == 0 and looks == [1]


def test_end_of_a_process_is_explained_by_its_last_output():
    worker = object.__new__(_TrialWorker)
    worker._process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    with tempfile.TemporaryFile() as worker._log:
        assert worker._describe_end() == "it ended without output"
        worker._log.write(b"first")
        assert worker._describe_end() == "first"
        worker._log.write(b"\nlast words\n")
        assert worker._describe_end() == "last words"
        worker._log.write(b"x" * 5000)
        assert worker._describe_end() == "x" * 4096
    worker._process.wait()


def test_a_folder_without_a_record_was_never_resumed(tmp_path):
    found = assess_run(tmp_path / "s" / "seed=3")
    assert (found.resumptions, found.resumed_from, found.step, found.steps) == (0, None, 0, 0)


def test_the_first_rollout_of_a_framework_and_task_is_tried_in_full():
    changes = {"steps": 10**5, "eval_every": 10**4}
    recipes = {"learning_rate": 0.1}, {"learning_rate": 0.2}
    first, second = make_trials([support.spec(hyperparameters=one, **changes) for one in recipes])
    rollout = first.prepared.spec.hyperparameters.rollout_steps
    assert first.is_full_rollout and not second.is_full_rollout
    assert first.prepared.native.total_steps == rollout == 2048
    assert second.prepared.native.total_steps < 2048


@pytest.mark.parametrize(("every", "n_envs", "shortened"), [(10, 4, 6), (3, 4, 3), (64, 1, 1)])
def test_shortened_update_cycle_has_all_environments_and_the_same_remainder(
    every, n_envs, shortened
):
    hp = dataclasses.replace(load_recipe("dqn", "sb3"), train_freq=every)
    found, steps = shorten_hyperparameters(hp, n_envs)
    assert found.train_freq == shortened and steps % shortened == 0
    assert found.train_freq % n_envs == every % n_envs


def test_scontrol_is_queried_if_squeue_fails(tmp_path, monkeypatch):
    fake = FakeSlurm(tmp_path / "bin", monkeypatch)
    fake.write("scontrol", "")
    record = a_record(tmp_path / "testbed", "testbed-ppo-1", [[tmp_path / "testbed" / "seed=0"]])
    assert query_slurm([record]).answered == ("scontrol",)
    assert fake.calls("scontrol")


def test_options_of_a_submission_are_added_to_those_of_the_profile(tmp_path, monkeypatch):
    given = []

    class Executor:
        def map_array(self, job, folders):
            return [types.SimpleNamespace(job_id="9_0")]

    monkeypatch.setattr(
        submit,
        "_make_executor",
        lambda record, array, settings: given.append(settings.sbatch) or Executor(),
    )
    settings = load_settings("default", {"sbatch": {"nice": 5}})
    array = JobArray(JobResources("ppo", 10, 1, 1, 1.0), ((tmp_path / "s" / "seed=0",),), 1)
    specs = {array.elements[0][0]: support.spec()}
    for options in (None, {"dependency": "afterok:7"}):
        (record,) = submit.submit_arrays(tmp_path / "s", [array], settings, specs, options)
        assert record.job_id == "9"
    assert [dict(one) for one in given] == [{"nice": 5}, {"nice": 5, "dependency": "afterok:7"}]


def test_output_of_a_trial_does_not_mix_with_the_answers():
    code = (
        "import os\nfrom parallax.slurm import preflight_worker\n"
        "def noise(folder):\n    print('noise', flush=True)\n    os.system('echo noise')\n"
        "preflight_worker._try_run = noise\npreflight_worker.main()"
    )
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, input='"/nowhere"\n', capture_output=True, text=True, env=environment
    )
    assert done.stdout == '{"failure": null}\n'
    assert done.stderr.count("noise") == 2


def test_a_job_expects_the_warning_of_its_time_limit_at_its_end(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    for name in ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    job = _make_batch_job(JobLimits(60, 60, 120, 0, 0))
    assert (job.id, job.restart, job.notice) == ("77", 0, 120)
    # Slurm may warn a minute early.
    assert math.isclose(job.limit_from - time.monotonic(), 3600 - 120 - 60, abs_tol=5)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        ("40", 40),
        ("2", None),
        ("41", None),
        ("-3", None),
        ("4.0", None),
        ("9" * 99, None),
    ],
)
def test_numbers_on_the_command_line_have_bounds(text, number):
    read = make_number_parser(3, 40)
    if number is None:
        with pytest.raises(argparse.ArgumentTypeError, match="must be from 3 to 40"):
            read(text)
    else:
        assert read(text) == number


@pytest.mark.parametrize("value", [None, {}, {"a": None}])
def test_empty_settings_are_none(value):
    assert settings._drop_none(value, "x") == {}
    assert settings._drop_none({"a": 1, 2: 0, "b": None}, "x") == {"a": 1, "2": 0}
    with pytest.raises(SpecError, match=r"x=\[1\] must hold settings"):
        settings._drop_none([1], "x")


@pytest.mark.parametrize(
    ("state", "said", "words", "style"),
    [
        ("failed", "1 of 2 \x1b settings", "preflight failed: 1 of 2 \\x1b settings", "red"),
        ("queued", "", "preflight queued", ""),
        ("passed", "", None, ""),
    ],
)
def test_a_preflight_that_has_not_passed_is_shown(monkeypatch, state, said, words, style):
    outcome = types.SimpleNamespace(state=state, said=said)
    monkeypatch.setattr(status, "read_last_preflight", lambda folder: (Path("/s/p.json"), outcome))
    shown = status._render_preflight(Path("/s"))
    if words is None:
        assert shown == []
    else:
        assert [text.plain for text in shown] == [words, "    /s/p.json\n"]
        assert (shown[0].style, shown[1].style) == (style, "dim")
    monkeypatch.setattr(status, "read_last_preflight", lambda folder: None)
    assert status._render_preflight(Path("/s")) == []


def test_expected_end_is_a_date_and_time_or_empty():
    now = datetime.datetime.now()
    shown = {
        (now + datetime.timedelta(minutes=minutes)).strftime("%a %d %b %H:%M")
        for minutes in (90, 91)
    }
    assert status._format_end_time(90 * 60) in shown
    assert status._format_end_time(1e300) == status._format_end_time(math.inf) == ""


def test_locked_runs_and_invalid_names_are_not_submitted(monkeypatch, tmp_path, capsys):
    locked, free = tmp_path / "a", tmp_path / "b"
    runs = {
        one: types.SimpleNamespace(spec=types.SimpleNamespace(title=one.name))
        for one in (locked, free)
    }
    seen = []

    def initialize(items, silent):
        seen.extend(folder for folder, _ in items)
        return {free: runs[free]}, {locked: "process 3 runs it"}

    monkeypatch.setattr(launch, "initialize_runs", initialize)
    assert launch._set_up_folders(runs) == {free: runs[free]} and seen == [locked, free]
    assert capsys.readouterr().out == "Not submitted: a: process 3 runs it.\n"
    assert launch._path_exists(tmp_path) and not launch._path_exists(locked)
    assert launch._path_exists(tmp_path / ("a" * 300)) is False


def test_runs_are_counted_and_only_those_that_are_left_are_submitted(monkeypatch, tmp_path, capsys):
    runs = {
        tmp_path / name: types.SimpleNamespace(spec=types.SimpleNamespace(endpoint="final"))
        for name in ("new", "completed", "running", "failed", "bare")
    }
    for folder in runs:
        if folder.name != "new":
            folder.mkdir()
        if folder.name not in ("new", "bare"):
            (folder / "run.json").touch()
    checked = []
    monkeypatch.setattr(launch, "query_runs", lambda folders: "queue")
    monkeypatch.setattr(launch, "check_slurm_answered", lambda *given: checked.append(given))
    monkeypatch.setattr(
        launch, "assess_run", lambda folder, queue: types.SimpleNamespace(state=folder.name)
    )
    monkeypatch.setattr(
        launch,
        "describe_complete_runs",
        lambda specs: [f"{folder.name}: {spec.endpoint}" for folder, spec in specs.items()],
    )
    left = launch.select_runs(runs, dry_run=False)
    assert [folder.name for folder in left] == ["new", "failed", "bare"]
    first, second = capsys.readouterr().out.splitlines()
    assert first == "5 runs: 1 completed, 1 running, 1 failed, 2 new."
    assert second == "completed: final" and len(checked) == 1
    monkeypatch.setattr(launch, "describe_complete_runs", lambda ends: [])
    assert launch.select_runs(runs, dry_run=True) == left and len(checked) == 1
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_preflight_that_slurm_refuses_leaves_no_outcome(monkeypatch, tmp_path):
    def refuse(record, array, given, job):
        assert json.loads((record.folder / launch.PREFLIGHT_FILE).read_text())["state"] == "queued"
        raise RunsFailedError("refused")

    monkeypatch.setattr(launch, "submit_job", refuse)
    given = load_settings("default", {})
    with pytest.raises(RunsFailedError, match="refused"):
        launch.submit_preflight(tmp_path, [support.spec()], given, PreflightOptions(processes=1))
    assert list(tmp_path.rglob("*.json")) and not list(tmp_path.rglob(launch.PREFLIGHT_FILE))


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (15, "SIGTERM"), (40, "signal 40")])
def test_signals_except_real_time_ones_have_names(number, name):
    assert format_signal_name(number) == name


def test_unstartable_run_is_named_and_the_next_one_started(monkeypatch, tmp_path, capsys):
    job = requeueable_job.RunJob(JobLimits(30, 60, 60, 1, 1))
    readings = {
        "done": types.SimpleNamespace(reason="", spec={}),
        "odd": types.SimpleNamespace(reason="corrupted", spec={}),
        "left": types.SimpleNamespace(reason="pending", spec={}),
    }
    monkeypatch.setattr(requeueable_job, "read_run", lambda folder: readings[folder.name])
    monkeypatch.setattr(requeueable_job, "_is_runnable", lambda folder: folder.name == "left")
    monkeypatch.setattr(requeueable_job, "spec_from_dict", lambda spec: "a spec")
    monkeypatch.setattr(requeueable_job, "find_last_checkpoint", lambda folder: None)

    def fail(*given):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(requeueable_job, "RunProcess", fail)
    for name, words in (("done", "complete already"), ("odd", "corrupted")):
        assert job._run_folder(tmp_path / name, None) is None
        assert capsys.readouterr().out == f"{tmp_path / name}: {words}\n"
    failure = job._run_folder(tmp_path / "left", None)
    assert failure.startswith("it cannot be started: ") and "Too many open files" in failure
    assert capsys.readouterr().out == f"{tmp_path / 'left'}: {failure}\n"
    assert job._current == ""


@pytest.mark.parametrize(("state", "waits"), [("completed", []), ("interrupted", [1])])
def test_a_job_whose_run_was_interrupted_waits_for_its_kill(
    monkeypatch, tmp_path, capsys, state, waits
):
    slept, wait_calls = [], []
    ended = iter([False, False, True])
    outcome = types.SimpleNamespace(status=state, failure=None)
    process = types.SimpleNamespace(
        wait=lambda seconds: wait_calls.append(seconds) or next(ended), outcome=lambda: outcome
    )
    job = requeueable_job.RunJob(JobLimits(30, 60, 60, 1, 1))
    reading = types.SimpleNamespace(reason="pending", spec={})
    for name, value in {
        "read_run": lambda folder: reading,
        "_is_runnable": lambda folder: True,
        "spec_from_dict": lambda spec: "a spec",
        "find_last_checkpoint": lambda folder: None,
        "RunProcess": lambda *given: process,
        "time": types.SimpleNamespace(sleep=slept.append, monotonic=time.monotonic),
    }.items():
        monkeypatch.setattr(requeueable_job, name, value)
    assert job._run_folder(tmp_path, None) is None
    assert (len(slept), len(wait_calls), job._current) == (len(waits), 3, "")
    assert capsys.readouterr().out == f"{tmp_path}: {state} \n"


@pytest.mark.parametrize(
    ("changes", "minutes", "is_named"),
    [
        ({}, 60, True),
        ({}, 61, False),
        ({}, 59, True),
        ({"state": "interrupted"}, 60, False),
        ({"resume_step": 0}, 60, False),
        ({"folder": Path("/other/task/seed=0")}, 60, False),
    ],
)
def test_only_timed_out_runs_without_more_time_are_named(
    monkeypatch, capsys, changes, minutes, is_named
):
    monkeypatch.setattr(resubmit, "_find_time_limit", lambda folder, algorithm, records: 60)
    given = {"state": "timeout", "resume_step": None, "folder": Path("/study/task/seed=0")}
    run = RunState(**(given | changes))
    spec = types.SimpleNamespace(algorithm="ppo")
    new = types.SimpleNamespace(get_minutes=lambda name: minutes, get_time_limit=lambda name: "1 h")
    resubmit._print_limits({run: spec}, {Path("/study"): []}, {Path("/study"): new})
    words = "1 runs were stopped at their time limit and get no more time than before: 1 with 1 h"
    assert (words in capsys.readouterr().out) == is_named


def test_constants_and_defaults_change_on_purpose_only():
    assert compare_with_stored("slurm") == []


def test_array_requests_the_configured_resources(tmp_path, capsys):
    settings = load_settings("default", {"qos": "long", "signal_seconds": 9, "setup": ["module x"]})
    resources = JobResources("ppo", run_minutes=10, runs_per_job=2, cpus=3, mem_gb=1.5)
    array = JobArray(resources, (tuple(tmp_path / f"seed={i}" for i in range(2)),), 4)
    record = a_record(tmp_path, "study-1", array.elements, job_id="77")
    assert submit._make_parameters(record, array, settings) == {
        **{"qos": "long", "setup": ["module x"], "job_name": "study-1", "time": 20},
        **{"mem": "1536M", "cpus_per_task": 3, "signal_delay_s": 9, "array_parallelism": 4},
        **{"stderr_to_stdout": True, "wckey": None, "srun_args": ["--cpus-per-task=3"]},
        "additional_parameters": {"requeue": True, **settings.sbatch},
    }
    short = JobArray(JobResources("ppo", 1, 1, 1, 1.0), array.elements, 0)
    late = dataclasses.replace(settings, signal_seconds=60)
    assert submit._make_parameters(record, short, late)["signal_delay_s"] == 15
    launch._print_submitted([record], tmp_path)
    assert capsys.readouterr().out.splitlines() == [
        "Job 77: 2 runs in 1 jobs, study-1",
        f"    logs of its jobs: {record.folder}",
        f"See their state:  parallax status {tmp_path} --watch",
        f"Cancel them:      parallax slurm cancel {tmp_path}",
    ]
    name = create_record(tmp_path / ("é b" * 20), array, settings).name
    assert re.fullmatch(r"(é_b){13}é-ppo-[0-9a-f]{8}", name)
    launch._print_submitted([], tmp_path)
    assert capsys.readouterr().out == "Nothing to submit.\n"
