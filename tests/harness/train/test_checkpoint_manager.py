"""At which safe points a state is saved or loaded, and what is said where it cannot be."""

import dataclasses
import importlib
import json
import math
import platform
import random
import types

import gymnasium
import numpy as np
import pytest
import support
import torch

from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.run_spec import spec_to_dict
from parallax.harness.contract.state_codec import StateMismatchError, UnsupportedStateError
from parallax.harness.record.checkpoints import LoadedCheckpoint
from parallax.harness.record.files import UnusableError
from parallax.harness.record.lock import FolderDeletedError, LockLostError
from parallax.harness.train import checkpointing
from parallax.harness.train.checkpointing import CheckpointManager, ResumeError
from parallax.harness.train.prepare import describe_translation, prepare_run
from parallax.harness.train.stop_signals import RunInterrupt, StopRequest

PERIOD = 20 / 60  # minutes


class Training:
    """A training with one part, a clock that is set, and a store that may fail."""

    def __init__(self, monkeypatch, every=PERIOD, start=None, lacking="", serializable=True):
        self.now, self.value, self.error, self.serializable = 0.0, 0, None, serializable
        self.saved, self.said, self.waits = [], [], []
        self.cost = 0.0
        monkeypatch.setattr(checkpointing, "time", types.SimpleNamespace(monotonic=self.read_clock))
        self.stop = StopRequest()
        store = types.SimpleNamespace(save=self.save)
        self.manager = CheckpointManager(
            store, lambda: {"step": 1000}, every, self.stop, start, self.said.append
        )
        part = types.SimpleNamespace(state=self.state, load_state=self.load_state)
        self.manager.watch({"part": part}, lacking)

    def read_clock(self):
        return self.now

    def state(self):
        if not self.serializable:
            raise UnsupportedStateError("a socket")
        return self.value

    def load_state(self, state):
        self.value = state + 0

    def save(self, about, state):
        self.now += self.cost
        if self.error is not None:
            raise self.error
        assert about == {"step": 1000}
        self.saved.append((self.now, state))

    def visit(self, *times):
        for now in times:
            self.now = now
            self.manager.safe_point()
        return [at for at, _ in self.saved]


@pytest.fixture(autouse=True)
def no_signals(monkeypatch):
    monkeypatch.delenv("PARALLAX_JOB", raising=False)
    monkeypatch.setattr("parallax.harness.train.stop_signals._ignore_signals", lambda: None)


def test_saves_are_due_at_the_schedules_times(monkeypatch):
    training = Training(monkeypatch)
    times = (5.0, 5.5, 6.0, 6.1, 7.9, 8.0, 11.9, 12.0, 20.0, 35.9, 36.0, 55.0, 56.5, 76.4, 76.5)
    assert training.visit(*times) == [6.0, 8.0, 12.0, 20.0, 36.0, 56.5, 76.5]
    assert training.said == [] and training.saved[0][1] == {"part": 0}


def test_a_save_that_takes_long_is_followed_by_a_longer_interval(monkeypatch):
    training = Training(monkeypatch)
    training.cost = 0.05  # a hundredth of five seconds
    assert training.visit(0.0, 1.0) == [1.05]
    assert training.visit(6.04) == [1.05]
    assert training.visit(6.06) == [1.05, pytest.approx(6.11)]


def test_a_requested_checkpoint_is_saved_once_at_the_next_safe_point(monkeypatch):
    early, late = Training(monkeypatch), Training(monkeypatch)
    early.manager.request_checkpoint()
    assert early.visit(0.0, 0.5, 0.9) == [0.0]
    monkeypatch.setattr(checkpointing, "time", types.SimpleNamespace(monotonic=late.read_clock))
    assert late.visit(0.0, 0.1) == []
    late.manager.request_checkpoint()
    assert late.visit(0.2, 0.3) == [0.2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"every": 0}, []),
        ({"every": 0, "lacking": "it has a socket"}, []),
        ({"lacking": "it has a socket"}, ["it has a socket"]),
        ({"serializable": False}, ["a socket"]),
    ],
)
def test_nothing_is_saved_without_checkpoint_support(monkeypatch, changes, said):
    training = Training(monkeypatch, **changes)
    training.manager.request_checkpoint()
    assert training.visit(0.0, 1.0, 100.0) == []
    training.manager.request_checkpoint()
    assert training.visit(200.0, 1e9) == []
    start = "The run keeps no checkpoints and would start again from its start: "
    assert training.said == [f"{start}{why}." for why in said]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "At step 1,000 no checkpoint could be written"),
        (UnsupportedStateError("a new socket"), "keeps no checkpoints"),
    ],
)
def test_training_continues_after_a_failed_checkpoint(monkeypatch, error, said):
    training = Training(monkeypatch)
    training.visit(0.0)
    training.error = error
    assert training.visit(1.0) == []
    training.error = None
    goes_on = isinstance(error, OSError)
    assert training.visit(3.0, 7.0) == ([3.0, 7.0] if goes_on else [])
    (text,) = training.said
    assert said in text and (error.strerror if goes_on else str(error)) in text


@pytest.mark.parametrize("error", [LockLostError("x"), FolderDeletedError(2, "x"), MemoryError()])
def test_fatal_errors_are_raised(monkeypatch, error):
    training = Training(monkeypatch)
    training.visit(0.0)
    training.error = error
    with pytest.raises(type(error)):
        training.visit(1.0)
    assert training.said == []


def test_a_state_is_loaded_once_at_the_first_safe_point(monkeypatch):
    training = Training(monkeypatch, start=LoadedCheckpoint(1, {"step": 1000}, {"part": 5}, True))
    assert training.value == 0
    training.visit(0.0)
    assert training.value == 5
    training.value = 6
    assert training.visit(1.0) == [1.0] and training.saved == [(1.0, {"part": 6})]
    assert training.manager.has_resumed
    for step, part, words in ((1000, "text", "it does not fit"), (999, 5, "999 is that of step 1")):
        start = LoadedCheckpoint(1, {"step": step}, {"part": part}, True)
        unfit = Training(monkeypatch, start=start)
        with pytest.raises(ResumeError, match=words):
            unfit.visit(0.0)
        assert not unfit.manager.has_resumed


@pytest.mark.parametrize(("every", "saves"), [(PERIOD, 1), (0, 0)])
def test_a_stop_comes_after_one_more_checkpoint(monkeypatch, every, saves):
    training = Training(monkeypatch, every=every)
    training.visit(0.0)
    training.stop._wanted = RunInterrupt("user")
    with pytest.raises(RunInterrupt):
        training.visit(0.1)  # before one is due
    assert len(training.saved) == saves


def test_a_run_waits_for_safe_points_once_its_state_can_be_saved(monkeypatch):
    allowed = []
    for changes in ({}, {"serializable": False}, {"every": 0}):
        training = Training(monkeypatch, **changes)
        assert training.stop._may_wait is False
        training.visit(0.0)
        allowed.append(training.stop._may_wait)
    assert allowed == [True, False, False]
    assert math.isinf(training.manager._due)


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
    checkpointing.load_env_states([second], checkpointing.read_env_states([first]))
    for one, other in zip(play(first, actions[5:]), play(second, actions[5:]), strict=True):
        assert one[0].tobytes() == other[0].tobytes() and one[1:] == other[1:]
    assert first.reset()[0].tobytes() == second.reset()[0].tobytes()


def test_states_of_other_environments_are_refused():
    envs = [gymnasium.make("Hopper-v4"), gymnasium.make("Walker2d-v4")]
    for env in envs:
        env.reset(seed=0)
    states = checkpointing.read_env_states(envs)
    with pytest.raises(StateMismatchError, match="there are 1 environments, but the state has 2"):
        checkpointing.load_env_states(envs[:1], states)
    with pytest.raises(StateMismatchError):
        checkpointing.load_env_states(envs[::-1], states)
    for live in (None, envs[1].unwrapped.data):
        simulation = checkpointing._read_simulation(envs[0].unwrapped.data, None)
        with pytest.raises(StateMismatchError, match="another model"):
            checkpointing._write_simulation(live, simulation, None)


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
    state = checkpointing._read_emulator(first, None)
    assert checkpointing._write_emulator(second, state, None) is second
    for _ in range(50):
        assert first.act(ale_py.Action.DOWN) == second.act(ale_py.Action.DOWN)
    assert (first.getRAM() == second.getRAM()).all()
    assert first.getFrameNumber() == second.getFrameNumber()
    with pytest.raises(StateMismatchError, match="has a game emulator"):
        checkpointing._write_emulator(None, state, None)


ABOUT = {"step": 1, "seconds": 0.5}


@pytest.mark.parametrize(
    "change",
    [{"step": "x"}, {"step": 2**60}, {"seconds": math.nan}, {"seconds": -1.0}, {"identity": [1]}],
)
def test_metadata_of_wrong_types_is_damage(change):
    said = []
    store = types.SimpleNamespace(
        list_numbers=lambda: [1], read_metadata=lambda number: ABOUT | change
    )
    assert list(checkpointing.iterate_resume_points(store, {}, said.append, 7.0)) == [None]
    assert "it is damaged (Expected `" in said[0] and f"$.{next(iter(change))}" in said[0]


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({}, {"a": 1}, "a was None and is 1"),
        ({"python": "3.11"}, {"python": "3.12"}, "python was 3.11 and is 3.12"),
        (
            {"packages": {"a": "1", "torch": "2.0"}},
            {"packages": {"torch": "2.1"}},
            "packages: a was 1 and is None",
        ),
        ({"adapter": {"b.py": "1"}}, {"adapter": {"b.py": "2"}}, "b.py of the adapter is another"),
        ({"settings": {"x": 1}}, {"settings": 3}, "settings was {'x': 1} and is 3"),
        ({"settings": {1: 2, "x": 1}}, {"settings": {}}, "settings: 1 was 2 and is None"),
    ],
)
def test_checkpoints_of_another_run_are_refused_with_the_differences(then, now, words):
    said = []
    store = types.SimpleNamespace(
        list_numbers=lambda: [3, 2, 1],
        read_metadata=lambda number: ABOUT | {"identity": then if number > 1 else now},
        load=lambda number, room: LoadedCheckpoint(number, {"room": room}, None, True),
    )
    found = list(checkpointing.iterate_resume_points(store, now, said.append, 7.0))
    usable = [3, 2, 1] if not words else [1]
    assert [one and one.number for one in found] == [*usable, None]
    assert found[0].about == {"room": 7.0}
    assert len(said) == (2 if words else 0)
    for number, text in zip((3, 2), said, strict=False):
        assert text.startswith(f"Checkpoint {number} cannot be resumed from: {words}")


def test_damaged_checkpoint_is_skipped():
    said = []

    def load(number, room):
        if number == 2:
            raise UnusableError("is damaged")
        return LoadedCheckpoint(number, {}, None, True)

    store = types.SimpleNamespace(
        list_numbers=lambda: [2, 1], read_metadata=lambda number: ABOUT, load=load
    )
    found = list(checkpointing.iterate_resume_points(store, {}, said.append, 7.0))
    assert [one and one.number for one in found] == [1, None]
    assert said == ["Checkpoint 2 cannot be resumed from: it is damaged."]


def test_a_package_that_is_not_installed_has_no_version():
    assert checkpointing._get_package_version("pytest") == pytest.__version__
    assert checkpointing._get_package_version("no-such-package-anywhere") == ""


def test_a_run_is_the_same_with_the_same_settings_code_and_versions(monkeypatch):
    spec = support.spec(study="a", checkpoint_every=5)
    adapter, code = load_adapter("sb3"), {"files": {"train.py": "ab"}, "requires": ["x"]}
    monkeypatch.setattr(
        checkpointing, "_get_package_version", lambda name: "" if name == "mujoco" else f"1 {name}"
    )
    prepared = prepare_run(spec, adapter)
    found = checkpointing.describe_run_identity(prepared, adapter, code)
    settings = spec_to_dict(spec)
    left_out = ("study", "python", "checkpoint_every", "diagnosis", "logger", "endpoint")
    for name in (*left_out, "evaluate_untrained", "actors"):
        del settings[name]
    names = ("numpy", "torch", "gymnasium", "ale-py", "minatar", *adapter.packages)
    packages = {name: f"1 {name}" for name in names}
    files = found.pop("code")
    task = "gymnasium.envs.mujoco.inverted_pendulum_v4:inverted_pendulum_v4.py"
    modules = {"envs:make.py", "harness.replay:replayer.py", "adapters.torch_common:state.py"}
    assert {task, *(f"parallax.{name}" for name in modules)} < files.keys()
    assert found.pop("settings") == json.loads(json.dumps(settings))
    translation = json.loads(json.dumps(describe_translation(prepared)))
    assert found.pop("translation") == translation
    assert found == {
        **{"adapter": {"train.py": "ab"}, "packages": packages},
        "python": platform.python_version(),
    }
    several = dataclasses.replace(
        prepared, spec=types.SimpleNamespace(**(vars(spec) | {"device": "cpu"}))
    )
    monkeypatch.setattr(checkpointing, "spec_to_dict", lambda spec: {"actors": 2, "study": "a"})
    again = checkpointing.describe_run_identity(several, adapter, code)
    assert again["settings"] == {"actors": 2}


def test_run_does_not_resume_after_edits_to_its_task_or_shared_code(monkeypatch, tmp_path):
    """Its first steps would have other rewards than the rest."""
    (tmp_path / "edited_tasks.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Cart(CartPoleEnv):\n    reward = 1\n"
        "gymnasium.register('Edited-v0', Cart, max_episode_steps=50)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    spec = support.spec(algorithm="dqn", env="edited_tasks:Edited-v0")
    adapter = load_adapter("sb3")
    prepared = prepare_run(spec, adapter)
    then = checkpointing.describe_run_identity(prepared, adapter, {"files": {}})
    assert not checkpointing._describe_identity_difference(then, then)
    path = tmp_path / "edited_tasks.py"
    path.write_text(path.read_text().replace("reward = 1", "reward = 2"))
    now = checkpointing.describe_run_identity(prepared, adapter, {"files": {}})
    words = "edited_tasks:edited_tasks.py of the code is another one now"
    assert checkpointing._describe_identity_difference(then, now) == words
    # Modules beside it, and files that its arguments name, are part of it.
    (tmp_path / "edited_tasks_helper.py").write_text("SCALE = 1\n")
    importlib.import_module("edited_tasks_helper")
    changed = dataclasses.replace(spec, env_kwargs={"render_mode": None, "map": [str(path)]})
    files = checkpointing._hash_task_files(changed)
    helper = "edited_tasks_helper:edited_tasks_helper.py"
    assert files.keys() == {helper, "edited_tasks:edited_tasks.py", str(path)}
    assert not checkpointing._hash_task_files(support.spec())
    (tmp_path / "edited_tasks_helper.py").write_text("SCALE = 2\n")
    assert checkpointing._hash_task_files(changed)[helper] != files[helper]
    del then["code"]  # of an earlier version
    assert "of the code is another one" in checkpointing._describe_identity_difference(then, now)


def test_a_run_does_not_resume_with_an_evaluation_more_or_less():
    """Initial states of evaluations depend on their number."""
    adapter = load_adapter("sb3")
    then, now = (
        checkpointing.describe_run_identity(
            prepare_run(support.spec(evaluate_untrained=first), adapter), adapter, {"files": {}}
        )
        for first in (False, True)
    )
    for pair in ((then, now), (now, then)):
        words = checkpointing._describe_identity_difference(*pair)
        assert words.startswith("settings: evaluate_untrained was ")


def test_random_number_generators_resume():
    def draw():
        return random.random(), random.gauss(0, 1), float(np.random.normal()), float(torch.rand(()))

    draw()  # leaves a second value of `gauss`
    state = checkpointing.read_rng_state()
    first = draw()
    assert draw() != first
    checkpointing.load_rng_state(state)
    assert draw() == first
    checkpointing.load_rng_state(state | {"torch": None})
    assert draw()[:3] == first[:3]


class Layer:
    """A wrapper of this module."""

    def __init__(self, env):
        self.env = env


def test_objects_of_environment_modules_may_be_created_in_an_episode():
    env = Layer(gymnasium.make("Pendulum-v1"))
    types_of_env = checkpointing._own_types([env])
    names = {kind.__name__ for kind in types_of_env}
    assert {"Layer", "Training", "PendulumEnv", "TimeLimit", "OrderEnforcing"} <= names
    assert CheckpointManager not in types_of_env and types_of_env.count(Layer) == 1
    modules = [kind.__module__ for kind in types_of_env]
    assert modules == sorted(modules)


def test_results_of_a_simulation_are_its_arrays_of_numbers():
    class Data:
        qpos, flags, names = np.ones(2), np.array([True]), np.array(["a"])
        empty, number, contact, efc_force, _own = np.ones(0), 3, np.ones(1), np.ones(1), np.ones(1)
        island_id, map_x, iefc_x, efm_x = (np.ones(1) for _ in range(4))

    assert checkpointing._get_computed_arrays(Data()) == {"qpos": Data.qpos, "flags": Data.flags}


def test_simulation_resumes_with_its_own_model_only():
    """Bodies of other masses, from an edited file or a task that draws them, are another task."""
    envs = [gymnasium.make("InvertedPendulum-v5") for _ in range(2)]
    for env in envs:
        env.reset(seed=0)
    state = checkpointing.read_env_states(envs[:1])
    checkpointing.load_env_states(envs[1:], state)
    envs[1].unwrapped.model.body_mass[1] *= 2
    with pytest.raises(StateMismatchError, match="model is another one"):
        checkpointing.load_env_states(envs[1:], state)
