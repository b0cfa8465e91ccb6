"""One command queues a sweep and returns; the results are those of the local launcher."""

import os

import pytest
from sweep_testbed import SWEEP, SweepTestbed, wait_until

RUNS = ["algorithm=ppo,td3", "seed=0,1,2"]  # two runs in a job, and one that is left
SLURM = ["hydra/launcher=slurm", "hydra.launcher.runs_per_job=2", "hydra.launcher.mem_gb=1"]


def test_queued_sweep_equals_one_on_a_single_machine(tmp_path, cluster):
    testbed, local = SweepTestbed(tmp_path / "queued", cluster), SweepTestbed(tmp_path / "local")
    for one in (testbed, local):
        one.order("go")
    check_dry_run(testbed.sweep("hydra.launcher.dry_run=true", *SLURM, *RUNS))
    assert not testbed.results.exists()
    assert "2 settings took one step" in testbed.sweep(*SLURM, *RUNS)
    local.sweep(*RUNS)
    wait_until(lambda: testbed.status()["counts"]["completed"] == 6, patience=120, pause=0.4)
    assert len(testbed.evaluations()) == 6
    assert testbed.evaluations() == local.evaluations()
    assert testbed.files() == local.files()
    text = testbed.sweep(*SLURM, *RUNS)
    assert "6 runs: 6 completed." in text and "Nothing to submit." in text
    assert "6 completed" in testbed.python("parallax", "status", str(testbed.results))


def check_dry_run(text):
    assert text.count("#SBATCH --array=0-1%2") == 2
    assert "#SBATCH --time=2880" in text  # two runs of PPO in a job, 24 h each
    assert text.count("/seed=2") == 2
    assert "Dry run: 4 jobs in 2 arrays would be submitted" in text


@pytest.mark.long
def test_queued_and_running_runs_are_not_submitted_again(tmp_path, cluster):
    testbed = SweepTestbed(tmp_path, cluster)
    runs = ["algorithm=ppo", "seed=0,1,2,3,4,5,6,7,8,9", "hydra.launcher.parallelism=4"]
    command = [*SLURM[:1], *runs, "hydra.launcher.preflight=false"]
    assert testbed.sweep(*command).count("5 runs in 5 jobs") == 2  # no array may be larger
    wait_until(lambda: testbed.status()["counts"]["running"] == 4, pause=0.4)
    wait_until(lambda: len(list(testbed.orders.glob("beats-*"))) == 4)
    assert testbed.status()["counts"]["queued"] == 6
    again = testbed.sweep(*command)
    assert "4 running, 6 queued" in again.replace("6 queued, 4 running", "4 running, 6 queued")
    assert "Nothing to submit." in again
    assert "Nothing to submit." in testbed.python(
        "parallax", "slurm", "resubmit", str(testbed.results), "--yes"
    )
    text = testbed.python("parallax", "slurm", "cancel", str(testbed.results), "--yes")
    assert "10 jobs were cancelled." in text
    wait_until(lambda: not testbed.queue())
    counts = testbed.status()["counts"]
    assert (counts["interrupted"], counts["pending"]) == (4, 6)


def test_refused_array_is_reported_with_slurms_message(tmp_path, cluster):
    testbed = SweepTestbed(tmp_path, cluster)
    where = f"results_dir={testbed.results}"
    options = ["hydra.launcher.preflight=false", "hydra.launcher.partition=nowhere"]
    command = [
        "parallax",
        "train",
        "--multirun",
        *SWEEP,
        where,
        SLURM[0],
        *options,
        "algorithm=ppo,td3",
    ]
    result = testbed.call(*command)
    assert result.returncode == 1
    assert "invalid partition" in result.stderr and "0 runs are queued" in result.stderr
    assert testbed.status()["counts"]["pending"] == 2


def test_nothing_is_resubmitted_while_slurm_does_not_answer(tmp_path, cluster):
    testbed = SweepTestbed(tmp_path, cluster)
    command = [SLURM[0], "hydra.launcher.preflight=false", "+hydra.launcher.sbatch.hold=true"]
    testbed.sweep(*command, "algorithm=ppo", "seed=0")
    path = testbed.environment["PATH"]
    testbed.environment["PATH"] = f"{silent_commands(tmp_path)}{os.pathsep}{path}"
    result = testbed.call("parallax", "slurm", "resubmit", str(testbed.results), "--yes")
    assert (result.returncode, testbed.status()["answered"]) == (1, [])
    assert "Slurm does not answer here" in result.stderr
    testbed.environment["PATH"] = path
    assert testbed.status()["counts"]["queued"] == 1
    testbed.python("parallax", "slurm", "cancel", str(testbed.results), "--yes")


def silent_commands(folder):
    for name in ("squeue", "scontrol", "sacct"):
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / "bin" / name).chmod(0o755)
    return folder / "bin"


def test_mistyped_setting_never_reaches_the_queue(tmp_path, cluster):
    testbed = SweepTestbed(tmp_path, cluster)
    testbed.order("raise")
    where = f"results_dir={testbed.results}"
    command = [
        "parallax",
        "train",
        "--multirun",
        *SWEEP,
        where,
        *SLURM,
        "algorithm=ppo",
        "seed=0,1",
    ]
    result = testbed.call(*command)
    assert result.returncode == 2
    assert "1 of 1 settings cannot take a single step" in result.stderr
    assert "the stand-in was ordered to fail" in result.stderr
    assert not testbed.results.exists() and not testbed.queue()
