"""Parts of submission, watching and preflight, without Slurm."""

import argparse
import dataclasses
import math
import os
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import pytest
import support
from slurm_fakes import FakeSlurm, a_record

from parallax.harness.contract.recipes import load_recipe
from parallax.slurm import commands, states, submit
from parallax.slurm.arrays import JobArray, JobResources
from parallax.slurm.preflight import PreflightOptions, _TrialWorker, read_preflight_options
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


def test_a_status_that_is_not_watched_looks_once(monkeypatch, tmp_path):
    looks = []
    monkeypatch.setattr(
        states, "survey_runs", lambda *_: looks.append(1) or ([], SlurmQueue({}, ()))
    )
    options = argparse.Namespace(files=False, json=False, watch=False, folder=tmp_path, list=20)
    assert commands.run_status(options) == 0 and looks == [1]


def test_the_end_of_a_process_is_explained_by_its_last_words():
    worker = object.__new__(_TrialWorker)
    worker._process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    with tempfile.TemporaryFile() as worker._log:
        assert worker._describe_end() == "it ended without a word"
        worker._log.write(b"first\nlast words\n")
        assert worker._describe_end() == "last words"
        worker._log.write(b"x" * 5000)
        assert worker._describe_end() == "x" * 4096
    worker._process.wait()


def test_a_folder_without_a_record_was_never_resumed(tmp_path):
    found = assess_run(tmp_path / "s" / "seed=3")
    assert (found.resumptions, found.resumed_from, found.step, found.steps) == (0, None, 0, 0)


def test_one_setting_at_a_time_may_be_tried():
    assert read_preflight_options(True, 1, 60) == PreflightOptions("here", 1, 60.0)


def test_the_first_rollout_of_a_framework_and_task_is_tried_in_full():
    changes = {"steps": 10**5, "eval_every": 10**4}
    recipes = {"learning_rate": 0.1}, {"learning_rate": 0.2}
    first, second = make_trials([support.spec(hyperparameters=one, **changes) for one in recipes])
    rollout = first.prepared.spec.hyperparameters.rollout_steps
    assert first.is_full_rollout and not second.is_full_rollout
    assert first.prepared.native.total_steps == rollout == 2048
    assert second.prepared.native.total_steps < 2048


@pytest.mark.parametrize(("every", "n_envs", "shortened"), [(10, 4, 6), (3, 4, 3), (64, 1, 1)])
def test_a_shorter_cycle_has_a_step_of_each_environment_and_the_same_remainder(
    every, n_envs, shortened
):
    hp = dataclasses.replace(load_recipe("dqn", "sb3"), train_freq=every)
    found, steps = shorten_hyperparameters(hp, n_envs)
    assert found.train_freq == shortened and steps % shortened == 0
    assert found.train_freq % n_envs == every % n_envs


def test_scontrol_is_asked_where_squeue_does_not_answer(tmp_path, monkeypatch):
    fake = FakeSlurm(tmp_path / "bin", monkeypatch)
    fake.write("scontrol", "")
    record = a_record(tmp_path / "lab", "lab-ppo-1", [[tmp_path / "lab" / "seed=0"]])
    assert query_slurm([record]).asked == ("scontrol",)
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


def test_what_a_trial_prints_does_not_mix_with_the_answers():
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
