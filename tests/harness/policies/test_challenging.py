"""Test generators of muPRL: configurations, quality of control, and what is chosen."""

import numpy as np
import pytest
import support

from envs.make import make_training_env
from harness.contract.fields import SpecError
from harness.policies.challenging import Change, change_of
from harness.policies.configurations import Played, kind_of, play, starts
from harness.policies.generators import STRONG, WEAK, lessons, strong, weak
from harness.policies.loading import load
from harness.record.trace import episodes

CARTPOLE = kind_of("CartPole-v1")


def upright(observations):
    """Pushes where the pole falls: survives from every usual start."""
    lean = observations[:, 2] + 0.5 * observations[:, 3] + 0.1 * observations[:, 1]
    return (lean + 0.05 * observations[:, 0] > 0).astype(int)


def left(observations):
    return np.zeros(len(observations), int)


def test_an_agent_that_balances_succeeds_and_one_that_does_not_loses_control():
    where = CARTPOLE.draw(np.random.default_rng(0), 5, 4)
    assert where.shape == (5, 4) and np.abs(where).max() <= 0.05
    good, bad = (play(CARTPOLE, "CartPole-v1", policy, where) for policy in (upright, left))
    assert good.success.all() and (good.quality > 0).all()
    assert not bad.success.any() and (bad.quality < 0).all()


def test_quality_of_control_is_the_room_that_is_left():
    env = make_training_env("CartPole-v1", wrappers="none", gamma=1, before_step=lambda: None)
    env.reset(seed=0)
    CARTPOLE.begin(env, np.array([1.2, 0, 0, 0]))
    assert CARTPOLE.quality(env) == pytest.approx(0.5)
    CARTPOLE.begin(env, np.array([0, 0, np.radians(9), 0]))
    assert CARTPOLE.quality(env) == pytest.approx(0.25)


def test_a_replay_begins_where_episodes_of_a_training_began():
    def made():
        env = make_training_env("CartPole-v1", wrappers="none", gamma=1, before_step=lambda: None)
        return env, env.reset(seed=3)[0]

    env, first = made()
    seen = [first]
    for _ in range(3):
        ended = False
        while not ended:
            _, _, ended, _, _ = env.step(0)
        seen.append(env.reset()[0])
    again, _ = made()
    assert np.allclose(starts(again, CARTPOLE, 4), seen)


def test_the_weak_generator_takes_where_originals_are_safest():
    def original(offset):
        return lambda c: Played(c[:, 1] < offset, 1 - np.abs(c[:, 0]) / 0.05)

    chosen = weak(CARTPOLE, 4, [original(0.05), original(0.05), original(0.0)], seed=0)
    assert len(chosen) == WEAK
    every = CARTPOLE.draw(np.random.default_rng(0), 200, 4)
    assert np.abs(chosen[:, 0]).max() < np.quantile(np.abs(every[:, 0]), 0.3)
    # Where half of the originals or more fail, nothing is taken.
    chosen = weak(CARTPOLE, 4, [original(0.05), original(-1)], seed=0)
    assert len(chosen) == 0


def test_runs_that_nearly_always_fail_teach_nothing():
    where = [np.zeros((60, 4))] * 2
    failed = [np.ones(60, bool), np.arange(60) < 54]
    features, lost = lessons(where, failed)
    assert features.shape == (60, 5) and set(features[:, -1]) == {1.0} and lost.sum() == 54
    assert lessons(where, [np.ones(60, bool)] * 2) is None
    assert lessons(where, [np.arange(60) < 20] * 2) is None  # 40 failures are too few


def test_a_predictor_leads_the_strong_generator_to_failures(monkeypatch):
    from harness.policies import predictor as network
    from harness.policies.predictor import learn

    monkeypatch.setattr(network, "EPOCHS", 60)
    monkeypatch.setattr(network, "RATE", 3e-3)
    generator = np.random.default_rng(0)
    where = CARTPOLE.draw(generator, 400, 4)
    failed = where[:, 2] > 0.02
    learned = lessons([where[:200], where[200:]], [failed[:200], failed[200:]])
    predictor = learn(*learned, layers=2, seed=0)
    chosen = strong(CARTPOLE, 4, predictor, number=1, seed=0)
    assert len(chosen) == STRONG and (chosen[:, 2] > 0.02).mean() > 0.95
    assert predictor.accuracy > 0.8


@pytest.mark.parametrize("framework", ["cleanrl", pytest.param("sb3", marks=pytest.mark.long)])
def test_a_replay_of_a_run_begins_where_its_episodes_began(framework, tmp_path, monkeypatch):
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    begun, reset = [], CartPoleEnv.reset

    def watched(self, **arguments):
        found = reset(self, **arguments)
        begun.append(self.state)
        return found

    spec = support.spec(
        framework,
        "dqn",
        hyperparameters={"learning_starts": 500, "buffer_size": 1000},
        env="CartPole-v1",
        **{"steps": 300, "eval_every": 300, "eval_episodes": 1, "alignment": "thesis"},
    )
    monkeypatch.setattr(CartPoleEnv, "reset", watched)
    folder, run = support.run(spec, tmp_path)
    assert run["status"] == "completed", run["failure"]
    monkeypatch.undo()
    agent, count = load(folder), episodes(folder / "trace.parquet")
    assert count > 5
    assert np.array_equal(starts(agent.env, CARTPOLE, count), begun[:count])


def test_tasks_that_nobody_has_described_are_refused():
    with pytest.raises(SpecError, match=r"env=Pendulum-v1: .* CartPole, Humanoid, Hopper"):
        kind_of("Pendulum-v1")
    assert kind_of("Hopper-v5").steps == 200


def test_names_of_interventions_are_operators_and_values():
    assert change_of("sdf-0.9") == Change("sdf", 0.9) and change_of("nrs") == Change("nrs")
    assert change_of("mutant-022") == Change("mutant-022")
