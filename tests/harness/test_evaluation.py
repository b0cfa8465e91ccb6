"""Evaluation: the numbers SB3's own gives, episode by episode, and nothing else touched."""

import random
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from envs.lockstep import make_lockstep
from envs.make import frozen_normalizer, make_training_env
from envs.tasks import make
from harness.evaluation import evaluate
from harness.seeding import episode_seeds

FIRST_SEED = 40


class Countdown(gymnasium.Env):
    """Ends after as many steps as the seed says, and cannot be stepped afterwards.

    Observes the number of steps left. Pays the action; -1 makes the reward infinite and
    -2 the observation.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-9.0, 9.0, (1,))

    def reset(self, *, seed=None, options=None):
        self.left = float(seed)
        return np.array([self.left]), {}

    def step(self, action):
        assert self.left > 0, "stepped after the end"
        self.left -= 1
        seen = np.inf if action[0] == -2 else self.left
        reward = np.inf if action[0] == -1 else float(action[0])
        return np.array([seen]), reward, self.left == 0, False, {}


@pytest.fixture
def countdown(monkeypatch):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
    gymnasium.register("Countdown-v0", entry_point=Countdown, max_episode_steps=6)
    return lambda n: make_lockstep("Countdown-v0", n)


def constant(value):
    return lambda observations: np.full((len(observations), 1), value, np.float32)


def ppo(env_id):
    model = PPO("MlpPolicy", make(env_id), n_steps=256, n_epochs=2, seed=3, device="cpu")
    return model.learn(256)


def greedy(model):
    return lambda observations: model.predict(observations, deterministic=True)[0]


def stable_baselines3(model, env_id, episodes, copies):
    envs = DummyVecEnv([lambda: Monitor(make(env_id))] * copies)
    envs.seed(FIRST_SEED)
    return evaluate_policy(model, envs, episodes, return_episode_rewards=True)


@pytest.mark.parametrize("env_id", ["InvertedPendulum-v4", "Hopper-v4", "Humanoid-v4"])
def test_returns_are_those_of_stable_baselines3(env_id):
    model, n = ppo(env_id), 8
    evaluation = evaluate(
        greedy(model), make_lockstep(env_id, n), range(FIRST_SEED, FIRST_SEED + n)
    )
    # SB3 lists episodes as they end; its monitor rounds returns to six places.
    ours = zip(evaluation.returns.round(6), evaluation.lengths, strict=True)
    assert sorted(ours) == sorted(zip(*stable_baselines3(model, env_id, n, n), strict=True))
    assert len(set(evaluation.lengths)) > 1


@pytest.mark.parametrize("env_id", ["InvertedPendulum-v4", "Hopper-v4"])
def test_batch_size_changes_no_more_than_rounding(env_id):
    model = ppo(env_id)
    evaluation = evaluate(greedy(model), make_lockstep(env_id, 5), [FIRST_SEED] * 5)
    returns, lengths = stable_baselines3(model, env_id, 1, 1)
    assert (evaluation.lengths == lengths).all()
    np.testing.assert_allclose(evaluation.returns, returns[0], rtol=1e-4)


def test_normalization_is_applied_before_the_cast_to_float32():
    env = make_training_env(
        "Hopper-v4",
        wrappers="normalized",
        gamma=0.99,
        before_step=lambda: None,
        after_episode=lambda *_: None,
    )
    env.reset(seed=0)
    for _ in range(20):
        env.step(np.zeros(3, np.float32))
    normalize, shown = frozen_normalizer(env), []

    def policy(observations):
        shown.append(observations)
        return np.zeros((len(observations), 3), np.float32)

    evaluate(policy, make_lockstep("Hopper-v4", 3), [1, 2, 3], normalize)
    first = np.stack([make("Hopper-v4").reset(seed=seed)[0] for seed in (1, 2, 3)])
    assert (shown[0] == normalize(first).astype(np.float32)).all()
    assert {(batch.shape, batch.dtype.name) for batch in shown} == {((3, 11), "float32")}


def test_every_episode_is_played_to_its_end_and_no_further(countdown):
    evaluation = evaluate(constant(2.0), countdown(4), [1, 5, 9, 3])
    # The third reaches the time limit.
    assert evaluation.lengths.tolist() == [1, 5, 6, 3]
    assert evaluation.returns.tolist() == [2.0, 10.0, 12.0, 6.0]
    assert evaluation.is_finite


def test_policy_sees_all_rows_until_the_last_episode_ends(countdown):
    batches = []

    def policy(observations):
        batches.append(observations[:, 0].tolist())
        return constant(0.0)(observations)

    evaluate(policy, countdown(3), [1, 2, 4])
    assert batches == [[1, 2, 4], [0, 1, 3], [0, 0, 2], [0, 0, 1]]


@pytest.mark.parametrize(
    ("bad", "steps"),
    [(np.nan, 1), (np.inf, 1), (-1.0, 2), (-2.0, 2)],
    ids=["action is nan", "action is infinite", "reward", "observation"],
)
def test_number_that_is_not_finite_ends_the_episode_with_nan(countdown, bad, steps):
    calls = []

    def policy(observations):
        assert np.isfinite(observations).all()
        calls.append(1)
        actions = constant(1.0)(observations)
        if len(calls) == 2:
            actions[1] = bad
        return actions

    evaluation = evaluate(policy, countdown(3), [3, 4, 5])
    assert np.isnan(evaluation.returns).tolist() == [False, True, False]
    assert evaluation.returns[[0, 2]].tolist() == [3.0, 5.0]
    assert evaluation.lengths.tolist() == [3, steps, 5]
    assert not evaluation.is_finite


def test_observations_that_never_are_finite_end_at_once(countdown):
    evaluation = evaluate(constant(1.0), countdown(2), [3, np.inf])
    assert evaluation.lengths.tolist() == [3, 0]
    assert np.isnan(evaluation.returns).tolist() == [False, True]


def test_observation_too_large_for_float32_is_not_hidden(countdown):
    def enlarge(observations):
        return np.where(observations == 4, 1e300, observations)

    with pytest.warns(RuntimeWarning, match="overflow"):
        evaluation = evaluate(constant(1.0), countdown(2), [3, 5], enlarge)
    assert np.isnan(evaluation.returns).tolist() == [False, True]
    assert evaluation.lengths.tolist() == [3, 1]


def test_actions_reach_the_task_as_the_policy_returns_them(countdown):
    evaluation = evaluate(constant(1e6), countdown(1), [2])
    assert evaluation.returns.tolist() == [2e6]


@pytest.mark.parametrize("shape", [(3,), (2, 1), (3, 2)])
def test_actions_of_another_shape_are_refused(countdown, shape):
    with pytest.raises(ValueError, match="shape"):
        evaluate(lambda _: np.zeros(shape, np.float32), countdown(3), [3, 4, 5])


def test_same_seeds_give_the_same_returns():
    env = make_lockstep("Hopper-v4", 4)
    first, again, other = (
        evaluate(lambda o: np.tanh(o[:, :3]), env, seeds)
        for seeds in ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 5])
    )
    assert (first.returns == again.returns).all()
    assert (first.lengths == again.lengths).all()
    assert (first.returns == other.returns).tolist() == [True, True, True, False]


@pytest.mark.parametrize("env_id", ["Hopper-v4", "Humanoid-v4"])
def test_no_global_random_state_is_touched(env_id):
    def states():
        _, keys, *rest = np.random.get_state()
        return keys.tolist(), rest, random.getstate(), torch.get_rng_state().tolist()

    before = states()
    size = make(env_id).action_space.shape[0]
    evaluate(lambda o: np.tanh(o[:, :size]), make_lockstep(env_id, 2), [1, 2])
    assert states() == before


def test_evaluation_imports_no_framework():
    code = (
        "import sys, harness.evaluation, harness.seeding;"
        "print([m for m in ('torch', 'stable_baselines3') if m in sys.modules])"
    )
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output.strip() == "[]"


def test_each_choice_leads_to_other_initial_states():
    base = {"evaluation_seed": 0, "env_id": "Hopper-v4", "seed": 0, "evaluation": 0}
    changes = [
        {},
        {"evaluation_seed": 1},
        {"env_id": "Hopper-v5"},
        {"seed": 1},
        {"evaluation": 1},
    ]
    env, states = make_lockstep("Hopper-v4", 30), []
    for change in changes:
        states.extend(map(tuple, env.reset(episode_seeds(**base | change, episodes=30))))
    assert len(set(states)) == 30 * len(changes)


def test_episode_seeds_never_change():
    # Published studies must stay repeatable with later versions and on other machines.
    assert episode_seeds(0, "HalfCheetah-v4", 3, 7, 3) == [3190408898, 413036484, 3207928423]


def test_fewer_episodes_are_the_first_of_more():
    assert episode_seeds(5, "Ant-v4", 1, 2, 4) == episode_seeds(5, "Ant-v4", 1, 2, 30)[:4]
