"""Properties of tasks, and the wrappers of training environments."""

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import NormalizeObservation
from loops import iterate_some

from parallax.envs.make import (
    NORMALIZATION_CLIP,
    make_frozen_normalizer,
    make_training_env,
    share_statistics,
)
from parallax.envs.optional_tasks import PARKING_ENV_ID
from parallax.envs.tasks import (
    DISCRETE_TASK_IDS,
    IMAGE_TASK_IDS,
    TASK_IDS,
    TaskError,
    load_task,
    make_task_env,
)

ENV = "Hopper-v4"


class Box(gymnasium.Env):
    """A task with spaces to choose."""

    def __init__(self, observations=(2,), low=-1.0, actions=(1,)):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, observations)
        self.action_space = gymnasium.spaces.Box(low, 1.0, actions)


@pytest.fixture
def register(monkeypatch):
    def register_as(env_id, **options):
        monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
        gymnasium.register(env_id, **options)

    return register_as


def training_env(wrappers="none", before_step=lambda: None, after_episode=lambda *_: None):
    return make_training_env(
        ENV, wrappers=wrappers, gamma=0.99, before_step=before_step, after_episode=after_episode
    )


def play(env, steps, seed=0):
    """Random steps, every reset seeded: observations, rewards, and what ended an episode."""
    generator = np.random.default_rng(seed)
    rows = [(env.reset(seed=seed)[0], 0.0, False)]
    for _ in range(steps):
        action = generator.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        observation, reward, terminated, truncated, _ = env.step(action)
        rows.append((observation, reward, terminated or truncated))
        if rows[-1][2]:
            env.reset(seed=seed + len(rows))
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("env_id", TASK_IDS)
def test_task_table_agrees_with_gymnasium(env_id):
    if env_id.startswith("LunarLander"):
        pytest.importorskip("Box2D")
    if env_id in IMAGE_TASK_IDS:
        pytest.importorskip("minatar")
    if env_id == PARKING_ENV_ID:
        pytest.importorskip("highway_env")
    task, env = load_task(env_id), make_task_env(env_id)
    assert task.env_id == env_id
    assert (task.image or (task.observation_size,)) == env.observation_space.shape
    if env_id in DISCRETE_TASK_IDS:
        assert (task.actions, task.choices) == ("discrete", env.action_space.n)
        assert task.action_size == 0
    else:
        assert (task.actions, task.choices) == ("continuous", 0)
        assert task.action_size == env.action_space.shape[0]
        assert task.action_low == tuple(env.action_space.low)
        assert task.action_high == tuple(env.action_space.high)
    assert task.max_episode_steps == (env.spec.max_episode_steps or 0)


def test_tasks_of_the_thesis_exist():
    assert {"HalfCheetah-v4", "Hopper-v4", "Walker2d-v4", "Ant-v4", "Swimmer-v4"} < set(TASK_IDS)


@pytest.mark.filterwarnings("error::DeprecationWarning")
def test_version_4_causes_no_deprecation_warning():
    assert make_task_env("HalfCheetah-v4").spec.id == "HalfCheetah-v4"


def test_unknown_task_is_named():
    with pytest.raises(TaskError, match="env=Hoppper-v4 cannot be made"):
        make_task_env("Hoppper-v4")


def test_task_whose_code_raises_is_named(register):
    def fail(**options):
        raise ImportError("a library is missing")

    register("Broken-v0", entry_point=fail)
    with pytest.raises(TaskError, match="env=Broken-v0 cannot be made: a library is missing"):
        load_task("Broken-v0")


def test_task_that_ends_python_is_named(register, tmp_path, monkeypatch):
    def end_python(**options):
        raise SystemExit(0)

    register("Ending-v0", entry_point=end_python)
    with pytest.raises(TaskError, match="env=Ending-v0 cannot be made: SystemExit"):
        load_task("Ending-v0")
    (tmp_path / "module_that_ends_python.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TaskError, match="cannot be made: SystemExit"):
        make_task_env("module_that_ends_python:Task-v0")
    register("Plain-v0", entry_point=Box)
    with pytest.raises(TaskError, match="module_that_ends_python:Wrapper cannot be used: SystemE"):
        make_task_env("Plain-v0", ["module_that_ends_python:Wrapper"])


def test_task_without_a_time_limit_has_limit_zero(register):
    register("Endless-v0", entry_point=Box)
    assert load_task("Endless-v0").max_episode_steps == 0


def test_time_limits_that_no_evaluation_could_reach_are_refused():
    for limit in (-1, 0, 1_000_001, 10**30, 2.5, "5", True):
        with pytest.raises(TaskError, match=r"max_episode_steps=.* from 1 to 1,000,000"):
            make_task_env("Pendulum-v1", max_episode_steps=limit)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Image", {"observations": (3, 3)}, "a flat Box is needed"),
        ("Grid", {"actions": (2, 2)}, "a flat Box or Discrete is needed"),
        ("Unbounded", {"low": -np.inf}, "give them bounds"),
    ],
)
def test_task_that_cannot_be_used_is_refused(register, name, options, message):
    register(f"{name}-v0", entry_point=Box, kwargs=options)
    with pytest.raises(TaskError, match=rf"env={name}-v0 has .*{message}"):
        load_task(f"{name}-v0")


def test_discrete_task_has_a_number_of_choices():
    task = load_task("CartPole-v1")
    assert (task.actions, task.choices, task.action_low) == ("discrete", 2, ())


@pytest.mark.parametrize("wrappers", ["none", "normalized"])
def test_hooks_report_unwrapped_steps_and_returns(wrappers):
    steps, episodes = [], []
    env = training_env(
        wrappers,
        before_step=lambda: steps.append(1),
        after_episode=lambda *episode: episodes.append(episode),
    )
    play(env, 300)
    assert len(steps) == 300
    _, rewards, ends = play(make_task_env(ENV), 300)
    bounds = [0, *np.flatnonzero(ends)]
    assert len(bounds) > 5
    assert episodes == [
        (sum(rewards[start + 1 : end + 1].tolist()), end - start)
        for start, end in itertools.pairwise(bounds)
    ]


def test_step_hook_is_called_before_the_step():
    env = training_env(before_step=lambda: times.append(env.unwrapped.data.time))
    times = []
    play(env, 2)
    assert times == [0.0, pytest.approx(env.unwrapped.dt)]


def test_without_wrappers_the_task_is_unchanged():
    for ours, theirs in iterate_some(
        zip(play(training_env(), 15), play(make_task_env(ENV), 15), strict=True)
    ):
        assert (ours == theirs).all()


def test_normalized_observations_and_rewards_are_clipped():
    observations, rewards, _ = play(training_env("normalized"), 300)
    assert np.abs(observations).max() <= NORMALIZATION_CLIP
    assert np.abs(rewards).max() <= NORMALIZATION_CLIP
    assert not (rewards[1:16] == play(make_task_env(ENV), 15)[1][1:]).any()


def test_frozen_normalizer_equals_the_wrappers():
    env = training_env("normalized")
    play(env, 300)
    normalize = make_frozen_normalizer(env)
    layer = env
    while not isinstance(layer, NormalizeObservation):
        layer = layer.env
    layer.update_running_mean = False
    shown, _, _ = play(env, 15, seed=7)
    task_own, _, _ = play(make_task_env(ENV), 15, seed=7)
    assert (normalize(task_own).astype(np.float32) == shown).all()
    assert (normalize(task_own * 1e6).astype(np.float32) <= NORMALIZATION_CLIP).all()


def test_frozen_normalizer_is_independent_of_training():
    env, undisturbed = training_env("normalized"), training_env("normalized")
    batch = np.random.default_rng(0).normal(size=(5, 11))
    play(env, 15)
    normalize = make_frozen_normalizer(env)
    before = normalize(batch)
    play(undisturbed, 15)
    for ours, theirs in zip(play(env, 15, 1), play(undisturbed, 15, 1), strict=True):
        assert (ours == theirs).all()
    assert (normalize(batch) == before).all()
    assert not (make_frozen_normalizer(env)(batch) == before).all()


def test_frozen_normalizer_is_the_identity_without_wrappers():
    batch = np.random.default_rng(0).normal(size=(5, 11))
    assert (make_frozen_normalizer(training_env())(batch) == batch).all()


def test_environments_that_share_statistics_normalize_identically():
    first, other = training_env("normalized"), training_env("normalized")
    share_statistics(first, other)
    batch = np.random.default_rng(0).normal(size=(5, 11))
    for env in (first, other):
        play(env, 15)
        assert (make_frozen_normalizer(first)(batch) == make_frozen_normalizer(other)(batch)).all()


def test_unknown_task_argument_error_names_the_closest_and_all_arguments():
    with pytest.raises(TaskError, match=r"env\.kwargs\.gg=3 .* env\.kwargs\.g\? It takes g\."):
        make_task_env("Pendulum-v1", gg=3)


def test_a_value_that_a_task_cannot_compute_with_is_refused_before_training():
    with pytest.raises(TaskError, match=r"Pendulum-v1 cannot be stepped with env\.kwargs\.g=null"):
        load_task("Pendulum-v1", g=None)


def test_steps_of_another_process_are_reported_as_local_ones():
    """A copy of an environment takes the steps, and the one that stays reports the same events."""

    def make(events):
        return make_training_env(
            "CartPole-v1",
            wrappers="none",
            gamma=0.99,
            before_step=lambda: events.append("step"),
            before_reset=lambda: events.append("reset"),
            after_episode=lambda *episode: events.append(episode),
            after_step=lambda action, *_: events.append(action),
        )

    here, there, silent = [], [], []
    taking, reporting, copy = make(here), make(there), make(silent)
    copy.silence()
    for env in (taking, copy):
        env.reset(seed=0)
    starts = True
    for _ in range(30):
        taking.step(1)
        observation, reward, terminated, truncated, _ = copy.step(1)
        reporting.replay(starts, 1, observation, reward, terminated, truncated)
        starts = terminated
        if terminated:
            taking.reset(seed=1)
            copy.reset(seed=1)
    assert here == there and not silent
    assert here[:3] == ["reset", "step", 1] and [e for e in here if isinstance(e, tuple)]
