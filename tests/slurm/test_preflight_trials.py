"""Sizes and costs of trials, and the process that runs them."""

import dataclasses
import io
import json
import types

import gymnasium
import pytest
import support
from records import find_changeable

import parallax.slurm
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.slurm import preflight_trials, preflight_worker
from parallax.slurm.preflight import _format_announcement, _format_duration, estimate_cost
from parallax.slurm.preflight_trials import (
    LOADING_SECONDS,
    PreflightTrial,
    format_setting_name,
    make_trials,
    shorten_hyperparameters,
)


def test_settings_trials_and_states_cannot_be_changed():
    assert find_changeable(parallax.slurm) == set()


def make_trial(framework="sb3", algorithm="ppo", full=False, **changes):
    family = "on-policy" if algorithm == "ppo" else "off-policy"
    kind = type("Values", (), {"family": family})
    values = {"framework": framework, "python": None, "threads": 1, "hyperparameters": kind()}
    spec = types.SimpleNamespace(**(values | changes))
    return PreflightTrial(types.SimpleNamespace(spec=spec), ("a", "b"), full)


@pytest.mark.parametrize(
    ("trial", "seconds"),
    [
        (make_trial("sb3"), 0.4),
        (make_trial("sb3", "td3"), 0.3),
        (make_trial("cleanrl"), 0.8),
        (make_trial("cleanrl", "td3"), 0.4),
        (make_trial("torchrl"), 1.1),
        (make_trial("torchrl", "td3"), 0.7),
        (make_trial("other"), 1.0),
        (make_trial("sb3", full=True), 3.3),
        (make_trial("cleanrl", full=True), 5.0),
        (make_trial("torchrl", full=True), 14.0),
        (make_trial("other", full=True), 14.0),  # as the slowest one that is known
    ],
)
def test_a_trial_costs_what_was_measured_for_its_framework(trial, seconds):
    assert trial.cost == seconds


def test_a_preflight_costs_its_trials_and_the_loading_of_every_process():
    trials = [make_trial(), make_trial("sb3", "td3"), make_trial("cleanrl", threads=2)]
    assert [trial.group for trial in trials] == [
        ("sb3", None, 1),
        ("sb3", None, 1),
        ("cleanrl", None, 2),
    ]
    assert LOADING_SECONDS == 8
    assert estimate_cost(trials, 1) == pytest.approx((1.5 + 16, 17.5))
    assert estimate_cost(trials, 4) == pytest.approx((1.5 + 32, 33.5 / 4))


def test_announcements_have_counts_and_rounded_times():
    assert _format_announcement([make_trial()], 1) == (
        "Preflight of 2 settings in 1 trials: about 8 s of CPU time, 8 s with 1 at a time."
    )
    one = dataclasses.replace(make_trial(), settings=("a",))
    assert _format_announcement([one], 1).startswith("Preflight of 1 setting: about 8 s")
    assert [_format_duration(seconds) for seconds in (99.4, 100, 170)] == ["99 s", "2 min", "3 min"]


def test_names_of_settings_have_their_non_default_values():
    spec = support.spec("sb3", "td3", n_envs=2, alignment="exact", hyperparameters={"tau": 0.5})
    name = format_setting_name(spec)
    assert name.startswith("sb3 td3 InvertedPendulum-v4 sb3 alignment=exact n_envs=2")
    assert name.endswith(" tau=0.5")


@dataclasses.dataclass
class OffPolicyValues:
    train_freq: int = 10
    gradient_steps: int = 1
    learning_starts: int = 100
    buffer_size: int = 10**6
    policy_delay: int = 1
    target_update_interval: int = 1


@dataclasses.dataclass
class RolloutValues:
    rollout_steps: int
    minibatch_size: int
    epochs: int


def shorten(n_envs=1, **changes):
    made, steps = shorten_hyperparameters(OffPolicyValues(**changes), n_envs)
    return (made.train_freq, made.gradient_steps, made.learning_starts, made.buffer_size), steps


@pytest.mark.parametrize(
    ("changes", "values", "steps"),
    [
        # Four random steps, and three cycles: one update, and two for those that begin late.
        ({}, (1, 1, 4, 1000), 7),
        ({"learning_starts": 0}, (1, 1, 0, 1000), 3),
        ({"learning_starts": 3}, (1, 1, 3, 1000), 6),
        ({"buffer_size": 500}, (1, 1, 4, 500), 7),
        ({"policy_delay": 3}, (1, 1, 4, 1000), 9),
        ({"policy_delay": 3, "gradient_steps": 2}, (1, 2, 4, 1000), 8),
        ({"target_update_interval": 4, "gradient_steps": 8}, (1, 4, 4, 1000), 7),
        (
            {"target_update_interval": 4, "policy_delay": 6, "gradient_steps": 40},
            (1, 8, 4, 1000),
            7,
        ),
        ({"target_update_interval": 4, "gradient_steps": 6}, (1, 6, 4, 1000), 7),
        ({"target_update_interval": 10_000}, (1, 1, 4, 1000), 70),
        ({"n_envs": 4}, (6, 1, 16, 1000), 36),
        ({"n_envs": 4, "train_freq": 5}, (5, 1, 16, 1000), 35),
        ({"n_envs": 4, "train_freq": 4, "learning_starts": 8}, (4, 1, 8, 1000), 20),
    ],
)
def test_a_short_run_updates_every_network_once(changes, values, steps):
    assert shorten(**changes) == (values, steps)


@pytest.mark.parametrize(
    ("rollout", "minibatch", "epochs", "n_envs", "shorter"),
    [
        (2048, 64, 10, 1, (128, 2)),
        (2048, 64, 1, 1, (128, 1)),
        (2000, 64, 2, 1, (144, 2)),  # as 2000 = 31 * 64 + 16
        (64, 64, 2, 1, (64, 2)),
        (96, 32, 2, 3, (96, 2)),
        (900, 10, 2, 8, (60, 2)),  # as 900 = 22 * 40 + 20
    ],
)
def test_a_short_rollout_has_two_minibatches_and_the_remainder(
    rollout, minibatch, epochs, n_envs, shorter
):
    made, steps = shorten_hyperparameters(RolloutValues(rollout, minibatch, epochs), n_envs)
    assert (made.rollout_steps, made.epochs) == shorter and steps == made.rollout_steps
    assert made.minibatch_size == minibatch


def test_trials_have_one_evaluation_of_one_episode_and_explicit_values():
    (trial,) = make_trials([support.spec("sb3", "td3", seed=5, evaluation_seed=9)])
    spec = trial.prepared.spec
    assert (spec.seed, spec.evaluation_seed, spec.eval_episodes, spec.overridden) == (0, 0, 1, ())
    assert (spec.alignment, spec.hps, spec.study) == ("exact", "preflight", "preflight")
    assert spec.eval_every == spec.steps == trial.prepared.native.total_steps
    assert not trial.is_full_rollout and trial.settings == ("sb3 td3 InvertedPendulum-v4 sb3",)
    assert {trial: 1}[trial] == 1 and trial != dataclasses.replace(trial)


def test_full_rollout_is_tried_once_per_framework_and_task():
    specs = [
        support.spec("sb3", "ppo", env=env, steps=10_000, hyperparameters={"minibatch_size": size})
        for env in ("InvertedPendulum-v4", "Pendulum-v1")
        for size in (64, 32)
    ]
    trials = make_trials(specs)
    assert [trial.is_full_rollout for trial in trials] == [True, False, True, False]
    for trial in trials:
        hyperparameters = trial.prepared.spec.hyperparameters
        expected = (2048, 1) if trial.is_full_rollout else (64, 2)
        assert (hyperparameters.rollout_steps, hyperparameters.epochs) == expected


@pytest.fixture
def registered():
    saved = dict(gymnasium.registry)
    yield gymnasium.registry
    gymnasium.registry.clear()
    gymnasium.registry.update(saved)


@pytest.mark.parametrize(("limit", "shorter"), [(200, 100), (100, 100), (50, 50), (None, None)])
def test_episodes_of_a_trial_have_at_most_a_hundred_steps(registered, limit, shorter):
    gymnasium.register("Short-v0", "nowhere:Nothing", max_episode_steps=limit)
    preflight_worker._shorten_episodes("Short-v0")
    preflight_worker._shorten_episodes("json:Short-v0")
    preflight_worker._shorten_episodes("Unknown-v0")
    assert registered["Short-v0"].max_episode_steps == shorter


def test_a_users_task_is_registered_by_its_module_first(registered, tmp_path, monkeypatch):
    line = "gymnasium.register('Late-v0', 'nowhere:Nothing', max_episode_steps=500)"
    (tmp_path / "late_task.py").write_text(f"import gymnasium\n{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    preflight_worker._shorten_episodes("late_task:Late-v0")
    assert registered["Late-v0"].max_episode_steps == 100


def try_run(monkeypatch, reasons, train):
    shortened = []
    readings = iter(
        types.SimpleNamespace(spec={"env": "A-v0"}, reason=reason) for reason in reasons
    )
    monkeypatch.setattr(preflight_worker, "_shorten_episodes", shortened.append)
    monkeypatch.setattr(preflight_worker, "read_run", lambda folder: next(readings))
    monkeypatch.setattr(preflight_worker.worker, "main", train)
    answer = preflight_worker._try_run("folder")
    assert shortened == ["A-v0"]
    return answer


def test_trial_returns_why_its_run_is_incomplete(monkeypatch):
    assert try_run(monkeypatch, ["", "failed: it broke"], lambda folder: 1) == "it broke"
    assert try_run(monkeypatch, ["", ""], lambda folder: 0) is None

    def leave(folder):
        raise SystemExit(3)

    assert try_run(monkeypatch, [""], leave) == "SystemExit: 3"


def test_process_answers_each_folder_on_its_output(monkeypatch):
    answers, duplicated, sent = io.StringIO(), [], []
    answers.close = lambda: None
    answers.flush = lambda: sent.append(answers.getvalue().count("\n"))
    questions = io.StringIO('"/a"\n"/b"\n')
    files = {10: questions, 11: answers}
    system = types.SimpleNamespace(
        dup=lambda number: number + 10,
        fdopen=lambda number, mode="r": files[number],
        open=lambda path, flags: 20,
        dup2=lambda *pair: duplicated.append(pair),
        devnull="/dev/null",
        O_RDONLY=0,
    )
    monkeypatch.setattr(preflight_worker, "os", system)
    monkeypatch.setattr(preflight_worker, "_try_run", lambda folder: f"tried {folder}")
    preflight_worker.main()
    # Standard input is empty, and what is printed goes to the errors.
    assert duplicated == [(20, 0), (2, 1)]
    assert sent == [1, 2]  # each answer at once
    assert [json.loads(line) for line in answers.getvalue().splitlines()] == [
        {"failure": "tried /a"},
        {"failure": "tried /b"},
    ]


def test_a_trial_that_the_adapter_refuses_when_short_has_its_own_length(monkeypatch):
    made = []
    prepare = preflight_trials._prepare_trial

    def refuse_short(run, hyperparameters, steps, adapter):
        made.append(steps)
        if len(made) == 2:
            raise preflight_trials.SpecError("no")
        return prepare(run, hyperparameters, steps, adapter)

    monkeypatch.setattr(preflight_trials, "_prepare_trial", refuse_short)
    (trial,) = make_trials([support.spec("sb3", "td3", n_envs=1)])
    assert made == [1, 8, 1] and trial.prepared.spec.hyperparameters.buffer_size == 1_000_000


def test_a_trial_has_whole_rollouts_and_need_not_learn(monkeypatch):
    adapter, made, prepare = load_adapter("sb3"), [], preflight_trials.prepare_run

    def note(spec, adapter, **options):
        made.append((spec.steps, spec.eval_every, options))
        return prepare(spec, adapter, **options)

    run = prepare(
        support.spec(hyperparameters={"rollout_steps": 64, "minibatch_size": 64}), adapter
    )
    monkeypatch.setattr(preflight_trials, "prepare_run", note)
    trial = preflight_trials._prepare_trial(run, run.hyperparameters, 100, adapter)
    assert made == [(100, 100, {"must_learn": False}), (128, 128, {"must_learn": False})]
    assert trial.spec.steps == trial.native.total_steps == 128
