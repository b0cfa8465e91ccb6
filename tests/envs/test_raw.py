"""The formulas of raw stepping, apart from the physics."""

import gymnasium
import numpy as np
import pytest

from parallax.envs.batched_env import find_mujoco_task
from parallax.envs.optional_tasks import PARKING_ENV_ID, is_minatar_game
from parallax.envs.tasks import TASK_IDS, make_task_env

# Games and parking are registered when they are made.
HERE = [name for name in TASK_IDS if not is_minatar_game(name) and name != PARKING_ENV_ID]
RAW = [name for name in HERE if find_mujoco_task(gymnasium.spec(name))]


@pytest.mark.parametrize("env_id", RAW)
def test_outcomes_equal_gymnasiums_in_states_that_play_seldom_reaches(env_id, monkeypatch):
    env, task = make_task_env(env_id).unwrapped, find_mujoco_task(gymnasium.spec(env_id))
    env.reset(seed=0)
    views = {"qpos": env.data.qpos, "qvel": env.data.qvel, **task.extras(env.data)}
    generator = np.random.default_rng(0)
    before, after = (
        {name: unusual(view.copy(), 3000, generator) for name, view in views.items()}
        for _ in range(2)
    )
    actions = unusual(np.zeros(env.model.nu), 3000, generator).astype(np.float32)

    def put(state):
        for name, view in views.items():
            view[:] = state[name][i]

    monkeypatch.setattr(env, "do_simulation", lambda *_: put(after))
    with np.errstate(all="ignore"):
        ours = task.outcome(before, after, actions, env.dt)
        for i in range(len(actions)):
            put(before)
            theirs = env.step(actions[i])
            for rows, value in zip(ours, theirs, strict=False):
                assert np.array_equal(rows[i], value, equal_nan=True)
    assert np.isnan(ours[1]).any() or "InvertedPendulum" in env_id


def unusual(usual, n, generator):
    """Values float64[n, size] near and far from the usual ones, some of them not finite."""
    sizes = 10 ** generator.uniform(-2, 2.5, (n, 1))
    values = usual + sizes * generator.normal(size=(n, usual.size))
    odd = generator.random(values.shape) < 0.01
    return np.where(odd, generator.choice([np.nan, np.inf, -np.inf], values.shape), values)
