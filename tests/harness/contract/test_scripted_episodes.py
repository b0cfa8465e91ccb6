"""Scripted episodes, and the drivers that play them."""

import functools

import gymnasium
import numpy as np
import pytest
import support
from numpy.testing import assert_array_equal

from parallax.harness.contract.probing.environments import (
    BOTH,
    TERMINATED,
    TRUNCATED,
    EnvironmentDriver,
    EnvMaker,
    EpisodeScript,
    SingleEnvDriver,
    locate_source,
    make_env_makers,
    make_missing_implementation,
    make_single_env,
    read_episode,
)

SCRIPT = EpisodeScript(copy=2, ends=((2, TERMINATED), (1, TRUNCATED), (3, BOTH)), low=-2, high=3)


def test_episodes_have_their_ends_in_order_and_repeat_the_last():
    assert [SCRIPT.get_end(episode)[0] for episode in range(5)] == [2, 1, 3, 3, 3]
    flags = [SCRIPT.compute_flags(0, step) for step in (1, 2, 3)]
    assert flags == [(False, False), (True, False), (True, False)]
    assert SCRIPT.compute_flags(1, 1) == (False, True)
    assert [SCRIPT.compute_flags(2, step) for step in (2, 3)] == [(False, False), (True, True)]


def test_observation_encodes_its_source():
    found = SCRIPT.compute_observation(3, 4, received=0.5, draw=0.25)
    wave = 3 + 2 * np.sin(1.3 * 4 + 0.9 * 3 + 0.7 * 2)
    np.testing.assert_allclose(found, [2, 3, 4, wave, 0.5, 0.25])
    assert SCRIPT.compute_reward(3, 4) == pytest.approx(1 + np.cos(0.8 * 4 + 0.5 * 3 + 0.3 * 2))


def test_the_scripted_task_follows_its_script_and_receives_actions():
    env = make_single_env(SCRIPT)
    assert (env.action_space.low, env.action_space.high) == (-2, 3)
    assert env.observation_space.shape == (6,) and env.observation_space.dtype == np.float32
    first, info = env.reset(seed=1)
    assert_array_equal(first[[0, 1, 2, 4, 5]], [2, 0, 0, 0, 0])
    assert info == {} and first.dtype == np.float32
    observation, reward, terminated, truncated, info = env.step(np.array([0.5]))
    assert_array_equal(observation[[0, 1, 2, 4, 5]], [2, 0, 1, 0.5, 0])
    assert reward == SCRIPT.compute_reward(0, 1) and info == {}
    assert (terminated, truncated) == (False, False)
    assert env.step([0.0])[2:4] == (True, False)
    assert env.reset()[0][[1, 2]].tolist() == [1, 0]
    assert env.step([0.0])[2:4] == (False, True)


def test_scripted_resets_draw_a_seeded_number_on_request():
    env = EnvMaker(EpisodeScript(draws=True))()
    draws = [float(env.reset(seed=seed)[0][5]) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2] and draws[0] != 0
    later = float(env.reset()[0][5])
    assert later != draws[2]
    assert float(env.step([0.0])[0][5]) == pytest.approx(later)
    assert [maker().script.copy for maker in make_env_makers([SCRIPT, EpisodeScript()])] == [2, 0]


def test_the_driver_of_one_environment_resets_at_the_end_of_an_episode():
    env = gymnasium.wrappers.RecordEpisodeStatistics(make_single_env(SCRIPT))
    frozen = []
    driver = SingleEnvDriver(env, lambda: frozen.append(True))
    assert (driver.n_envs, driver.autoreset, driver.observation_space.shape) == (1, "caller", (6,))
    assert driver.reset(seed=3).shape == (1, 6)
    step = driver.step(np.zeros((1, 1), np.float32))
    assert step.final_observations == (None,) and step.episodes == (None,)
    assert step.rewards.tolist() == [SCRIPT.compute_reward(0, 1)]
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([False], [False])
    assert step.observations[0, 2] == 1
    step = driver.step(np.zeros((1, 1), np.float32))
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([True], [False])
    assert step.final_observations[0][:3].tolist() == [2, 0, 2]
    assert step.observations[0, :3].tolist() == [2, 1, 0]
    total = SCRIPT.compute_reward(0, 1) + SCRIPT.compute_reward(0, 2)
    assert step.episodes == ((pytest.approx(total), 2.0),)
    assert driver.step(np.zeros((1, 1))).truncated.tolist() == [True]
    driver.freeze()
    assert frozen == [True]
    closed = []
    env.close = lambda: closed.append(True)
    driver.close()
    assert closed == [True]


def test_features_missing_in_an_implementation_raise():
    with pytest.raises(NotImplementedError, match="no switch"):
        SingleEnvDriver(make_single_env(SCRIPT)).freeze()
    missing = make_missing_implementation("a", ["b"], "it is not installed")
    assert (missing.name, missing.roles, missing.missing) == ("a", ("b",), "it is not installed")
    with pytest.raises(NotImplementedError, match="it is not installed"):
        missing.make([SCRIPT])
    for call in ("reset", "freeze"):
        with pytest.raises(NotImplementedError):
            getattr(EnvironmentDriver(), call)()


def test_recorded_episodes_are_return_and_length():
    assert read_episode(None) is None
    assert read_episode({"r": np.array([1.5, 9]), "l": 7}) == (1.5, 7.0)


def test_source_location_is_package_file_and_line(tmp_path):
    folder = tmp_path / "site-packages" / "somebody"
    folder.mkdir(parents=True)
    (folder / "own.py").write_text("\n\ndef first():\n    a = 1\n    return a + 2\n")
    module = support.load_file(folder / "own.py")
    assert locate_source(module.first, "return") == "somebody/own.py:5"
    assert locate_source(module.first, "") == "somebody/own.py:3"
    assert locate_source(module.first, "not there") == "somebody/own.py:3"
    assert locate_source(functools.wraps(module.first)(lambda: 0), "return") == "somebody/own.py:5"
    here = locate_source(test_source_location_is_package_file_and_line, "folder = ")
    assert here.startswith("harness/contract/test_scripted_episodes.py:")
    assert locate_source(len, "x") == ""
