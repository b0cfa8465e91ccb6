"""Trials of a preflight, and its end in all cases."""

import dataclasses
import os
import signal
import time

import pytest
import support
from sweep_testbed import SWEEP, SweepTestbed, wait_until

from parallax.adapters.sb3 import SB3Adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.sweep.sweep import initialize_run
from parallax.slurm.preflight import (
    CLUSTER,
    HERE,
    PreflightOptions,
    _TrialWorker,
    estimate_cost,
    read_preflight_options,
    run_preflight,
)
from parallax.slurm.preflight_trials import make_trials, shorten_hyperparameters

SLURM = ["hydra/launcher=slurm", "hydra.launcher.preflight_processes=1"]
RECIPES = ("original", "sb3", "cleanrl", "torchrl")


def command(testbed, *arguments):
    where = f"results_dir={testbed.results}"
    return ["parallax", "train", "--multirun", *SWEEP, where, *SLURM, *arguments]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def processes_of(testbed, key):
    return [int(file.name.rpartition("-")[2]) for file in testbed.orders.glob(f"beats-{key}-*")]


@pytest.mark.long
def test_hanging_setting_is_named_and_later_ones_are_tried(tmp_path):
    testbed = SweepTestbed(tmp_path)
    testbed.order("go", "ppo-0")
    testbed.order("raise", "sac-0")  # td3 gets no order to continue
    result = testbed.call(
        *command(testbed, "algorithm=ppo,td3,sac", "hydra.launcher.preflight_seconds=12")
    )
    assert result.returncode == 2, result.stderr
    assert "Preflight of 3 settings: about " in result.stderr
    assert "2 of 3 settings cannot take a single step" in result.stderr
    name = "standin {} parallax.envs.scripted:ParallaxScripted-v0 sb3 alignment=exact: "
    assert name.format("td3") + "did not take a step within 12 s" in result.stderr
    assert name.format("sac") + "RuntimeError: the stand-in was ordered to fail" in result.stderr
    assert name.format("ppo") not in result.stderr
    assert not any(map(is_alive, processes_of(testbed, "td3-0")))
    assert processes_of(testbed, "ppo-0") != processes_of(testbed, "sac-0")


@pytest.mark.long
def test_setting_that_kills_its_process_is_the_only_failure(tmp_path):
    testbed = SweepTestbed(tmp_path)
    testbed.order("go", "td3-0")
    process = testbed.start(*command(testbed, "algorithm=ppo,td3"))
    wait_until(lambda: processes_of(testbed, "ppo-0"))
    os.kill(processes_of(testbed, "ppo-0")[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=100)
    assert "1 of 2 settings cannot take a single step" in errors
    assert (
        "ppo parallax.envs.scripted:ParallaxScripted-v0 sb3 alignment=exact: ended the process: "
        in errors
    )
    assert "killed by SIGKILL" in errors


def test_interrupted_preflight_leaves_no_process(tmp_path):
    testbed = SweepTestbed(tmp_path)
    process = testbed.start(*command(testbed, "algorithm=ppo,td3"))
    wait_until(lambda: processes_of(testbed, "ppo-0"))
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < 20
    assert (process.returncode, "Traceback" in errors) == (130, False), errors
    assert not any(map(is_alive, processes_of(testbed, "ppo-0")))


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ((True, 1, 60), PreflightOptions(HERE, 1, 60.0)),
        ((True, -1, 5), PreflightOptions(HERE, -1, 5.0)),
        (("cluster", 2, 1e6), PreflightOptions(CLUSTER, 2, 1e6)),
        ((False, -1, 60), None),
    ],
)
def test_preflight_options_are_parsed(given, options):
    assert (HERE, CLUSTER) == ("here", "cluster")
    assert read_preflight_options(*given) == options


@pytest.mark.parametrize(
    ("preflight", "processes", "seconds", "named"),
    [
        ("maybe", -1, 180, "preflight='maybe' must be true, false or cluster"),
        ("here", 2, 5, "preflight='here' must be true, false or cluster."),
        (1, -1, 180, "preflight=1 must be true, false or cluster"),
        (True, 0, 180, "preflight_processes=0 is not a number of settings at a time"),
        (True, -2, 180, "preflight_processes=-2 is not a number of settings at a time"),
        (True, -1, 0, "preflight_seconds=0.0 must be greater than 0"),
        (True, -1, float("nan"), "preflight_seconds=nan must be finite"),
        (True, -1, 1e6 + 1, "preflight_seconds=1000001.0 must be at most"),
        (False, -1, -5.0, "preflight_seconds=-5.0 must be greater than 0"),
    ],
)
def test_invalid_option_is_refused_by_name(preflight, processes, seconds, named):
    with pytest.raises(SpecError, match=f"hydra.launcher.{named}"):
        read_preflight_options(preflight, processes, seconds)


def outcome_of(worker):
    found = []
    wait_until(lambda: found.append(worker.poll()) or found[-1], patience=100)
    return found[-1]


@pytest.mark.long
def test_line_breaks_in_folder_names_and_unnamed_signals_are_handled(tmp_path):
    (trial, *_) = make_trials([support.spec("sb3", "td3")])
    folder = tmp_path / "a\nb"
    initialize_run(trial.prepared, folder)
    worker = _TrialWorker(trial)
    try:
        worker.begin(trial, folder, 100)
        assert outcome_of(worker).failure is None
        os.kill(worker._process.pid, signal.SIGRTMIN + 6)
        assert f"killed by signal {signal.SIGRTMIN + 6}" in outcome_of(worker).failure
    finally:
        worker.end()


def test_unusable_temporary_folder_is_named(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/tmp/\udcff")
    with pytest.raises(SpecError, match=r"TMPDIR='/tmp/.*udcff' is not UTF-8"):
        run_preflight([support.spec()])


def thesis(**changes):
    return [
        support.spec(framework, algorithm, hps, seed=seed, **{"steps": 10**6, "eval_every": 10**4})
        for framework in ("sb3", "cleanrl", "torchrl")
        for algorithm in ("ppo", "td3", "sac")
        for hps in RECIPES
        for seed in (0, 1)
    ]


def test_every_setting_is_tried_once_and_updates_every_network():
    trials = make_trials(thesis())
    named = [name for trial in trials for name in trial.settings]
    assert len(named) == len(set(named)) == 36
    assert sum(trial.is_full_rollout for trial in trials) == 3
    for trial in trials:
        update_schedule, spec = trial.prepared.native.update_schedule, trial.prepared.spec
        assert update_schedule.total_gradient_steps >= 1 and update_schedule.policy_updates >= 1, (
            trial.settings
        )
        assert trial.prepared.native.total_steps <= (2048 if trial.is_full_rollout else 128)
        assert getattr(spec.hyperparameters, "buffer_size", 0) <= 1000
        # One evaluation, after the end, whatever a framework rounds.
        assert spec.eval_every == spec.steps == trial.prepared.native.total_steps
    assert estimate_cost(trials, 2)[0] == 2 * estimate_cost(trials, 2)[1] > 0


def test_framework_that_cannot_be_shortened_is_evaluated_once(monkeypatch):
    def refuse(hyperparameters, n_envs):
        return dataclasses.replace(hyperparameters, hidden_sizes=(7, 8)), 1

    monkeypatch.setattr("parallax.slurm.preflight_trials.shorten_hyperparameters", refuse)
    changes = {"train_freq": 500, "policy_learning_rate": 0.001}
    run = support.spec("sb3", "td3", hyperparameters=changes, alignment="exact", steps=10**6)
    translate = SB3Adapter.translate

    def refuse_odd_networks(self, algorithm, hyperparameters, context):
        if hyperparameters.hidden_sizes == (7, 8):
            raise SpecError("no")
        return translate(self, algorithm, hyperparameters, context)

    monkeypatch.setattr(SB3Adapter, "translate", refuse_odd_networks)
    (trial,) = make_trials([run])
    assert trial.prepared.spec.eval_every == trial.prepared.native.total_steps == 500


def test_settings_that_are_not_shortened_are_unchanged():
    (run, *_) = [s for s in thesis() if (s.framework, s.algorithm, s.hps) == ("sb3", "td3", "sb3")]
    (trial,) = make_trials([run])
    settings = trial.prepared.native.settings
    assert (settings["batch_size"], settings["learning_rate"], settings["tau"]) == (
        256,
        0.001,
        0.005,
    )
    assert trial.settings == ("sb3 td3 InvertedPendulum-v4 sb3",)


@pytest.mark.parametrize(("rollout", "minibatch"), [(2048, 64), (2000, 64), (64, 64), (100, 256)])
@pytest.mark.parametrize("n_envs", [1, 4, 8])
def test_shorter_rollout_leaves_the_same_remainders(rollout, minibatch, n_envs):
    changes = {"rollout_steps": rollout, "minibatch_size": minibatch}
    values = {"alignment": "exact", "n_envs": n_envs, "steps": 10_000}
    hp = support.spec(hyperparameters=changes, **values).hyperparameters
    short, steps = shorten_hyperparameters(hp, n_envs)
    assert short.rollout_steps == steps <= rollout
    assert (rollout - steps) % minibatch == (rollout - steps) % n_envs == 0


def test_job_tries_everything_before_the_arrays_start(tmp_path, cluster):
    testbed = SweepTestbed(tmp_path, cluster)
    option = ["hydra.launcher.preflight=cluster", "hydra.launcher.mem_gb=1"]
    text = testbed.sweep(*SLURM, *option, "algorithm=ppo,td3", "seed=0,1")
    assert "preflight of 4 runs, which the others wait for" in text
    (file,) = testbed.results.glob("testbed/slurm/testbed-preflight-*/preflight.json")
    wait_until(lambda: processes_of(testbed, "ppo-0"))
    states = testbed.status()["counts"]
    assert (states["queued"], states["running"]) == (4, 0)
    testbed.order("go")
    wait_until(lambda: testbed.status()["counts"]["completed"] == 4, patience=120, pause=0.4)
    assert '"passed"' in file.read_text() and "2 settings took one step each" in file.read_text()
    assert "preflight" not in testbed.python("parallax", "status", str(testbed.results))


@pytest.mark.long
def test_failed_preflight_cancels_the_arrays_and_status_names_the_reason(tmp_path, cluster):
    testbed = SweepTestbed(tmp_path, cluster)
    testbed.order("go", "td3-0")
    testbed.order("raise", "ppo-0")
    option = ["hydra.launcher.preflight=cluster", "hydra.launcher.mem_gb=1"]
    testbed.sweep(*SLURM, *option, "algorithm=ppo,td3", "seed=0")
    wait_until(lambda: not testbed.queue(), patience=120)
    assert testbed.status()["counts"]["pending"] == 2
    text = testbed.python("parallax", "status", str(testbed.results))
    assert "preflight failed: 1 of 2 settings cannot take a single step" in text
    assert (
        "standin ppo parallax.envs.scripted:ParallaxScripted-v0 sb3 alignment=exact: RuntimeError"
        in text
    )
    testbed.order("go", "ppo-0")
    testbed.python(
        "parallax", "slurm", "resubmit", str(testbed.results), "--yes"
    )  # it waits for nothing
    wait_until(lambda: testbed.status()["counts"]["completed"] == 2, patience=120, pause=0.4)
