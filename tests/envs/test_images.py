"""Images of booleans, and the games of MinAtar that show them."""

import sys

import gymnasium
import numpy as np
import pytest

from parallax.envs.batched_env import make_batched_env
from parallax.envs.optional_tasks import FloatImages
from parallax.envs.scripted import IMAGE_ENV_ID
from parallax.envs.tasks import IMAGE_TASK_IDS, TaskError, _read_task, load_task, make_task_env

BREAKOUT = "MinAtar/Breakout-v1"


class Pictures(gymnasium.Env):
    """Shows whatever space it is given."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, space):
        self.observation_space = space


@pytest.fixture
def pictures(monkeypatch):
    def task_showing(space):
        monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
        gymnasium.register("Pictures-v0", entry_point=Pictures, kwargs={"space": space})
        _read_task.cache_clear()
        return "Pictures-v0"

    yield task_showing
    _read_task.cache_clear()


def test_image_values_are_unchanged_and_channels_come_first():
    env = make_task_env(IMAGE_ENV_ID)
    shown, _ = env.reset(seed=0)
    inside, _ = env.env.reset(seed=0)
    assert isinstance(env, FloatImages) and shown in env.observation_space
    assert shown.dtype == np.float32 and shown.flags.c_contiguous
    assert (np.moveaxis(shown, 0, -1) == inside).all() and 0 < shown.mean() < 1
    for channel in range(3):
        assert (shown[channel] == inside[:, :, channel]).all()


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8),
        gymnasium.spaces.Box(0.0, 1.0, (3, 8, 8), np.float32),
        gymnasium.spaces.Box(0, 1, (8, 8), bool),
    ],
)
def test_other_images_are_refused_with_a_remedy(pictures, space):
    with pytest.raises(TaskError, match=r"env=Pictures-v0 has observations Box.*FlattenObserv"):
        load_task(pictures(space))


@pytest.mark.parametrize("env_id", IMAGE_TASK_IDS)
def test_game_equals_upstream_at_every_step(env_id):
    minatar = pytest.importorskip("minatar")
    task, env = load_task(env_id), make_task_env(env_id)
    name = env.unwrapped.game.game_name()
    game = minatar.Environment(name)
    game.seed(3)
    game.reset()
    choices, generator = game.minimal_action_set(), np.random.default_rng(0)
    assert (task.choices, task.observation_size) == (len(choices), np.prod(task.image))
    assert task.image == (game.n_channels, 10, 10)
    shown, _ = env.reset(seed=3)
    ended = False
    for _ in range(50):
        assert (np.moveaxis(shown, 0, -1) == game.state()).all()
        if ended:
            game.reset()
            shown, _ = env.reset()
        choice = generator.integers(len(choices))
        shown, reward, ended, truncated, _ = env.step(choice)
        assert (reward, ended, truncated) == (*game.act(choices[choice]), False)


def test_evaluation_episodes_do_not_depend_on_each_other():
    pytest.importorskip("minatar")
    seeds, active = range(40), np.ones(40, bool)
    fresh, used = make_batched_env(BREAKOUT, 40), make_batched_env(BREAKOUT, 40)
    used.reset(seeds)
    used.step(np.full(40, 2), active)
    steps = []
    for lockstep in (fresh, used):
        lockstep.reset(seeds)
        steps.append(lockstep.step(np.full(40, 1), active)[0])
    assert (steps[0] == steps[1]).all()
    # What upstream remembers would show: some copies repeat the action before.
    repeating = [make_task_env(BREAKOUT) for _ in seeds]
    for env in repeating:
        env.reset(seed=0)
        env.step(2)
    shown = [env.reset(seed=seed) and env.step(1)[0] for seed, env in enumerate(repeating)]
    assert (np.array(shown) != steps[0]).any()


def test_game_is_drawn_as_other_tasks_are():
    pytest.importorskip("minatar")
    env = make_task_env(BREAKOUT, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(0)  # ball and trail part
    picture = env.render()
    assert picture.dtype == np.uint8 and picture.shape == (240, 240, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 3


def test_missing_game_package_error_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "minatar.gym", None)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
    monkeypatch.setattr(gymnasium, "registry", {})
    with pytest.raises(TaskError, match=r"env=MinAtar/Breakout-v1 .*parallax-drl\[minatar\]"):
        make_task_env(BREAKOUT)
