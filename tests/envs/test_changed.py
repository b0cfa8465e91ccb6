"""Wrappers that plant faults into a task."""

import gymnasium
import numpy as np
import pytest

from parallax.envs.changed import NoisyReward, ReplayedAnswer


class CountedSteps(gymnasium.Env):
    """The n-th step has the observation n and the reward -n."""

    observation_space = gymnasium.spaces.Box(0, 10_000, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([self.steps], np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.array([self.steps], np.float32), -self.steps, self.steps % 7 == 0, False, {}


def play(env, steps):
    env.reset(seed=3)
    answers = [env.step(0) for _ in range(steps)]
    observations, rewards = (np.ravel([answer[i] for answer in answers]) for i in (0, 1))
    return observations, -rewards, [answer[2] for answer in answers]


def test_repeat_returns_the_previous_step_and_leaves_ends_unchanged():
    observations, rewards, ends = play(ReplayedAnswer(CountedSteps(), "repeat"), 15)
    assert list(observations) == list(rewards) == [1, *range(1, 15)]
    assert [i + 1 for i, end in enumerate(ends) if end] == [7, 14]


def test_random_answers_use_one_of_1000_last_steps_and_mangled_ones_two():
    observations, rewards, _ = play(ReplayedAnswer(CountedSteps(), "random"), 3000)
    assert np.array_equal(observations, rewards)
    ages = np.arange(1, 3001) - observations
    assert ages.min() >= 0 and 900 < ages[1000:].max() < 1000
    observations, rewards, _ = play(ReplayedAnswer(CountedSteps(), "mangled"), 3000)
    assert np.mean(observations == rewards) < 0.05


def test_reward_noise_is_proportional_and_seeded():
    rewards = play(NoisyReward(CountedSteps(), 0.1), 3000)[1]
    noise = rewards / np.arange(1, 3001) - 1
    assert noise.mean() == pytest.approx(0, abs=0.01) and noise.std() == pytest.approx(
        0.1, abs=0.01
    )
    assert np.array_equal(rewards, play(NoisyReward(CountedSteps(), 0.1), 3000)[1])
