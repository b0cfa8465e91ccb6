"""The command line, as a user meets it: in a process of its own."""

import itertools
import json
import math
import os
import pickle
import signal

import forked
import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf
from sweep_testbed import SWEEP, SweepTestbed, wait_until

from parallax.harness.cli.hydra_app import register_config_groups
from parallax.harness.cli.sweep_composer import compose_sweep_specs
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
from parallax.harness.sweep.progress import estimate_remaining_seconds
from parallax.harness.train.prepare import prepare_run

TINY = ["hyperparameters.rollout_steps=128", "steps=256", "eval_every=128", "eval_episodes=2"]


def harness(*arguments, cwd=None):
    return forked.run("parallax", "train", *arguments, cwd=cwd)


def statuses(folder):
    runs = [json.loads(path.read_text()) for path in folder.rglob("run.json")]
    return sorted(run["status"] for run in runs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["alignment=thesis"], "alignment=thesis was renamed: use alignment=common"),
        (["env=Hoper-v4"], "env=Hoper-v4 is not known. Did you mean Hopper-v4?"),
        (["env=Blackjack-v1"], "For any other gymnasium task, use env.name=Blackjack-v1."),
        (["--multirun", "env=Ant-v4,Blackjack-v1"], "use env.name=Blackjack-v1."),
        (
            ["env.name=CartPole-v1", "framework=torchrl", "algorithm=td3"],
            "CartPole-v1 has discrete actions, but algorithm=td3 of framework=torchrl supports",
        ),
        (["env.name=Hoper-v4"], "env=Hoper-v4 cannot be made"),
        (["env.name=Hopper-v3"], "env=Hopper-v3 cannot be made"),
        (["framework=sb33"], "framework=sb33 is not known. Did you mean sb3?"),
        (["algorithm=pp0"], "algorithm=pp0 is not known. Did you mean ppo?"),
        (["hps=orginal"], "hps=orginal is not known. Did you mean original?"),
        (["hps=sub/mine.yaml"], "own, use --config-dir FOLDER hps=mine, with its values in FOLDER"),
        (["hps=cpu"], "algorithm=ppo has no such recipe: hps=cpu is not known. Known: cleanrl"),
        (["study=thesi"], "Did you mean thesis?"),
        (["study=mine"], "For a study of your own, use study.name=mine."),
        (
            ["framework=sb3,cleanrl", "seed=1"],
            "To train one run per value: parallax train --multirun framework=sb3,cleanrl seed=1.\n",
        ),
        (["hyperparameters.hidden_sizes=8,8"], "in brackets: hyperparameters.hidden_sizes=[8,8]."),
        (["hyperparameters.gama=0.9"], "Did you mean hyperparameters.gamma?"),
        (["hyperparameters.foo=1"], "Hyperparameters of algorithm=ppo: learning_rate, "),
        (["framework=SB3"], "Did you mean sb3?"),
        (["framework=SB3", "--multirun", "algorithm=ppo"], "Did you mean sb3?"),
        (["framework=stable_baselines3"], "Did you mean sb3?"),
        (["algorithm=PPO"], "Did you mean ppo?"),
        (["hyperparameters.tau=0.9"], "tau is a hyperparameter of td3, sac, ddpg, dqn, r2d2 only"),
        (["+hyperparameters.tau=0.9"], "tau is a hyperparameter of td3, sac, ddpg, dqn, r2d2 only"),
        (["hyperparameters.gamma=2"], "hyperparameters.gamma=2.0 must be at most 1"),
        (["seed=-1"], "seed=-1 must be at least 0"),
        (["steps=0"], "steps=0 must be at least 1"),
        (["steps=100", "eval_every=101"], "eval_every=101 is longer than the run"),
        (["results_dir=/proc/none", *TINY], "cannot be written"),
        (["--multirun", "seed=0,0", *TINY], "names the same run more than once"),
        (["--multirun", "seed=0,-1", *TINY], "seed=-1 must be at least 0"),
        (["--multirun", *TINY, f"study.name=a,{'b' * 300}"], "must have at most 200 bytes"),
        (["--multirun", *TINY, "results_dir=a,b"], "results_dir=a,b cannot be swept"),
        (
            ["--multirun", *TINY, "hydra.launcher.n_jobs=0"],
            "hydra.launcher.n_jobs=0 is not a number",
        ),
        ([*TINY, "hydra.launcher.n_jobs=0"], "hydra.launcher.n_jobs=0 is not a number of runs"),
        (["--multirun", *TINY, "seed=range(0,0)"], "seed=range(0,0) holds no values"),
        (["n_envs=1000000000"], "n_envs=1000000000 is too large"),
        ([f"seed={'9' * 5000}"], "... is too large: a number may have 4,300 digits"),
        (["--multirun", f"seed=range(0,{'9' * 5000})"], "is too large: a number may have"),
        (
            [f"env.kwargs={{a:{'[' * 500}{']' * 500}}}"],
            "dictionaries can be nested about 100 levels",
        ),
        (["--multirun", "study=demo,default"], "study=... takes one name: each study has a grid"),
        ([*TINY, "hydra/launcher=slurm"], "=slurm starts sweeps only: add --multirun."),
        ([*TINY, "--dry-run", "hydra.launcher.n_jobs=0"], "n_jobs=0 is not a number of runs"),
        (["-m", *TINY, "--dry-run", "hydra.launcher.malloc=/no.so"], "launcher.malloc=/no.so"),
    ],
)
def test_bad_input_is_one_message_and_leaves_nothing(arguments, message, tmp_path):
    result = harness(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr and result.stderr.count("Error") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cwd"]


class Touch:
    """Makes a file when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch unpickled",)


@pytest.mark.parametrize("joint", ["=", " "])
def test_no_pickle_is_read_by_the_command_line(joint, tmp_path):
    (tmp_path / "config.pickle").write_bytes(pickle.dumps(Touch()))
    words = f"--experimental-rerun{joint}{tmp_path}/config.pickle".split()
    result = harness(*words, *TINY, cwd=tmp_path)
    assert result.returncode == 2
    assert "Error: --experimental-rerun runs code from a pickle file" in result.stderr
    assert not list(tmp_path.rglob("unpickled"))


def test_a_search_path_may_name_a_module_that_is_no_package(tmp_path):
    result = harness(*TINY, "--dry-run", "hydra.searchpath=[pkg://os]", cwd=tmp_path)
    assert result.returncode == 0 and "1 run: 1 new." in result.stdout


def test_sweep_runs_all_and_then_skips_all(tmp_path):
    arguments = ["--multirun", "framework=sb3,cleanrl", *TINY]
    first = harness(*arguments, cwd=tmp_path / "cwd")
    assert first.returncode == 0, first.stderr
    assert "2 runs: 2 completed" in first.stdout
    assert "Warning" not in first.stdout + first.stderr
    # Nothing but results is left in the user's folder.
    assert [path.name for path in (tmp_path / "cwd").iterdir()] == ["results"]
    again = harness(*arguments, cwd=tmp_path / "cwd")
    assert "2 runs: 2 skipped" in again.stdout


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGHUP, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_ctrl_c_and_a_closed_terminal_mark_runs_interrupted(number, tmp_path):
    testbed = SweepTestbed(tmp_path)  # its runs get no order to continue
    arguments = [*SWEEP, f"results_dir={testbed.results}", "algorithm=ppo", "seed=0,1,2"]
    process = testbed.start(
        "parallax", "train", "--multirun", *arguments, "hydra.launcher.n_jobs=2"
    )
    wait_until(lambda: testbed.beats("ppo-0") and testbed.beats("ppo-1"))
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Interrupted. Run the same command again" in errors
    assert statuses(tmp_path) == ["interrupted", "interrupted", "pending"]


def test_killed_process_is_a_failed_run(tmp_path):
    testbed = SweepTestbed(tmp_path)
    process = testbed.start(
        "parallax", "train", *SWEEP, f"results_dir={testbed.results}", "algorithm=ppo", "seed=0"
    )
    wait_until(lambda: testbed.beats("ppo-0"))
    os.kill(testbed.record("ppo-0")["pid"], signal.SIGKILL)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "killed by SIGKILL" in output and "Not complete: 1 failed" in errors
    assert statuses(tmp_path) == ["failed"]


def test_demo_names_runs_that_all_pass_their_checks():
    study, runs = "demo", 18
    register_config_groups()
    with hydra.initialize_config_module("parallax.harness.conf", version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", [f"study={study}"], RunMode.MULTIRUN)
        swept = OmegaConf.to_container(master.hydra.sweeper.params)
        choices = {name: str(value).split(",") for name, value in swept.items()}
        assert math.prod(map(len, choices.values())) == runs
        choices["framework"] = [f for f in choices["framework"] if f in find_adapter_entry_points()]
        axes = [[f"{name}={value}" for value in values] for name, values in choices.items()]
        jobs = [[f"study={study}", *job] for job in itertools.product(*axes)]
        specs, _ = compose_sweep_specs(loader, master, jobs)
    for spec in {(spec.framework, spec.algorithm): spec for spec in specs}.values():
        prepare_run(spec, load_adapter(spec.framework))


def test_remaining_time_uses_the_speed_of_the_same_kind_of_run():
    speeds = {("sb3", "ppo"): 100.0, ("sb3", "td3"): 10.0}
    assert estimate_remaining_seconds([("sb3", "ppo", 1000)], speeds, jobs=2) == 10
    assert (
        estimate_remaining_seconds([("sb3", "td3", 100), ("cleanrl", "td3", 100)], speeds, jobs=2)
        == 10
    )
    assert estimate_remaining_seconds([("torchrl", "sac", 100)], speeds, jobs=2) == 10
    assert estimate_remaining_seconds([("sb3", "ppo", 1000)], {}, jobs=2) is None
