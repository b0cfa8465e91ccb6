"""One command queues a sweep and returns; the results are those of the local launcher."""

import sys
import time

import pytest
from slurm_lab import SWEEP, Lab, wait_until

RUNS = ["algorithm=ppo,td3,sac", "seed=0,1,2,3,4,5,6,7"]
SLURM = ["hydra/launcher=slurm", "hydra.launcher.runs_per_job=2", "hydra.launcher.mem_gb=1"]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("local"))
    lab.order("go")
    lab.sweep(*RUNS)
    return lab


@pytest.fixture(scope="module")
def queued(tmp_path_factory, cluster):
    """A sweep that was sent, and what the command printed; the runs wait for their orders."""
    lab = Lab(tmp_path_factory.mktemp("queued"), cluster)
    (lab.orders / "all").write_text("go")  # for the preflight
    first = lab.sweep("hydra.launcher.dry_run=true", *SLURM, *RUNS)
    assert not lab.results.exists()
    text = lab.sweep(*SLURM, *RUNS)
    return lab, first, text


def test_dry_run_shows_scripts_and_runs(queued):
    _, dry, text = queued
    assert dry.count("#SBATCH --array=0-3%4") == 3
    assert "#SBATCH --time=2880" in dry  # two runs of TD3 in a job, 24 h each
    assert dry.count("/seed=7") == 3
    assert "Dry run: 12 jobs in 3 arrays would be submitted" in dry
    assert "3 settings took one step" in text


def test_sweep_is_the_same_as_on_one_machine(queued, local):
    lab = queued[0]
    wait_until(lambda: lab.status()["counts"]["completed"] == 24, patience=120)
    assert lab.evaluations() == local.evaluations()
    assert len(lab.evaluations()) == 24
    assert lab.files() == local.files()
    text = lab.sweep(*SLURM, *RUNS)
    assert "24 runs: 24 completed." in text and "Nothing to submit." in text
    assert "24 completed" in lab.python("slurm", "status", str(lab.results))


def test_runs_that_wait_or_run_are_not_sent_twice(tmp_path, cluster):
    lab = Lab(tmp_path, cluster)
    started = time.monotonic()
    runs = ["algorithm=ppo", "seed=0,1,2,3,4,5,6,7,8,9", "hydra.launcher.parallelism=4"]
    command = [*SLURM[:1], *runs, "hydra.launcher.preflight=false"]
    assert "10 runs in 10 jobs" in lab.sweep(*command)
    returned = time.monotonic() - started
    wait_until(lambda: lab.status()["counts"]["running"] == 4)
    wait_until(lambda: len(list(lab.orders.glob("beats-*"))) == 4)
    assert lab.status()["counts"]["queued"] == 6
    again = lab.sweep(*command)
    assert "4 running, 6 queued" in again.replace("6 queued, 4 running", "4 running, 6 queued")
    assert "Nothing to submit." in again
    assert "Nothing to submit." in lab.python("slurm", "resubmit", str(lab.results), "--yes")
    text = lab.python("slurm", "cancel", str(lab.results), "--yes")
    assert "10 jobs were cancelled." in text
    wait_until(lambda: not lab.queue())
    counts = lab.status()["counts"]
    assert (counts["interrupted"], counts["pending"]) == (4, 6)
    assert returned < 60  # nothing was waited for


def test_mistyped_setting_never_reaches_the_queue(tmp_path, cluster):
    lab = Lab(tmp_path, cluster)
    lab.order("raise")
    where = f"results_dir={lab.results}"
    command = ["harness", "--multirun", *SWEEP, where, *SLURM, "algorithm=ppo", "seed=0,1"]
    result = lab.ask(sys.executable, "-m", *command)
    assert result.returncode == 2
    assert "1 of 1 settings cannot take a single step" in result.stderr
    assert "the stand-in was told to fail" in result.stderr
    assert not lab.results.exists() and not lab.queue()
