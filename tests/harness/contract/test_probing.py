"""The scripted data of probes: what every implementation sees and draws."""

import contextlib
import copy
import inspect
import pickle

import gymnasium
import numpy as np
import pytest

from parallax.envs.tasks import Task
from parallax.harness.contract.algorithms import BUILTIN_ALGORITHMS
from parallax.harness.contract.events import EpisodeBegin
from parallax.harness.contract.probing import recorder
from parallax.harness.contract.probing.environments import EpisodeScript, locate_source
from parallax.harness.contract.probing.protocol import PROBED_SOURCE, ProbeMonitor
from parallax.harness.contract.probing.scripted_env import (
    TERMINATED,
    TRUNCATED,
    IntegerDraw,
    ScriptedData,
    ScriptedWorld,
)
from parallax.harness.probes.catalogue import PROBES


def make_world(steps=6, **changes):
    rng = np.random.default_rng(0)
    arrays = {
        "observations": rng.normal(size=(steps + 1, 3)),
        "resets": rng.normal(size=(steps + 1, 3)),
        "rewards": rng.normal(size=steps),
        "ends": np.zeros(steps, np.int64),
        "random_actions": np.linspace(0, 0.9, 2 * steps).reshape(steps, 2),
        "acting_noise": rng.normal(size=(steps, 2)),
        "batch_noise": rng.normal(size=(8, 2)),
        "low": (-2.0, 0.0),
        "high": (2.0, 1.0),
    }
    return ScriptedWorld(ScriptedData(**(arrays | changes)))


def test_after_its_end_the_script_stays_at_its_last_row():
    world = make_world(6)
    rows = []
    for _ in range(9):
        rows.append(world.row)
        world.events.steps += 1
    assert rows == [0, 1, 2, 3, 4, 5, 5, 5, 5]


def test_random_actions_are_shares_of_the_range_from_its_low_end():
    env = make_world(random_actions=np.array([[0.25, 0.75]] * 6)).make_env()
    np.testing.assert_array_equal(env.action_space.sample(), np.float32([-1.0, 0.75]))


def test_minibatches_are_the_same_unless_the_script_rotates_them():
    plain, rotating = make_world(), make_world(rotates_draws=True)
    assert [list(plain.draw_integers(0, 20, 3)) for _ in range(2)] == [[0, 1, 2], [0, 1, 2]]
    assert [list(rotating.draw_integers(0, 20, 3)) for _ in range(2)] == [[0, 1, 2], [7, 8, 9]]


@pytest.mark.parametrize("options", [{"rotates_draws": True}, {"minibatch_window": 20}])
def test_single_integer_is_the_first_and_causes_no_rotation(options):
    world = make_world(**options)
    assert [int(world.draw_integers(5, 20, 1)[0]) for _ in range(3)] == [5, 5, 5]
    assert list(world.draw_integers(0, 20, 2)) == [0, 1]
    assert list(make_world().draw_integers(5, 8, 5)) == [5, 6, 7, 5, 6]


def test_permutations_begin_with_the_integers_that_draws_give():
    drawing, permuting = (make_world(minibatch_window=5) for _ in range(2))
    for _ in range(4):
        permutation = permuting.permute_as_draws(9)
        assert sorted(permutation) == list(range(9))
        assert list(permutation[:5]) == list(drawing.draw_integers(0, 9, 5))


def test_draws_are_recorded_and_follow_windows_repeats_and_rotations():
    plain = make_world()
    assert list(plain.draw_integers(3, 6, 4)) == [3, 4, 5, 3]
    plain.events.steps = 2
    plain.record_permutation(9, 4)
    assert plain.draws == [IntegerDraw(0, 3, 6, 4), IntegerDraw(2, 0, 9, 4, False)]
    window = make_world(minibatch_window=5)
    assert [list(window.draw_integers(2, 20, 4)) for _ in range(2)] == [[2, 3, 4, 5], [4, 5, 6, 2]]
    assert list(window.draw_integers(2, 5, 4)) == [4, 2, 3, 4]  # a window of three
    assert list(window.draw_integers(2, 3, 4)) == [2, 2, 2, 2]
    repeated = make_world(draw_repeats=2)
    assert [list(repeated.draw_integers(0, 20, 4)) for _ in range(2)] == [
        [0, 0, 1, 1],
        [7, 7, 8, 8],
    ]
    rotated = make_world(rotates_draws=True)
    assert [list(rotated.draw_integers(0, 20, 1)), list(rotated.draw_integers(0, 20, 2))] == [
        [0],
        [0, 1],
    ]
    permuted = make_world(minibatch_window=3)
    assert list(permuted.permute_as_draws(2)) == [0, 1]
    assert list(permuted.permute_as_draws(5)) == [1, 2, 0, 3, 4]
    unwindowed = make_world()
    assert list(unwindowed.permute_as_draws(3)) == [0, 1, 2]
    assert unwindowed._turns == 0


def test_discrete_actions_of_all_environments_are_the_random_choice_of_the_step():
    shares = np.array([[0.0], [0.5], [0.99]])
    world = make_world(3, n_discrete_actions=4, random_actions=shares)
    envs = [world.make_env() for _ in range(2)]
    assert envs[0].action_space.n == 4 and copy.deepcopy(envs[0].action_space).world is world
    found = []
    for world.events.steps in range(4):
        found.append(list(world.draw_integers(1, 5, 2)))
        assert envs[1].action_space.sample() == found[-1][0] - 1
    assert found == [[1, 1], [3, 3], [4, 4], [4, 4]] and world.draws == []
    assert list(world.draw_integers(1, 5, 3)) == [1, 2, 3]  # more than there are environments
    assert list(world.draw_integers(0, 5, 2)) == [0, 1]  # another number of choices
    assert len(world.draws) == 2
    own = make_world(3, n_discrete_actions=4, random_actions=shares, own_rng=True).make_env()
    own.action_space.seed(5)
    plain = gymnasium.spaces.Discrete(4, seed=5)
    assert [own.action_space.sample() for _ in range(5)] == [plain.sample() for _ in range(5)]


def test_saved_action_spaces_are_without_their_world():
    for world in (make_world(), make_world(3, n_discrete_actions=4)):
        space = world.make_env().action_space
        loaded = pickle.loads(pickle.dumps(space))
        assert loaded == space and not hasattr(loaded, "world")
        assert type(loaded) in (gymnasium.spaces.Box, gymnasium.spaces.Discrete)


def test_scripted_numbers_are_those_of_the_step():
    world = make_world(rotates_draws=True)
    d = world.scripted_data
    world.events.steps = 2
    assert world.draw_numbers("uniform", 5).tolist() == [
        *d.random_actions[2],
        *d.random_actions[2],
        d.random_actions[2][0],
    ]
    assert world.draw_numbers("normal", 2).tolist() == d.acting_noise[2].tolist()
    rolled = np.concatenate([d.batch_noise[6:], d.batch_noise[:6]])
    assert world.draw_numbers("normal", 4).tolist() == rolled[:2].ravel().tolist()
    still = make_world()
    still.events.steps = 2
    assert still.draw_numbers("normal", 4).tolist() == d.batch_noise[:2].ravel().tolist()
    world.record_threshold(0.25)
    assert world.thresholds == [(2, 0.25)] and world.steps == 2


def test_environments_follow_the_script_of_their_world_step_by_step():
    ends = np.array([0, TERMINATED, TRUNCATED])
    world, begins = make_world(3, ends=ends), []
    world.events.subscribe(EpisodeBegin, begins.append)
    envs = [world.make_env() for _ in range(2)]
    d = world.scripted_data
    assert world.n_envs == 2
    assert d.task == Task("parallax.harness.contract.probing:Scripted-v0", 3, d.low, d.high, 0, 0)
    assert envs[0].observation_space.shape == (3,)
    assert envs[0].action_space.shape == (2,) and envs[0].action_space.high.tolist() == [2, 1]
    copied = copy.deepcopy(envs[0].action_space)
    assert copied.world is world and copied == envs[0].action_space
    for number, env in enumerate(envs):
        first, info = env.reset(seed=3)
        assert first.dtype == np.float32 and info == {}
        assert first.tolist() == np.float32(d.observations[0] * 2**number).tolist()
    steps = []
    for env in (envs[0], envs[1], envs[0]):
        observation, *rest = env.step(np.array([0.5, 1.0], np.float32))
        assert observation.dtype == np.float32
        assert observation.tolist() == np.float32(d.observations[world.steps]).tolist()
        steps.append(rest)
    assert steps == [
        [d.rewards[0], False, False, {}],
        [d.rewards[1], True, False, {}],
        [d.rewards[2], False, True, {}],
    ]
    assert envs[1].reset()[0].tolist() == np.float32(d.resets[3]).tolist() and len(begins) == 3
    envs[1].step(np.zeros(2))  # after its end the script repeats its last row
    assert envs[0].reset()[0].tolist() == np.float32(d.resets[3]).tolist()
    befores = [d.observations[0], 2 * d.observations[0], d.observations[1], d.resets[3]]
    nexts = [*d.observations[1:], d.observations[3]]
    assert len(world.transitions) == 4
    for found, before, after, end in zip(
        world.transitions, befores, nexts, [0, 1, 2, 2], strict=True
    ):
        assert found.observation.tolist() == before.tolist() and found.end == end
        assert found.next_observation.tolist() == after.tolist()
    assert [found.action.tolist() for found in world.transitions] == [[0.5, 1.0]] * 3 + [[0, 0]]
    assert [found.reward for found in world.transitions] == [*d.rewards, d.rewards[2]]


def test_scripted_rewards_differ_by_step_episode_and_environment():
    rewards = {
        place: EpisodeScript(copy=place[0]).compute_reward(*place[1:])
        for place in [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 1), (1, 1, 2), (2, 1, 1)]
    }
    assert len({round(reward, 6) for reward in rewards.values()}) == len(rewards)
    assert rewards[0, 0, 1] == pytest.approx(1.6967067, abs=1e-6)
    assert rewards[1, 0, 1] == pytest.approx(1.4535961, abs=1e-6)
    assert rewards[1, 1, 2] == pytest.approx(0.2626063, abs=1e-6)


def test_monitor_copies_reported_metrics():
    monitor, metrics = ProbeMonitor(), {"loss": 1.0}
    monitor.record(metrics)
    metrics["loss"] = 2.0
    monitor.record(metrics)
    assert monitor.metrics == [{"loss": 1.0}, {"loss": 2.0}]


def test_a_wrapped_policy_acts_with_the_changes_and_only_then():
    active = []

    @contextlib.contextmanager
    def change():
        active.append(True)
        yield
        active.pop()

    monitor = ProbeMonitor()
    monitor.wrap_policy(change)  # nothing to wrap yet
    assert monitor.policy is None
    monitor.attach(lambda observations: observations + len(active), dict)
    monitor.wrap_policy(change)
    np.testing.assert_array_equal(monitor.predict_greedy(np.zeros(2)), [1, 1])
    assert not active


def test_source_lines_are_found_by_their_text():
    here = inspect.getsourcelines(test_source_lines_are_found_by_their_text)[1]
    found = locate_source(test_source_lines_are_found_by_their_text, "inspect.getsourcelines")
    assert found == f"harness/contract/test_probing.py:{here + 1}"
    assert locate_source(test_source_lines_are_found_by_their_text, "not " + "there") == (
        f"harness/contract/test_probing.py:{here}"
    )
    assert locate_source(len, "") == ""


def test_algorithms_with_probes_are_those_that_probes_name():
    probed = {probe.algorithm for probe in PROBES}
    assert {name for name, cls in BUILTIN_ALGORITHMS.items() if cls.has_probes} == probed


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("/env/lib/python3.11/site-packages/skrl/agents/td3.py", "skrl/agents/td3.py"),
        ("/env/lib/python3.11/site-packages/parallax/adapters/torch_common/x.py", ""),
        ("/env/lib/python3.11/site-packages/torch/optim/adam.py", ""),
        ("/home/me/sb3/stable_baselines3/td3/td3.py", "stable_baselines3/td3/td3.py"),
        ("/home/me/other/td3.py", ""),
        ("my_td3.py", "my_td3.py"),  # an own script
        ("<string>", ""),
    ],
)
def test_source_lines_are_those_of_the_framework_or_its_checkout(file, place, monkeypatch):
    monkeypatch.setenv(PROBED_SOURCE, "/home/me/sb3")
    assert recorder._get_framework_path.__wrapped__(file) == place


def test_random_actions_of_an_own_generator_are_those_of_its_seed():
    space = make_world(own_rng=True).make_env().action_space
    plain = gymnasium.spaces.Box(space.low, space.high, seed=5)
    space.seed(5)
    assert space.sample().tolist() == plain.sample().tolist() != space.sample().tolist()
