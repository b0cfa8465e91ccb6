"""Tianshou's own prioritised buffer, and this project's `per` beside it."""

import numpy as np
import pytest
from tianshou.data import Batch, PrioritizedReplayBuffer

from parallax.adapters.tianshou.train import PrioritySchedule, make_buffer, make_priority_arguments
from parallax.adapters.torch_common.sum_tree import CompiledSumTree
from parallax.harness.conformance.run_folders import check_killed_run
from parallax.harness.contract.replay import make_replay_config
from parallax.harness.replay.replayer import make_replay_strategy


class Same:
    """A generator that hands out what numpy's global one does."""

    def random(self, n):
        return np.random.rand(n)


def transition(number):
    ends = np.array(False)
    parts = {"obs": np.array([number]), "act": np.array(0), "rew": np.array(0.0)}
    return Batch(**parts, terminated=ends, truncated=ends, obs_next=np.array([number]), info={})


@pytest.mark.long
def test_same_random_numbers_give_the_draws_and_weights_of_tianshou():
    fields = {"alpha": 0.7, "beta": 0.4, "beta_final": 0.9, "beta_steps": 40, "epsilon": 1e-3}
    replay = make_replay_config({"name": "per", **fields})
    theirs = PrioritizedReplayBuffer(16, **make_priority_arguments(replay))
    priorities = PrioritySchedule(replay, 1000, theirs)
    ours = make_replay_strategy(replay, 16, 1000, CompiledSumTree)
    numbers = np.random.default_rng(0)
    for number in range(24):  # around the end
        theirs.add(transition(number))
        ours.add()
        priorities.anneal(theirs, ours.added)
        assert ours.beta == theirs._beta
        np.random.seed(number)
        indices = theirs.sample_indices(6)
        np.random.seed(number)
        drawn, weights = ours.sample(Same(), 6)
        np.testing.assert_array_equal(drawn, indices)
        np.testing.assert_allclose(weights, theirs[indices].weight, rtol=1e-12)
        errors = numbers.normal(size=6) * 3
        theirs.update_weight(indices, errors)
        ours.update(drawn, errors)
        places = np.arange(ours.size)
        stored = theirs.weight[places] / theirs.weight.reduce()
        np.testing.assert_allclose(ours.compute_probabilities(places), stored, rtol=1e-12)


def test_beta_of_several_environments_reaches_the_weights():
    replay = make_replay_config({"name": "per", "beta": 0.2, "beta_final": 1.0})
    buffer = make_buffer(8, 0, n_envs=2, replay=replay)
    PrioritySchedule(replay, 100, buffer).anneal(buffer, 50)
    assert buffer._beta == pytest.approx(0.6)


@pytest.mark.parametrize("algorithm", ["dqn"])
def test_killed_run_resumes_bit_identically(algorithm, tmp_path):
    check_killed_run("tianshou", algorithm, tmp_path / "run", replay=make_replay_config("per"))
