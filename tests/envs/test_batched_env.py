"""Copies of a task that step together do what Gymnasium does with each alone."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest

from parallax.envs.batched_env import (
    GymnasiumBatchedEnv,
    MujocoBatchedEnv,
    find_mujoco_task,
    make_batched_env,
)
from parallax.envs.optional_tasks import PARKING_ENV_ID, is_minatar_game
from parallax.envs.tasks import DISCRETE_TASK_IDS, TASK_IDS, TaskError, make_task_env

PLAIN = ["Humanoid-v4", "Humanoid-v5", "Pendulum-v1", "parking-v0", *DISCRETE_TASK_IDS]
RAW = [env_id for env_id in TASK_IDS if env_id not in PLAIN]
LONG = ("Ant", "HalfCheetah", "Swimmer")  # whose random episodes do not end early
SCALES = (0.05, 0.3, 1.0, 3.0)


def some_actions(env, n, generator):
    """Actions float32[steps, n, size]: gentle, full, out of bounds, and at the bounds."""
    shape = (env.spec.max_episode_steps, n, env.action_space.shape[0])
    scales = np.resize([*SCALES, np.inf], n)[:, None]
    with np.errstate(invalid="ignore"):
        actions = scales * generator.uniform(env.action_space.low, env.action_space.high, shape)
    high = env.action_space.high
    return np.where(np.isinf(actions), np.sign(actions) * high, actions).astype(np.float32)


def alone(env, seed, actions):
    """One complete episode in Gymnasium."""
    first, _ = env.reset(seed=seed)
    steps = []
    for action in actions:
        steps.append(env.step(action)[:4])
        if steps[-1][2] or steps[-1][3]:
            break
    observations, *rest = zip(*steps, strict=True)
    return np.array([first, *observations]), *map(np.array, rest)


def together(lockstep, seeds, actions):
    """The complete episodes of all copies, in the form of `alone`."""
    observations = lockstep.reset(seeds)
    episodes = [([row], [], [], []) for row in observations]
    active = np.ones(len(seeds), np.bool_)
    for action in actions:
        step = lockstep.step(action, active)
        for i in np.flatnonzero(active):
            for column, values in zip(episodes[i], step, strict=True):
                column.append(values[i])
        active &= ~(step[2] | step[3])
    assert not active.any()
    return [tuple(np.array(column) for column in episode) for episode in episodes]


def bits(array):
    return np.asarray(array, np.float64).tobytes()


def assert_equals_gymnasium(env_id, lockstep, n):
    env = make_task_env(env_id)
    actions = some_actions(env, n, np.random.default_rng(n))
    seeds = range(1000, 1000 + n)
    for i, episode in enumerate(together(lockstep, seeds, actions)):
        reference = alone(env, seeds[i], actions[:, i])
        for ours, theirs in zip(episode, reference, strict=True):
            assert ours.shape == theirs.shape
            assert bits(ours) == bits(theirs)


@pytest.mark.parametrize(
    "env_id", [pytest.param(e, marks=pytest.mark.long if e.endswith("-v4") else ()) for e in RAW]
)
def test_raw_stepping_equals_gymnasium_bit_for_bit(env_id):
    n = 5 if env_id.startswith(LONG) else 60
    lockstep = make_batched_env(env_id, n)
    assert isinstance(lockstep, MujocoBatchedEnv)
    assert_equals_gymnasium(env_id, lockstep, n)


@pytest.mark.parametrize("env_id", ["Humanoid-v4", "Hopper-v5"])
def test_plain_stepping_equals_gymnasium_bit_for_bit(env_id):
    lockstep = GymnasiumBatchedEnv([make_task_env(env_id) for _ in range(3)])
    assert_equals_gymnasium(env_id, lockstep, 3)


@pytest.mark.parametrize("env_id", ["Ant-v5", "HalfCheetah-v4", "Reacher-v4"])
def test_reset_leaves_nothing_of_earlier_episodes(env_id):
    fresh, used = make_batched_env(env_id, 3), make_batched_env(env_id, 3)
    actions = some_actions(make_task_env(env_id), 3, np.random.default_rng(0))[:50]
    used.reset([7, 8, 9])
    for action in actions[::-1]:
        used.step(action, np.array([True, False, True]))
    assert bits(fresh.reset([1, 2, 3])) == bits(used.reset([1, 2, 3]))
    for action in actions:
        pair = [lockstep.step(action, np.ones(3, np.bool_)) for lockstep in (fresh, used)]
        assert all(bits(a) == bits(b) for a, b in zip(*pair, strict=True))


@pytest.mark.parametrize("env_id", ["Hopper-v4", "Humanoid-v4"])
def test_finished_environment_repeats_its_observation_with_reward_0(env_id):
    lockstep = make_batched_env(env_id, 2)
    first = lockstep.reset([0, 1]).copy()
    actions = np.ones((2, make_task_env(env_id).action_space.shape[0]), np.float32)
    for _ in range(5):
        observations, rewards, _, _ = lockstep.step(actions, np.array([True, False]))
    assert not (observations[0] == first[0]).all()
    assert bits(observations[1]) == bits(first[1])
    assert rewards[0] != 0 == rewards[1]


def test_diverging_simulation_continues_as_in_gymnasium(monkeypatch):
    # MuJoCo warns, and starts over from the state in the model's file.
    task = type(make_task_env("HalfCheetah-v4").unwrapped)
    reset = task.reset_model

    def reset_and_break(self):
        observation = reset(self)
        self.data.qvel[0] = 1e11
        return observation

    monkeypatch.setattr(task, "reset_model", reset_and_break)
    with pytest.warns(RuntimeWarning, match="MuJoCo: Nan, Inf or huge value in QVEL"):
        assert_equals_gymnasium("HalfCheetah-v4", make_batched_env("HalfCheetah-v4", 1), 1)


@pytest.mark.parametrize("change", ["kwargs", "wrapper", "entry_point"])
def test_user_task_is_stepped_by_gymnasium(change, monkeypatch):
    own = gymnasium.spec("HalfCheetah-v4")
    options = {"entry_point": own.entry_point, "max_episode_steps": 20}
    if change == "kwargs":
        options["kwargs"] = {"ctrl_cost_weight": 5.0}
    elif change == "wrapper":
        halved = gymnasium.wrappers.TransformReward.wrapper_spec(func=lambda reward: reward / 2)
        options["additional_wrappers"] = (halved,)
    else:
        options["entry_point"] = gymnasium.envs.registration.load_env_creator(own.entry_point)
    monkeypatch.delitem(gymnasium.registry, "HalfCheetah-v4")
    gymnasium.register("HalfCheetah-v4", **options)
    lockstep = make_batched_env("HalfCheetah-v4", 5)
    assert isinstance(lockstep, GymnasiumBatchedEnv)
    assert_equals_gymnasium("HalfCheetah-v4", lockstep, 5)


def test_own_time_limit_is_honoured(monkeypatch):
    spec = gymnasium.spec("HalfCheetah-v4")
    monkeypatch.setattr(spec, "max_episode_steps", 7)
    lockstep = make_batched_env("HalfCheetah-v4", 5)
    assert isinstance(lockstep, MujocoBatchedEnv)
    assert_equals_gymnasium("HalfCheetah-v4", lockstep, 5)


@pytest.mark.parametrize("env_id", ["HalfCheetah-v4", "Humanoid-v4"])
def test_wrong_shapes_are_refused(env_id):
    lockstep = make_batched_env(env_id, 2)
    with pytest.raises(ValueError, match="shorter"):
        lockstep.reset([1])
    lockstep.reset([1, 2])
    with pytest.raises(ValueError, match=r"actions have shape \(2, 1\); \(2, "):
        lockstep.step(np.zeros((2, 1), np.float32), np.ones(2, np.bool_))


def test_unknown_task_is_refused():
    with pytest.raises(TaskError, match="env=HalfCheater-v4"):
        make_batched_env("HalfCheater-v4", 2)


def test_no_log_file_is_left_behind():
    for env_id in RAW:
        make_batched_env(env_id, 1).reset([0])
    lockstep = make_batched_env("HalfCheetah-v4", 1)
    lockstep.reset([0])
    with pytest.warns(RuntimeWarning, match="MuJoCo"):
        lockstep.step(np.full((1, 6), np.nan, np.float32), np.ones(1, np.bool_))
    assert not Path("MUJOCO_LOG.TXT").exists()


# Games and parking are registered when they are made.
HERE = [name for name in TASK_IDS if not is_minatar_game(name) and name != PARKING_ENV_ID]
MUJOCO_TASKS = [name for name in HERE if find_mujoco_task(gymnasium.spec(name))]


@pytest.mark.parametrize("env_id", MUJOCO_TASKS)
def test_outcomes_equal_gymnasium_in_rare_states(env_id, monkeypatch):
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
