"""Parts of a run: notes, times, facts for the diagnosis, and files of loggers."""

import sys
import time
import types

import pytest
import support

from parallax.harness.contract.adapter import load_adapter
from parallax.harness.train import loggers, prepare
from parallax.harness.train.diagnosis import collect_facts
from parallax.harness.train.prepare import prepare_run
from parallax.harness.train.run import _record_end, _RunAttempt


class Folder:
    """A run folder that has what `run.json` is updated with."""

    def __init__(self):
        self.content, self.path = {"steps": {"requested": 600}}, None

    def update_run(self, **changes):
        self.content |= changes


@pytest.fixture
def attempt():
    prepared = prepare_run(support.spec(), load_adapter("sb3"))
    return _RunAttempt(prepared, load_adapter("sb3"), Folder(), {}, time.time())


def test_notes_are_recorded_and_in_the_log(attempt, capsys):
    attempt._add_note("Checkpoint 3 is damaged.")
    assert attempt.notes == ["Checkpoint 3 is damaged."]
    assert capsys.readouterr().err == "Checkpoint 3 is damaged.\n"


def test_a_run_that_fails_before_its_training_has_spent_little(attempt):
    attempt._begun = time.monotonic() - 5
    attempt._cpu_begun = time.process_time() - 2
    folder = Folder()
    _record_end(folder, attempt, {"status": "failed"})
    timings = folder.content["timings"]
    assert folder.content["status"] == "failed" and folder.content["resume_notes"] == []
    assert folder.content["steps"] == {"requested": 600, "taken": 0}
    assert timings["evaluation_seconds"] == 0
    assert 5 <= timings["seconds"] < 5.9 and 2 <= timings["training_cpu_seconds"] < 2.9


def test_facts_of_a_users_task_need_the_module_that_registers_it(tmp_path, monkeypatch):
    (tmp_path / "own_task.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('OwnPole-v0', CartPoleEnv, max_episode_steps=77, "
        "reward_threshold=70.0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_task", raising=False)
    prepared = prepare_run(support.spec(env="CartPole-v1"), load_adapter("sb3"))
    spec = types.SimpleNamespace(
        **{name: getattr(prepared.spec, name) for name in ("algorithm", "wrappers", "n_envs")},
        env="own_task:OwnPole-v0",
    )
    parts = {name: getattr(prepared, name) for name in ("context", "hyperparameters", "native")}
    facts = collect_facts(types.SimpleNamespace(spec=spec, **parts))
    assert facts.reward_threshold == 70.0 and facts.steps == prepared.native.total_steps


@pytest.mark.parametrize(("replay", "expected"), [("uniform", False), ("per", True)])
def test_changes_that_replay_strategies_need_are_only_made_for_them(monkeypatch, replay, expected):
    asked = []
    resolve = prepare.resolve_interventions

    def look(*arguments, **options):
        asked.append(options["with_replay"])
        return resolve(*arguments, **options)

    monkeypatch.setattr(prepare, "resolve_interventions", look)
    prepare_run(support.spec(algorithm="dqn", replay=replay), load_adapter("sb3"))
    assert set(asked) == {expected}


class WandbRun:
    def __init__(self):
        self.logged, self.is_finished = [], False

    def log(self, values):
        self.logged.append(values)

    def define_metric(self, *arguments, **options):
        pass

    def finish(self):
        self.is_finished = True


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_values_after_a_checkpoint_are_left_out_only_of_a_run_that_repeats_them(
    monkeypatch, tmp_path, ended, has_checkpoint
):
    run = WandbRun()
    fake = types.SimpleNamespace(init=lambda **options: run, Settings=lambda **options: options)
    monkeypatch.setattr(loggers.importlib, "import_module", lambda name: fake)
    sink = loggers._WandbSink(types.SimpleNamespace(path=tmp_path), resumes=False)
    sink.write(1, {"loss": 2.0})
    if has_checkpoint:
        sink.state()
        assert run.logged == [{"loss": 2.0, "step": 1}]
    sink.write(2, {"loss": 1.0})
    sink.close(ended)
    assert run.is_finished
    assert ({"loss": 1.0, "step": 2} in run.logged) == (ended or not has_checkpoint)
