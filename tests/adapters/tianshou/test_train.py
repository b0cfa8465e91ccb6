"""Additions of the adapter to Tianshou's classes."""

import collections
import dataclasses

import numpy as np
import pytest
import support

pytest.importorskip("tianshou")

import torch
from tianshou.data import Batch, ReplayBuffer, VectorReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step

from parallax.adapters.tianshou import TianshouAdapter
from parallax.adapters.tianshou.algorithms import build_algorithm
from parallax.adapters.tianshou.train import (
    COMPILED_CALLS,
    copy_weights,
    load_compiled_function,
    make_buffer,
    predict_actions,
    rename_metrics,
)
from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.recipes import load_recipe

OBSERVATIONS = np.linspace(-50, 50, 40, dtype=np.float32).reshape(10, 4)


CONTINUOUS = [name for name, cls in ALGORITHMS.items() if cls.actions == "continuous"]


@pytest.fixture(params=CONTINUOUS)
def model(request):
    context = RunContext(load_task("InvertedPendulum-v4"), 10_000, seed=0)
    recipe = dataclasses.replace(load_recipe(request.param, "tianshou"), hidden_sizes=(8, 8))
    settings = TianshouAdapter().translate(request.param, recipe, context).settings
    return build_algorithm(request.param, settings, context.task)


def transitions(n_envs, observation=0.5):
    numbers = np.full((n_envs, 3), observation)
    flags = np.zeros(n_envs, dtype=bool)
    return Batch(
        obs=np.zeros((n_envs, 3)),
        act=np.zeros((n_envs, 1)),
        rew=np.zeros(n_envs),
        terminated=flags,
        truncated=flags,
        done=flags,
        obs_next=numbers,
        info=[{"x": 1.0}] * n_envs,
    )


def test_greedy_actions_within_a_training_step_are_equal_and_change_nothing(model):
    outside = predict_actions(model, OBSERVATIONS)
    state = torch.get_rng_state()
    with policy_within_training_step(model.policy):
        model.train()
        inside = predict_actions(model, OBSERVATIONS)
        assert model.policy.is_within_training_step and model.policy.training
    assert np.array_equal(outside, inside) and outside.dtype == np.float32
    assert np.array_equal(state, torch.get_rng_state())
    assert abs(outside).max() <= 3 and len(np.unique(outside)) > 1


def test_noise_and_actions_are_shares_of_half_the_range(model):
    assert model.policy.map_action(np.array([[0.1]])) == pytest.approx(0.3)
    assert model.policy.map_action_inverse(np.array([[3.0]])) == pytest.approx(1.0)


def test_weights_are_copies_of_all_parameters(model):
    before = copy_weights(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    after = copy_weights(model)
    assert all((after[name] != before[name]).all() for name in before)
    assert sum(value.size for value in before.values()) == sum(
        parameter.numel() for parameter in model.parameters()
    )


@pytest.mark.parametrize("n_envs", [1, 2])
def test_nan_is_detected_as_by_upstream(n_envs):
    ours = make_buffer(10, random_seed=0, n_envs=n_envs)
    theirs = ReplayBuffer(10) if n_envs == 1 else VectorReplayBuffer(10, n_envs)
    for number in [0.5] * 7 + [np.nan]:
        for buffer in (ours, theirs):
            buffer.add(transitions(n_envs, number), buffer_ids=np.arange(n_envs))
        assert ours.hasnull() == theirs.hasnull() == np.isnan(number)
    assert np.array_equal(ours.obs_next, theirs.obs_next, equal_nan=True)


def test_metrics_have_one_name_across_frameworks():
    rollout = {"mean": 2.0, "std": 1.0}
    assert rename_metrics({"vf_loss": rollout, "actor_loss": rollout, "gradient_steps": 3}) == {
        "loss/value": 2.0,
        "loss/policy": 2.0,
    }
    assert rename_metrics({"critic1_loss": 1.0, "critic2_loss": 2.0, "alpha": 0.5}) == {
        "loss/critic": 3.0,
        "temperature": 0.5,
    }


SMALL = {
    "ppo": {"rollout_steps": 32, "minibatch_size": 16, "epochs": 1},
    "td3": {"learning_starts": 32, "batch_size": 16, "buffer_size": 100},
}


@pytest.mark.parametrize("n_envs", [1, 2])
@pytest.mark.parametrize("algorithm", SMALL)
def test_trainings_use_compiled_functions_of_the_shared_cache(algorithm, n_envs, tmp_path):
    spec = support.spec(
        "tianshou",
        algorithm,
        hyperparameters=SMALL[algorithm],
        steps=64,
        eval_every=64,
        n_envs=n_envs,
    )
    _, record = support.run(spec, tmp_path)
    assert record["status"] == "completed", record["failure"]
    kinds = collections.Counter((module, name) for module, name, _ in COMPILED_CALLS)
    found = {place: len(load_compiled_function(*place).signatures) for place in kinds}
    assert found == kinds
