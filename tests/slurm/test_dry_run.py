"""A dry run is short enough to be read."""

import pytest
from support import spec
from sweep_testbed import SWEEP, SweepTestbed

from parallax.slurm.launch import launch_sweep
from parallax.slurm.settings import load_settings


def dry_run(tmp_path, capsys, seeds, **options):
    specs = [spec(algorithm=name, hps="sb3", seed=s) for name in ("ppo", "sac") for s in seeds]
    wanted = load_settings("default", {"runs_per_job": 2})
    launch_sweep(specs, tmp_path / "results", wanted, dry_run=True, **options)
    return capsys.readouterr().out


def test_each_array_is_shown_with_its_first_runs_and_its_last(tmp_path, capsys):
    output = dry_run(tmp_path, capsys, range(20))
    assert output.count("#SBATCH --array=0-9%10") == 2
    assert output.count("# 10 jobs, 20 runs, each after the index of its job:\n") == 2
    for algorithm in ("ppo", "sac"):
        lines = [line for line in output.splitlines() if f"/{algorithm}/sb3/" in line]
        shown = [(line.split()[1], line.rpartition("=")[2]) for line in lines]
        assert shown == [("0:", "0"), ("0:", "1"), ("1:", "2"), ("9:", "19")]
    assert output.count("# ... 16 more runs\n") == 2
    assert "Dry run: 20 jobs in 2 arrays would be submitted; nothing was." in output


def test_all_runs_are_listed_on_request_or_if_few(tmp_path, capsys):
    output = dry_run(tmp_path, capsys, range(20), every_run=True)
    assert output.count("/seed=") == 40 and "more runs" not in output
    output = dry_run(tmp_path, capsys, range(5))
    assert output.count("/seed=") == 10 and "more runs" not in output


@pytest.mark.parametrize(
    ("value", "runs", "words"),
    [
        ("true", 4, "hydra.launcher.dry_run=full names every run."),
        ("full", 8, "Dry run: 8 jobs in 1 arrays"),
        ("maybe", 0, "hydra.launcher.dry_run='maybe' must be true, false, or full"),
    ],
)
def test_command_line_takes_true_and_full(tmp_path, value, runs, words):
    testbed = SweepTestbed(tmp_path)
    launcher = ["hydra/launcher=slurm", f"hydra.launcher.dry_run={value}"]
    arguments = ["--multirun", *SWEEP, *launcher, "algorithm=ppo", "seed=0,1,2,3,4,5,6,7"]
    where = f"results_dir={testbed.results}"
    result = testbed.call("parallax", "train", *arguments, where)
    assert result.returncode == (0 if runs else 2)
    assert words in result.stdout + result.stderr and result.stdout.count("/seed=") == runs
    assert not testbed.results.exists()
