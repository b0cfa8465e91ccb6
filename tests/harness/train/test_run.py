"""Files and records of runs after every kind of end."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import support

from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.events import BeforeOptimizerStep, EvaluationResult, TrainingEvents
from parallax.harness.contract.fields import SpecError
from parallax.harness.policies.loading import load_policy
from parallax.harness.policies.worker import (
    EvaluationConditions,
    evaluate_loaded_policy,
    get_recorded_returns,
    has_same_returns,
)
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.lock import RunLock
from parallax.harness.record.npz_files import StoredPolicy
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.monitor import BestPolicy, TrainingMonitor
from parallax.harness.train.prepare import PreparedRun, prepare_run
from parallax.harness.train.run import execute_run

PPO = {"rollout_steps": 128, "minibatch_size": 64, "epochs": 1}


def small(**changes):
    return support.spec(hyperparameters=PPO, **{"steps": 256, "eval_every": 100} | changes)


def test_run_folder_has_the_documented_files(tmp_path):
    folder, run = support.run(small(), tmp_path)
    assert sorted(file.name for file in folder.iterdir()) == [
        "evaluations.npz",
        "policy.npz",
        "run.json",
        "trace.parquet",
    ]
    assert folder == tmp_path.joinpath(
        "test", "InvertedPendulum-v4", "ppo", "sb3", "sb3", folder.parent.name, "seed=0"
    )
    assert run["status"] == "completed"
    assert run["steps"] == {"requested": 256, "scheduled": 256, "framework": 256, "taken": 256}
    assert run["native"]["n_steps"] == 128
    assert {row["field"] for row in run["alignment"]} == set(run["hyperparameters"])
    assert "stable_baselines3" in run["provenance"]["packages"]
    assert run["provenance"]["threads"]["OMP_NUM_THREADS"] == "1"
    assert run["timings"]["seconds"] > 0


def test_evaluations_have_the_layout_of_stable_baselines3(tmp_path):
    folder, _ = support.run(small(), tmp_path)
    with np.load(folder / "evaluations.npz") as file:
        assert set(file) == {"timesteps", "results", "ep_lengths"}
        # Every 100 steps, and always at the last step.
        assert file["timesteps"].tolist() == [100, 200, 256]
        assert file["results"].shape == file["ep_lengths"].shape == (3, 2)
        assert np.isfinite(file["results"]).all()


def test_trace_has_unwrapped_episodes_and_upstream_losses(tmp_path):
    folder, _ = support.run(small(wrappers="normalized"), tmp_path)
    trace = pd.read_parquet(folder / "trace.parquet")
    assert list(trace.columns) == ["step", "metric", "value"]
    assert {"loss/value", "policy/entropy", "episode/return"} <= set(trace["metric"])
    returns = trace[trace["metric"] == "episode/return"]["value"]
    lengths = trace[trace["metric"] == "episode/length"]["value"]
    # This task pays 1 a step; normalised rewards would not add up to the length.
    assert returns.tolist() == lengths.tolist()


def test_evaluating_more_often_changes_nothing(tmp_path):
    _, often = support.run(small(eval_every=16), tmp_path)
    _, rarely = support.run(small(eval_every=256), tmp_path)
    assert often["weights_sha256"] == rarely["weights_sha256"] is not None


def test_evaluating_the_untrained_policy_changes_nothing_else(tmp_path):
    spec = small()
    plain, plain_record = support.run(spec, tmp_path / "plain")
    wanted = dataclasses.replace(spec, evaluate_untrained=True, endpoint="auc")
    folder, record = support.run(wanted, tmp_path / "untrained")
    assert folder.relative_to(tmp_path / "untrained") == plain.relative_to(tmp_path / "plain")
    first, second = (np.load(path / "evaluations.npz") for path in (plain, folder))
    assert second["timesteps"].tolist() == [0, *first["timesteps"]]
    for name in ("results", "ep_lengths"):
        np.testing.assert_array_equal(second[name][1:], first[name])
    assert record["weights_sha256"] == plain_record["weights_sha256"]
    assert (record["spec"]["endpoint"], record["spec"]["evaluate_untrained"]) == ("auc", True)
    policy = load_policy(folder)
    found = evaluate_loaded_policy(policy, EvaluationConditions(spec.eval_episodes))
    assert has_same_returns(found, get_recorded_returns(policy))


def test_watching_a_run_does_not_change_it(tmp_path, monkeypatch):
    seen = []

    class Watched(TrainingMonitor):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.events.subscribe(BeforeOptimizerStep, lambda step: seen.append(self.steps))

    support.register(tmp_path / "site", support.PROJECT["entry-points"])
    monkeypatch.syspath_prepend(tmp_path / "site")
    _, alone = support.run(small(), tmp_path / "alone")
    monkeypatch.setattr("parallax.harness.train.run.TrainingMonitor", Watched)
    _, watched = support.run(small(), tmp_path / "watched")
    assert seen == [128, 128, 256, 256]  # two minibatches of each rollout
    assert watched["weights_sha256"] == alone["weights_sha256"]


def test_best_policy_is_saved_on_request(tmp_path):
    changes = {"steps": 512, "eval_every": 128}
    _, last = support.run(small(**changes), tmp_path)
    folder, best = support.run(small(**changes, save_policy="best"), tmp_path)
    policy = load_policy(folder)
    assert "save_policy=best" in folder.parent.name.split(",")
    means = policy.evaluations.results.mean(axis=1)
    # The latest of those that are equal.
    assert best["saved_evaluation"] == policy.evaluation == len(means) - 1 - np.argmax(means[::-1])
    assert has_same_returns(
        evaluate_loaded_policy(policy, EvaluationConditions()), get_recorded_returns(policy)
    )
    assert "saved_evaluation" not in last
    assert (best["weights_sha256"] == last["weights_sha256"]) == (
        best["saved_evaluation"] == len(means) - 1
    )


def test_best_policy_is_restored_from_a_checkpoint():
    events, learned = TrainingEvents(), [StoredPolicy({"w": np.array(float(n))}) for n in range(4)]
    one = BestPolicy(events, lambda: learned[one.state()["count"]])
    for mean in (1.0, 3.0):
        events.publish(EvaluationResult(np.array([mean, mean]), np.array([1, 1])))
    later = TrainingEvents()
    other = BestPolicy(later, lambda: learned[other.state()["count"]])
    other.load_state(one.state())
    for mean, best in ((2.0, 1), (3.0, 3)):
        later.publish(EvaluationResult(np.array([mean]), np.array([1])))
        assert other.evaluation == best == other.policy.weights["w"]


def test_seed_decides_the_weights(tmp_path):
    digests = [
        support.run(small(seed=seed, study=study), tmp_path)[1]["weights_sha256"]
        for study, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_complete_run_is_not_run_again(tmp_path):
    spec = small()
    folder, _ = support.run(spec, tmp_path)
    prepared = prepare_run(spec, load_adapter("sb3"))
    assert not initialize_run(prepared, folder)
    (folder / "evaluations.npz").write_bytes(b"broken")
    assert initialize_run(prepared, folder)
    assert read_run(folder).content["status"] == "pending"


def test_folder_of_another_run_is_never_overwritten(tmp_path):
    spec = small()
    folder, run = support.run(spec, tmp_path)
    (folder / "run.json").write_text(json.dumps(run | {"spec": run["spec"] | {"steps": 7}}))
    with pytest.raises(SpecError, match="holds a run with other settings"):
        initialize_run(prepare_run(spec, load_adapter("sb3")), folder)


class Broken:
    """Takes some steps, then does what it was made for."""

    def __init__(self, act):
        self.act = act

    def sources(self, algorithm):
        return {}

    def train(self, algorithm, native, context, make_env, monitor):
        monitor.attach(lambda batch: np.zeros((len(batch), 1), np.float32), dict)
        env = make_env()
        env.reset(seed=0)
        for _ in range(150):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        self.act(monitor)


def run_broken(act, tmp_path, scheduled=150):
    spec = small()
    real = prepare_run(spec, load_adapter("sb3"))
    native = dataclasses.replace(real.native, total_steps=scheduled)
    prepared = PreparedRun(
        spec, RunContext(real.context.task, 150, 0), real.hyperparameters, native
    )
    folder = tmp_path / "run"
    initialize_run(prepared, folder)

    def go():
        with RunLock.acquire(folder) as run_lock:
            return execute_run(prepared, Broken(act), RunFolder(run_lock))

    return folder, go


def fail(monitor):
    raise ZeroDivisionError("on purpose")


def end_python(monitor):
    raise SystemExit(0)


def interrupt(monitor):
    raise KeyboardInterrupt


def diverge(monitor):
    monitor.attach(lambda batch: np.full((len(batch), 1), np.nan, np.float32), dict)


@pytest.mark.parametrize(
    ("act", "reason"), [(fail, "ZeroDivisionError: on purpose"), (end_python, "SystemExit: 0")]
)
def test_exception_leaves_a_failed_run_with_its_reason(tmp_path, capsys, act, reason):
    folder, go = run_broken(act, tmp_path)
    assert go() == "failed"
    assert f"in {act.__name__}\n" in capsys.readouterr().err  # the log has the traceback
    run = read_run(folder).content
    assert (run["status"], run["steps"]["taken"]) == ("failed", 150)
    assert run["failure"] == reason
    assert read_run(folder).reason == f"failed: {reason}"
    with np.load(folder / "evaluations.npz") as file:
        assert file["timesteps"].tolist() == [100]  # the evaluations are stored


def test_ctrl_c_leaves_an_interrupted_run(tmp_path):
    folder, go = run_broken(interrupt, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        go()
    assert read_run(folder).content["status"] == "interrupted"
    assert not (folder / "progress.json").exists()


def test_divergence_is_a_failure_and_not_a_result(tmp_path):
    folder, go = run_broken(diverge, tmp_path)
    assert go() == "failed"
    assert "step 150 returned a number that is not finite" in read_run(folder).content["failure"]


def test_steps_that_were_not_scheduled_are_a_failure(tmp_path):
    folder, go = run_broken(lambda monitor: None, tmp_path, scheduled=151)
    assert go() == "failed"
    assert read_run(folder).content["failure"] == (
        "upstream took 150 environment steps where 151 were due"
    )


def test_failed_write_leaves_the_old_file(tmp_path):
    from parallax.harness.record.files import write_atomically

    path = tmp_path / "file"
    path.write_text("old")

    def write(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, write)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["file"]
