"""Tasks that need a memory show what they say, and pay a memory only."""

import gymnasium
import numpy as np
import pytest

from parallax.envs.batched_env import make_batched_env
from parallax.envs.tasks import MEMORY_TASK_IDS, TaskError, load_task, make_task_env


@pytest.mark.parametrize(
    ("hidden", "whole", "seen", "action"),
    [
        ("CartPoleHidden-v0", "CartPole-v1", [0, 2], 1),
        ("PendulumHidden-v0", "Pendulum-v1", [0, 1], np.array([0.5], np.float32)),
    ],
)
def test_masked_task_differs_only_in_hidden_velocities(hidden, whole, seen, action):
    ours, theirs = make_task_env(hidden), gymnasium.make(whole)
    np.testing.assert_array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0][seen])
    assert ours.spec.max_episode_steps == theirs.spec.max_episode_steps
    for _ in range(8):
        (observation, *rest), (other, *others) = ours.step(action), theirs.step(action)
        np.testing.assert_array_equal(observation, other[seen])
        assert rest == others
        assert observation in ours.observation_space
    assert load_task(hidden).observation_size == 2


@pytest.mark.parametrize("length", [1, 2, 7])
def test_memory_chain_shows_its_cue_once_and_rewards_it_at_the_end(length):
    env = make_task_env(f"MemoryChain-{length}-v0")
    cues = set()
    for seed in range(8):
        shown, _ = env.reset(seed=seed)
        cue = int(shown[0])
        cues.add(cue)
        for step in range(length):
            assert shown.tolist() == [cue if step == 0 else 0, step == length - 1]
            right = (cue + 1) // 2
            action = right if seed % 2 else 1 - right
            shown, reward, terminated, truncated, _ = env.step(action)
            worth = (1 if seed % 2 else -1) if step == length - 1 else 0
            assert (reward, terminated, truncated) == (worth, step == length - 1, False)
    assert cues == {-1, 1}


def test_memory_chain_observations_do_not_reveal_the_cue():
    # The final observation is the same for every cue.
    env, seen = make_task_env("MemoryChain-5-v0"), set()
    for seed in range(8):
        env.reset(seed=seed)
        for _ in range(4):
            shown = env.step(0)[0]
        seen.add(tuple(shown.tolist()))
    assert seen == {(0.0, 1.0)}


@pytest.mark.parametrize("env_id", MEMORY_TASK_IDS)
def test_memory_tasks_step_in_batches(env_id):
    task = load_task(env_id)
    copies = make_batched_env(env_id, 3)
    assert copies.reset([1, 2, 3]).shape == (3, 2)
    actions = np.zeros(3, np.int64) if task.choices else np.zeros((3, 1), np.float32)
    assert copies.step(actions, np.ones(3, np.bool_))[0].shape == (3, 2)


def test_chain_without_a_step_is_refused():
    with pytest.raises(TaskError, match=r"MemoryChain-0-v0 cannot be made: a chain of length 0"):
        make_task_env("MemoryChain-0-v0")
