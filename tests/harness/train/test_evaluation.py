"""Evaluation: the numbers SB3's own gives, episode by episode, and nothing else touched."""

import random
import subprocess
import sys

import numpy as np
import pytest
import support
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from parallax.envs.batched_env import make_batched_env
from parallax.envs.make import make_frozen_normalizer, make_training_env
from parallax.envs.tasks import make_task_env
from parallax.harness.contract.events import TrainingEvents
from parallax.harness.train.evaluation import (
    REFERENCE_INDEX,
    PolicyEvaluator,
    _prepare_observations,
    _stop_late,
    compute_episode_seeds,
    evaluate_greedy_policy,
)

FIRST_SEED = 40


def ppo(env_id):
    model = PPO("MlpPolicy", make_task_env(env_id), n_steps=256, n_epochs=2, seed=3, device="cpu")
    return model.learn(256)


def greedy(model):
    return lambda observations: model.predict(observations, deterministic=True)[0]


def stable_baselines3(model, env_id, episodes, copies):
    envs = DummyVecEnv([lambda: Monitor(make_task_env(env_id))] * copies)
    envs.seed(FIRST_SEED)
    return evaluate_policy(model, envs, episodes, return_episode_rewards=True)


@pytest.mark.parametrize("env_id", ["InvertedPendulum-v4", "Hopper-v4", "Humanoid-v4"])
def test_returns_equal_those_of_stable_baselines3(env_id):
    model, n = ppo(env_id), 8
    evaluation = evaluate_greedy_policy(
        greedy(model), make_batched_env(env_id, n), range(FIRST_SEED, FIRST_SEED + n)
    )
    # SB3 lists episodes as they end; its monitor rounds returns to six places.
    ours = zip(evaluation.returns.round(6), evaluation.lengths, strict=True)
    assert sorted(ours) == sorted(zip(*stable_baselines3(model, env_id, n, n), strict=True))
    assert len(set(evaluation.lengths)) > 1


@pytest.mark.parametrize("env_id", ["InvertedPendulum-v4", "Hopper-v4"])
def test_batch_size_changes_no_more_than_rounding(env_id):
    model = ppo(env_id)
    evaluation = evaluate_greedy_policy(
        greedy(model), make_batched_env(env_id, 5), [FIRST_SEED] * 5
    )
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
    normalize, shown = make_frozen_normalizer(env), []

    def policy(observations):
        shown.append(observations)
        return np.zeros((len(observations), 3), np.float32)

    evaluate_greedy_policy(policy, make_batched_env("Hopper-v4", 3), [1, 2, 3], normalize)
    first = np.stack([make_task_env("Hopper-v4").reset(seed=seed)[0] for seed in (1, 2, 3)])
    assert (shown[0] == normalize(first).astype(np.float32)).all()
    assert {(batch.shape, batch.dtype.name) for batch in shown} == {((3, 11), "float32")}


def test_same_seeds_give_the_same_returns():
    env = make_batched_env("Hopper-v4", 4)
    first, again, other = (
        evaluate_greedy_policy(lambda o: np.tanh(o[:, :3]), env, seeds)
        for seeds in ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 5])
    )
    assert (first.returns == again.returns).all()
    assert (first.lengths == again.lengths).all()
    assert (first.returns == other.returns).tolist() == [True, True, True, False]


@pytest.mark.parametrize("env_id", ["Hopper-v4", "Humanoid-v4"])
def test_global_random_state_is_unchanged(env_id):
    def states():
        _, keys, *rest = np.random.get_state()
        return keys.tolist(), rest, random.getstate(), torch.get_rng_state().tolist()

    before = states()
    size = make_task_env(env_id).action_space.shape[0]
    evaluate_greedy_policy(lambda o: np.tanh(o[:, :size]), make_batched_env(env_id, 2), [1, 2])
    assert states() == before


def test_evaluation_imports_no_framework():
    code = (
        "import sys, parallax.harness.train.evaluation, parallax.harness.train.monitor;"
        "print([m for m in ('torch', 'stable_baselines3') if m in sys.modules])"
    )
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output.strip() == "[]"


@pytest.mark.parametrize("kwargs", [{}, {"g": 5.0}])
def test_untrained_policies_are_measured_for_unpublished_tasks(kwargs):
    spec = support.spec("sb3", env="Pendulum-v1", env_kwargs=kwargs, eval_episodes=6)
    evaluator = PolicyEvaluator(spec, TrainingEvents(), lambda: lambda observations: observations)
    found = evaluator.measure_references()
    assert set(found) == ({"do nothing", "random actions"} if kwargs else set())
    if kwargs:
        env, returns = make_task_env("Pendulum-v1", **kwargs), []
        for seed in compute_episode_seeds(0, "Pendulum-v1", spec.seed, REFERENCE_INDEX, 6):
            env.reset(seed=seed)
            returns.append(sum(float(env.step(np.zeros(1, np.float32))[1]) for _ in range(200)))
        assert found["do nothing"]["mean"] == pytest.approx(np.mean(returns))
        assert found["do nothing"]["sd"] == pytest.approx(np.std(returns, ddof=1))
        assert found["random actions"]["mean"] != found["do nothing"]["mean"]
    assert evaluator.measure_references() == found


def test_do_nothing_reference_is_the_best_constant_discrete_action():
    spec = support.spec(
        "sb3", env="CartPole-v1", env_wrappers=("gymnasium.wrappers:FlattenObservation",)
    )
    evaluator = PolicyEvaluator(spec, TrainingEvents(), lambda: lambda observations: observations)
    found = evaluator.measure_references()
    assert 8 < found["do nothing"]["mean"] < 11 < found["random actions"]["mean"] < 40


@pytest.mark.parametrize(("limit", "is_finite"), [(12, False), (201, True)])
def test_policy_without_episode_ends_is_no_reference(limit, is_finite):
    """An episode of Pendulum has 200 steps."""
    act = _stop_late(lambda shown: np.zeros((len(shown), 1)), limit)
    found = evaluate_greedy_policy(act, make_batched_env("Pendulum-v1", 3), range(3))
    assert found.is_finite == is_finite


def test_non_finite_observations_become_zeros():
    observations = np.array([[1, 2], [np.nan, 3], [4, np.inf]])
    shown, sound = _prepare_observations(observations)
    assert shown.tolist() == [[1, 2], [0, 0], [0, 0]] and sound.tolist() == [True, False, False]
    assert shown.dtype == np.float32 and np.isnan(observations[1, 0])
