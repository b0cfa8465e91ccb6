"""States of environments and random generators, and restoring them."""

import random

import gymnasium
import numpy as np
import pytest
import torch

from parallax.harness.contract.state_codec import StateMismatchError
from parallax.harness.train import env_states
from parallax.harness.train.checkpointing import CheckpointManager


def play(env, actions):
    return [env.step(action)[:4] for action in actions]


@pytest.mark.parametrize("env_id", ["Hopper-v4", "InvertedPendulum-v5", "Pendulum-v1"])
def test_environments_resume_bit_identically(env_id):
    first, second = (gymnasium.make(env_id) for _ in range(2))
    first.action_space.seed(0)
    actions = [first.action_space.sample() for _ in range(12)]
    first.reset(seed=3)
    second.reset(seed=4)
    play(first, actions[:5])
    play(second, actions[5:8])
    env_states.load_env_states([second], env_states.read_env_states([first]))
    for one, other in zip(play(first, actions[5:]), play(second, actions[5:]), strict=True):
        assert one[0].tobytes() == other[0].tobytes() and one[1:] == other[1:]
    assert first.reset()[0].tobytes() == second.reset()[0].tobytes()


def test_states_of_other_environments_are_refused():
    envs = [gymnasium.make("Hopper-v4"), gymnasium.make("Walker2d-v4")]
    for env in envs:
        env.reset(seed=0)
    states = env_states.read_env_states(envs)
    with pytest.raises(StateMismatchError, match="there are 1 environments, but the state has 2"):
        env_states.load_env_states(envs[:1], states)
    with pytest.raises(StateMismatchError):
        env_states.load_env_states(envs[::-1], states)
    for live in (None, envs[1].unwrapped.data):
        simulation = env_states._read_simulation(envs[0].unwrapped.data, None)
        with pytest.raises(StateMismatchError, match="another model"):
            env_states._write_simulation(live, simulation, None)


def test_atari_game_resumes_from_its_state():
    ale_py = pytest.importorskip("ale_py")

    def begin():
        emulator = ale_py.ALEInterface()
        emulator.setInt("random_seed", 1)
        emulator.loadROM(ale_py.roms.get_rom_path("pong"))
        return emulator

    first, second = begin(), begin()
    for _ in range(200):
        first.act(ale_py.Action.UP)
    state = env_states._read_emulator(first, None)
    assert env_states._write_emulator(second, state, None) is second
    for _ in range(50):
        assert first.act(ale_py.Action.DOWN) == second.act(ale_py.Action.DOWN)
    assert (first.getRAM() == second.getRAM()).all()
    assert first.getFrameNumber() == second.getFrameNumber()
    with pytest.raises(StateMismatchError, match="has a game emulator"):
        env_states._write_emulator(None, state, None)


def test_random_number_generators_resume():
    def draw():
        return random.random(), random.gauss(0, 1), float(np.random.normal()), float(torch.rand(()))

    draw()  # leaves a second value of `gauss`
    state = env_states.read_rng_state()
    first = draw()
    assert draw() != first
    env_states.load_rng_state(state)
    assert draw() == first
    env_states.load_rng_state(state | {"torch": None})
    assert draw()[:3] == first[:3]


class Enemy:
    """An object that a task of this module creates in the middle of an episode."""


class Layer:
    """A wrapper of this module."""

    def __init__(self, env):
        self.env = env


def test_objects_of_environment_modules_may_be_created_in_an_episode():
    env = Layer(gymnasium.make("Pendulum-v1"))
    types_of_env = env_states._own_types([env])
    names = {kind.__name__ for kind in types_of_env}
    assert {"Layer", "Enemy", "PendulumEnv", "TimeLimit", "OrderEnforcing"} <= names
    assert CheckpointManager not in types_of_env and types_of_env.count(Layer) == 1
    modules = [kind.__module__ for kind in types_of_env]
    assert modules == sorted(modules)


def test_results_of_a_simulation_are_its_arrays_of_numbers():
    class Data:
        qpos, flags, names = np.ones(2), np.array([True]), np.array(["a"])
        empty, number, contact, efc_force, _own = np.ones(0), 3, np.ones(1), np.ones(1), np.ones(1)
        island_id, map_x, iefc_x, efm_x = (np.ones(1) for _ in range(4))

    assert env_states._get_computed_arrays(Data()) == {"qpos": Data.qpos, "flags": Data.flags}


def test_simulation_resumes_with_its_own_model_only():
    """Bodies of other masses, from an edited file or a task that draws them, are another task."""
    envs = [gymnasium.make("InvertedPendulum-v5") for _ in range(2)]
    for env in envs:
        env.reset(seed=0)
    state = env_states.read_env_states(envs[:1])
    env_states.load_env_states(envs[1:], state)
    envs[1].unwrapped.model.body_mass[1] *= 2
    with pytest.raises(StateMismatchError, match="model is another one"):
        env_states.load_env_states(envs[1:], state)
