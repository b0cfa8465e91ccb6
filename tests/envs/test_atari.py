import numpy as np
import pytest

from parallax.envs.make import make_training_env
from parallax.envs.tasks import load_task, make_task_env

pytest.importorskip("ale_py")
pytest.importorskip("cv2")

GAME = "ALE/Breakout-v5"
"""It waits for FIRE, and has five lives of which each ends within some steps without a paddle."""


def test_agents_see_four_grey_frames_of_bytes():
    task = load_task(GAME)
    assert (task.image, task.brightest, task.choices) == ((4, 84, 84), 255, 4)
    env = make_task_env(GAME)
    shown, _ = env.reset(seed=0)
    assert shown.dtype == np.uint8 and shown.shape == (4, 84, 84) and shown.max() > 100
    before = env.unwrapped.ale.getEpisodeFrameNumber()
    env.step(0)
    assert env.unwrapped.ale.getEpisodeFrameNumber() == before + 4


def test_game_that_waits_for_fire_is_started_by_reset():
    env = make_task_env(GAME)
    env.reset(seed=0)
    lives, left = env.unwrapped.ale.lives(), 60
    while env.unwrapped.ale.lives() == lives and left:
        env.step(0)  # which never fires: a ball is on its way
        left -= 1
    assert left


def test_training_uses_life_ends_and_sign_rewards_and_counts_whole_games():
    games, steps = [], []
    env = make_training_env(
        GAME,
        wrappers="none",
        gamma=0.99,
        before_step=lambda: steps.append(1),
        after_episode=lambda total, length: games.append((total, length)),
    )
    generator = np.random.default_rng(0)
    shown, _ = env.reset(seed=0)
    again, _ = env.reset()
    assert shown is not None and again.shape == shown.shape
    ends, rewards, taken = 0, set(), 0
    while not games:
        choice = int(generator.integers(4))
        shown, reward, terminated, truncated, _ = env.step(choice)
        taken, ends = taken + 1, ends + terminated
        rewards.add(float(reward))
        if terminated or truncated:
            assert env.reset()[0].shape == shown.shape
    assert ends == 5 and rewards <= {-1.0, 0.0, 1.0}
    assert len(steps) == taken == games[0][1]
