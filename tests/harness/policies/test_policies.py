"""Policies of runs are saved, and act identically after loading."""

import csv
import dataclasses
import functools
import hashlib
import io
import json
import random
import resource
import shutil
import types
from pathlib import Path

import forked
import gymnasium
import numpy as np
import pytest
import recorded
import stable_baselines3
import support
import torch

from parallax.harness.cli.main import main
from parallax.harness.cli.policy import _format_episodes_csv, parse_conditions
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.policies import worker
from parallax.harness.policies.loading import _shrink_training, load_policy
from parallax.harness.policies.video import _is_whole_video, make_titles, record_video
from parallax.harness.policies.worker import (
    EvaluationConditions,
    PolicyRequest,
    _answer_request,
    evaluate_loaded_policy,
    get_recorded_returns,
    has_same_returns,
)
from parallax.harness.record.layout import POLICY_FILE
from parallax.harness.record.npz_files import StoredPolicy, pack_policy
from parallax.harness.record.reading import find_damage, read_policy, read_run
from parallax.harness.train.prepare import prepare_run

PPO = {"rollout_steps": 128, "minibatch_size": 64, "epochs": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that saw normalised observations of Pendulum, whose bounds are +-2."""
    spec = support.spec(
        hyperparameters=PPO, env="Pendulum-v1", steps=256, eval_every=128, wrappers="normalized"
    )
    return support.run(spec, tmp_path_factory.mktemp("results"))[0]


@pytest.fixture
def copy(folder, tmp_path):
    """The same run, to be changed."""
    return shutil.copytree(folder, tmp_path.joinpath(*folder.parts[-7:]))


def test_run_keeps_its_weights_and_the_statistics_of_observations(folder):
    stored = read_policy(folder)
    assert stored.weights["action_net.weight"].shape == (1, 64)
    assert stored.normalization["mean"].shape == (3,)
    assert read_run(folder).record.files.keys() == {
        "evaluations.npz",
        "policy.npz",
        "trace.parquet",
    }
    with np.load(folder / POLICY_FILE) as file:  # readable without this project
        assert "weights/action_net.weight" in file.files


def test_loaded_policy_plays_the_last_evaluation_again(folder):
    policy = load_policy(folder)
    assert has_same_returns(
        evaluate_loaded_policy(policy, EvaluationConditions()), get_recorded_returns(policy)
    )


def test_loaded_policy_accepts_unwrapped_observations(folder):
    policy = load_policy(folder)
    observations = np.array([[1.0, 0.0, 8.0], [0.0, 1.0, -8.0]])
    actions = policy(observations)
    assert actions.shape == (2, 1) and actions.dtype == np.float32
    assert np.array_equal(actions, policy.policy(np.float32(policy.normalize(observations))))
    assert not np.allclose(actions, policy.policy(np.float32(observations)))


def test_loading_does_not_change_random_states(folder):
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(5)
    before = random.random(), np.random.random(), torch.rand(3)
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(5)
    load_policy(folder)
    after = random.random(), np.random.random(), torch.rand(3)
    assert before[:2] == after[:2] and torch.equal(before[2], after[2])


def test_other_conditions_are_other_episodes(folder):
    policy = load_policy(folder)
    usual = evaluate_loaded_policy(policy, EvaluationConditions())
    more = evaluate_loaded_policy(policy, EvaluationConditions(episodes=4))
    assert more.returns[:2] == pytest.approx(usual.returns, rel=1e-4)
    others = evaluate_loaded_policy(policy, EvaluationConditions(seed=9))
    assert not np.isclose(others.returns, usual.returns).any()
    short = evaluate_loaded_policy(policy, EvaluationConditions(env={"max_episode_steps": 7}))
    assert short.lengths.tolist() == [7, 7]
    lighter = evaluate_loaded_policy(policy, EvaluationConditions(env={"g": 0.0}))
    assert not np.isclose(lighter.returns, usual.returns).any()


def test_task_of_other_sizes_is_refused(tmp_path):
    spec = support.spec(hyperparameters=PPO, env="HalfCheetah-v5", steps=128, eval_every=128)
    policy = load_policy(support.run(spec, tmp_path)[0])
    words = "env.exclude_current_positions_from_observation=False changes observation_size"
    changed = {"exclude_current_positions_from_observation": False}
    with pytest.raises(SpecError, match=words):
        evaluate_loaded_policy(policy, EvaluationConditions(env=changed))


# What cannot be loaded


def test_run_without_a_stored_policy_names_the_remedy(tmp_path):
    old = recorded.complete_run(tmp_path)
    with pytest.raises(
        SpecError, match=r"trained by a version that stored no policy.npz. Train it again"
    ):
        load_policy(old)


def test_incomplete_run_states_the_reason(copy):
    recorded.edit(copy, status="failed", failure="the task broke")
    with pytest.raises(SpecError, match=r"not complete .*the task broke"):
        load_policy(copy)


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_damaged_policy_is_named_and_the_run_stays_complete(copy, keep):
    whole = (copy / POLICY_FILE).read_bytes()
    (copy / POLICY_FILE).write_bytes(whole[:keep])
    with pytest.raises(SpecError, match=r"policy.npz"):
        load_policy(copy)
    assert read_run(copy).complete
    assert list(find_damage(copy)) == [POLICY_FILE]


def test_deleted_policy_is_named_and_the_run_stays_complete(copy):
    (copy / POLICY_FILE).unlink()
    with pytest.raises(SpecError, match=r"missing policy.npz"):
        load_policy(copy)
    assert read_run(copy).complete


def replace_policy(copy, weights, statistics):
    """Stores another policy, with its hash as who forges a run computes it."""
    raw = pack_policy(StoredPolicy(weights, statistics))
    (copy / POLICY_FILE).write_bytes(raw)
    content = read_run(copy).content
    files = content["files"] | {POLICY_FILE: hashlib.sha256(raw).hexdigest()}
    recorded.edit(copy, files=files, sizes=content["sizes"] | {POLICY_FILE: len(raw)})


def test_statistics_of_another_run_are_refused(copy):
    stored = read_policy(copy)
    other = stored.normalization | {"mean": stored.normalization["mean"] + 3}
    (copy / POLICY_FILE).write_bytes(pack_policy(StoredPolicy(stored.weights, other)))
    with pytest.raises(SpecError, match=r"corrupted policy.npz: it is not what the run wrote"):
        load_policy(copy)


def test_weights_of_another_run_are_refused(copy):
    stored = read_policy(copy)
    other = {name: array + 1 for name, array in stored.weights.items()}
    replace_policy(copy, other, stored.normalization)
    with pytest.raises(SpecError, match=r"is damaged: its weights differ from the hash"):
        load_policy(copy)


STATISTICS = {"mean": np.zeros(3), "var": np.ones(3), "epsilon": np.float64(1e-8)}


@pytest.mark.parametrize(
    "statistics",
    [
        {},
        STATISTICS | {"mean": np.zeros(1), "var": np.ones(1)},
        STATISTICS | {"mean": np.zeros(()), "var": np.ones(())},
        STATISTICS | {"mean": np.zeros((5, 3)), "var": np.ones((5, 3))},
    ],
)
def test_a_policy_has_the_statistics_that_its_wrappers_need(copy, statistics):
    stored = read_policy(copy)
    replace_policy(copy, stored.weights, statistics)
    with pytest.raises(SpecError, match=r"has statistics of .*wrappers=normalized on Pendulum-v1"):
        load_policy(copy)


def test_statistics_that_no_wrapper_uses_are_refused(copy):
    recorded.edit(copy, spec=read_run(copy).content["spec"] | {"wrappers": "none"})
    with pytest.raises(SpecError, match=r"and wrappers=none on Pendulum-v1 has {}"):
        load_policy(copy)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])  # 1e300 is no float32
def test_weights_that_are_not_finite_are_refused_by_name(copy, value):
    stored = read_policy(copy)
    weights = stored.weights | {"log_std": np.full(1, value)}
    replace_policy(copy, weights, stored.normalization)
    with pytest.raises(SpecError, match=r"its weights log_std are not finite. Train the run"):
        load_policy(copy)


def test_weights_of_another_byte_order_or_width_are_read_or_refused(copy):
    stored = read_policy(copy)
    swapped = {name: array.astype(">f4") for name, array in stored.weights.items()}
    replace_policy(copy, swapped, stored.normalization)
    assert read_policy(copy).weights["log_std"].dtype == np.float32
    assert load_policy(copy)(np.zeros((1, 3))) == load_policy(copy)(np.zeros((1, 3)))
    wide = stored.weights | {"log_std": np.zeros(1, np.longdouble)}
    replace_policy(copy, wide, stored.normalization)
    with pytest.raises(SpecError, match="values of weights/log_std are not of numeric types"):
        load_policy(copy)


def test_policy_must_belong_to_a_recorded_evaluation(copy):
    recorded.edit(copy, saved_evaluation=99)
    with pytest.raises(SpecError, match=r"saved_evaluation=99 in run.json is none of its 2 eval"):
        load_policy(copy)


def test_module_named_by_a_folder_is_not_imported_without_consent(copy):
    content = read_run(copy).content
    recorded.edit(copy, spec=content["spec"] | {"env": "somebodys.tasks:Task-v0"})
    with pytest.raises(SpecError, match=r"somebodys.tasks.*trust=True"):
        load_policy(copy)


def test_run_whose_translation_changed_is_refused(copy):
    content = read_run(copy).content
    recorded.edit(copy, native=content["native"] | {"n_steps": 64})
    with pytest.raises(SpecError, match=r"n_steps=64 then, 128 now"):
        load_policy(copy)


def test_run_without_an_adapter_is_named(copy, capsys):
    content = dict(read_run(copy).content)
    del content["adapter"], content["checksum"]
    (copy / "run.json").write_text(json.dumps(content))
    with pytest.raises(
        SpecError, match=r"has no policy: its run.json does not name an adapter. Train it"
    ):
        load_policy(copy)
    assert main(["policy", "evaluate", str(copy)]) == 1
    assert "no policy: its run.json does not name an adapter" in capsys.readouterr().err


def test_a_run_that_cannot_be_set_up_fails_alone(folder, copy, monkeypatch, capsys):
    content = dict(read_run(copy).content)
    del content["weights_sha256"], content["checksum"]
    (copy / "run.json").write_text(json.dumps(content))
    with pytest.raises(SpecError, match="its weights differ from the hash"):
        load_policy(copy)
    monkeypatch.setattr(worker, "load_policy", lambda folder, **_: {}[folder])
    (answer,) = _answer_request(PolicyRequest("evaluate", [str(copy)]), [str(copy)])
    assert answer["failure"].startswith("KeyError: ")


@pytest.mark.parametrize("framework", support.frameworks("sb3", "skrl"))
def test_the_setup_of_a_policy_takes_little_memory(framework):
    """A small run.json may request any replay buffer, which some frameworks fill at once."""

    def shrink(**changes):
        values = {"buffer_size": 10**7, "hidden_sizes": (64, 64)} | changes
        spec = support.spec(framework, "td3", hyperparameters=values, alignment="exact")
        adapter = load_adapter(framework)
        prepared = prepare_run(spec, adapter, on_this_machine=False)
        return prepared, _shrink_training(prepared, adapter, stored)

    stored = StoredPolicy({"w": np.zeros(30_000)})
    large, small = (set(map(str, run.native.settings.values())) for run in shrink())
    assert "10000000" in large and "10000000" not in small and "10000" in small
    words = r"hidden_sizes=\[30000, 30000\] means .* and the set-up of 30,000 stored weights has"
    with pytest.raises(SpecError, match=words):
        shrink(hidden_sizes=(30_000, 30_000))


# The commands


def test_cells_of_the_returns_table_are_not_formulas():
    spec = dataclasses.replace(support.spec(), hps="=1+1")
    answer = {"folder": "@a/b", "returns": [-2.5], "lengths": [3]}
    head, row = csv.reader(_format_episodes_csv([answer], {Path("@a/b"): spec}).splitlines())
    assert head[:2] == ["folder", "framework"] and row[0] == "'@a/b" and row[4] == "'=1+1"
    assert row[-3:] == ["0", "-2.5", "3"]


def test_evaluate_reports_equality_with_training_returns(folder, tmp_path, capsys):
    table = tmp_path / "returns.csv"
    assert main(["policy", "evaluate", str(folder), "--output", str(table)]) == 0
    said = capsys.readouterr().out
    assert "2 of 2 episodes, the same as the run's last evaluation" in said
    rows = list(csv.DictReader(table.open()))
    recorded_returns = get_recorded_returns(load_policy(folder))
    assert [float(row["return"]) for row in rows] == pytest.approx(recorded_returns)
    assert {row["framework"] for row in rows} == {"sb3"}


class ForkedWorker:
    """Replaces a process that imports everything again, as in the test above."""

    def __init__(self, command, env, **_):
        self._format_command, self._environment = command[2:], env
        self.stdin, self.stdout = io.StringIO(), iter(self._answers, None)
        self.stdin.close = self._start

    def _start(self):
        text = self.stdin.getvalue()
        process = forked.start(*self._format_command, env=self._environment, stdin=text)
        said, _ = process.communicate(timeout=100)
        self.returncode, self._lines = process.returncode, said.splitlines()

    def _answers(self):
        return self._lines.pop(0) if self._lines else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def forked_workers(monkeypatch):
    instead = types.SimpleNamespace(Popen=ForkedWorker, PIPE=None)
    monkeypatch.setattr("parallax.harness.policies.worker.subprocess", instead)


def test_runs_are_named_if_their_process_ends_before_it_reads_the_request(tmp_path):
    spec = dataclasses.replace(support.spec(), python="/bin/false")
    options = {"targets": {"a folder": "x" * 2**20}}  # more than a pipe holds
    assert list(worker.run_action("export", {tmp_path: spec}, options)) == [
        {"folder": str(tmp_path), "failure": "its process ended with exit code 1"}
    ]


@pytest.mark.usefixtures("forked_workers")
def test_evaluate_skips_runs_without_a_policy(copy, capsys):
    recorded.complete_run(copy.parents[6])
    assert main(["policy", "evaluate", str(copy.parents[6]), "episodes=3"]) == 1
    said = capsys.readouterr()
    assert "3 of 3 episodes" in said.out and "the same" not in said.out
    assert "no policy: it was trained by a version" in said.err


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("episodes=0", "whole number from 1 to"),
        ("episodes=many", "whole number from 1 to"),
        ("seed=-1", "whole number from 0 to"),
        ("episode=5", "use episodes=N, seed=N or env.NAME=VALUE"),
        ("env.=5", "use episodes=N"),
        ("env.size=[1, 2]", "a finite number, a word, true or false"),
        ("env.size={", "cannot be parsed"),
        ("env.x=2000-01-01", "a finite number, a word, true or false"),
        ("env.x=!!binary aGk=", "a finite number, a word, true or false"),
        ("env.x=.nan", "a finite number, a word, true or false"),
        ("env.x=-.inf", "a finite number, a word, true or false"),
        ("env.x=2000-99-99", "cannot be parsed"),
        ("env.x=!!timestamp 1", "cannot be parsed"),
        ("env.x=!!bool x", "cannot be parsed"),
        (f"env.x={'9' * 5000}", "cannot be parsed"),
        ("env.\udcff=3", "use episodes=N"),
    ],
)
def test_invalid_conditions_are_refused(word, message):
    with pytest.raises(SpecError, match=message):
        parse_conditions([word])


def test_a_condition_has_one_value():
    with pytest.raises(SpecError, match=r"env\.g is there twice"):
        parse_conditions(["env.g=1", "env.g=2"])


def test_returns_that_cannot_be_written_are_refused_before_an_episode(folder, tmp_path, capsys):
    for file in (tmp_path / "nowhere" / "x.csv", tmp_path, Path("/dev/full")):
        assert main(["policy", "evaluate", str(folder), "--output", str(file)]) == 2
        assert str(file) in (said := capsys.readouterr()).err and not said.out


def test_arguments_are_parsed_as_conditions():
    words = ["episodes=3", "seed=4", "env.g=1.5", "env.mode=fast"]
    assert parse_conditions(words) == {"episodes": 3, "seed": 4, "env": {"g": 1.5, "mode": "fast"}}


@pytest.mark.usefixtures("forked_workers")
def test_exported_file_loads_in_the_framework_alone(folder, tmp_path, capsys):
    assert main(["policy", "export", str(folder), "--output", str(tmp_path)]) == 0
    (file,) = tmp_path.rglob("*.*")
    said = capsys.readouterr().out
    assert file.name == "seed=0.zip" and str(file) in said
    assert "it takes normalized observations, and their statistics are only in policy.npz" in said
    policy, model = load_policy(folder), stable_baselines3.PPO.load(file)
    observations = np.float32([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]])
    theirs, _ = model.predict(observations, deterministic=True)
    assert np.array_equal(theirs, policy.policy(observations))
    assert isinstance(model.action_space, gymnasium.spaces.Box)


@pytest.mark.usefixtures("forked_workers")
def test_folders_with_undecodable_names_hide_no_others(folder, copy, tmp_path, capsys):
    odd = tmp_path / "\udcff" / copy.name
    odd.parent.mkdir()
    copy.rename(odd)
    assert main(["policy", "evaluate", str(odd), str(folder)]) == 0
    assert capsys.readouterr().out.count("the same as the run's last evaluation") == 2


def test_runs_that_would_be_exported_to_one_file_are_refused(folder, copy, tmp_path, capsys):
    assert main(["policy", "export", str(folder), str(copy), "--output", str(tmp_path / "x")]) == 2
    assert f"{folder} and {copy} would both be" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_policy_is_not_exported_through_a_link(folder, tmp_path, capsys):
    place, victim = tmp_path / "x" / folder.parents[5].name, tmp_path / "victim"
    for path in (place.parent, victim):
        path.mkdir()
    place.symlink_to(victim)
    assert main(["policy", "export", str(folder), "--output", str(tmp_path / "x")]) == 2
    assert f"{place} is a link: delete it" in capsys.readouterr().err
    assert not list(victim.iterdir())


def test_export_to_a_file_in_place_of_a_folder_is_refused(folder, tmp_path, capsys):
    (tmp_path / "x").touch()
    assert main(["policy", "export", str(folder), "--output", str(tmp_path / "x")]) == 2
    assert f"--output {tmp_path / 'x'} is no folder: name another one." in capsys.readouterr().err


def export_policy(monkeypatch, folder, target, save):
    """Answer of a worker where the framework's function that saves a model is `save`."""
    policy = dataclasses.replace(load_policy(folder), save=save, suffix=".pt")
    monkeypatch.setattr(worker, "load_policy", lambda path, trust: policy)
    options = {"targets": {str(folder): str(target)}}
    (answer,) = _answer_request(PolicyRequest("export", [str(folder)], options), [str(folder)])
    assert not [path for path in target.parent.rglob("*") if path.is_file()]
    return answer["failure"]


def test_failed_export_states_the_reason_and_leaves_no_file(folder, tmp_path, monkeypatch):
    """PyTorch's error names no reason."""
    weights = {"weights": torch.zeros(10_000)}
    save = functools.partial(torch.save, weights)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**13, limits[1]))
    try:
        failure = export_policy(monkeypatch, folder, tmp_path / "file", save)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert failure == f"{tmp_path / 'file.pt'} cannot be written: File too large."


def test_framework_error_in_an_export_is_reported(folder, tmp_path, monkeypatch):
    def save(path):
        path.write_bytes(b"half")
        raise ValueError("of the framework")

    failure = export_policy(monkeypatch, folder, tmp_path / "file", save)
    assert failure == "ValueError: of the framework"


# Films


def test_policies_are_recorded_side_by_side(tmp_path, monkeypatch):
    imageio = pytest.importorskip("imageio", reason="the extra `video` is not installed")
    pytest.importorskip("pygame", reason="the extra `video` is not installed")
    file = tmp_path / "two.mp4"
    small = {"learning_starts": 50, "buffer_size": 100}
    specs = [
        support.spec("sb3", "dqn", hyperparameters=small, steps=64, eval_every=64, seed=seed)
        for seed in (0, 1)
    ]
    policies = [
        load_policy(support.run(spec, tmp_path)[0]) for spec in specs
    ]  # their episodes are short
    returns = record_video(dict(zip(("first", "second"), policies, strict=True)), file)
    assert returns == [
        pytest.approx(get_recorded_returns(policy)[0], rel=1e-4) for policy in policies
    ]
    film_made = imageio.get_reader(file)
    assert film_made.get_meta_data()["size"] == (1200, 440)
    assert film_made.count_frames() >= max(returns)  # a point for each step
    assert [path.name for path in tmp_path.glob("*.mp4*")] == ["two.mp4"]
    content = file.read_bytes()
    for part in (b"", content[:40], content[: len(content) // 2], content[:-1], content + b"1234"):
        assert _is_whole_video(content) and not _is_whole_video(part)
    monkeypatch.setattr("parallax.harness.policies.video._is_whole_video", lambda content: False)
    with pytest.raises(SpecError, match=r"other.mp4 cannot be written: ffmpeg has failed\.$"):
        record_video({"one": policies[0]}, tmp_path / "other.mp4")
    assert [path.name for path in tmp_path.glob("*.mp4*")] == ["two.mp4"]


def test_titles_of_policies_are_unique(folder, copy):
    policy = load_policy(folder)
    assert list(make_titles([policy])) == ["sb3 ppo seed 0"]
    assert len(make_titles([policy, load_policy(copy)])) == 2
    with pytest.raises(SpecError, match="named twice"):
        make_titles([policy, policy])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--output", "x.avi"], "must end in .mp4"),
        (["--output", "x.mp4", "--episode", "-1"], "'-1' must be from 0 to 999999"),
        (["--output", "x.mp4", "--episode", "1" * 13], "must be from 0 to 999999"),
        (["--output", "x.mp4", "--episode", "999"], "--episode 999: the last evaluation has"),
        (["--output", "folder.mp4"], "folder.mp4 is no regular file"),
        (["second", "--output", "x.mp4"], "Name several runs after --compare"),
    ],
)
def test_invalid_video_options_are_refused(folder, words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.mp4").mkdir()
    assert main(["policy", "video", str(folder), *words]) == 2
    assert message in capsys.readouterr().err
