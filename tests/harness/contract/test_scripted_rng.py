"""Scripted random numbers of probes, and the watch over real generators."""

import random

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from parallax.harness.contract.probing.scripted_env import ScriptedData, ScriptedWorld
from parallax.harness.contract.probing.scripted_rng import (
    RngWatch,
    RotatingPermutations,
    ScriptedChoiceGenerator,
    make_choice_scores,
    make_threshold_spies,
    make_threshold_spy,
    script_numpy_rng,
)

NOISE = np.array([[0.5, -1.0], [2.0, 3.0], [4.0, 5.0]])
SHARES = np.array([[0.25, 0.75], [0.0, 0.5], [0.125, 1.0]])


def make_world(**changes):
    values = {
        "observations": np.zeros((4, 3)),
        "resets": np.zeros((4, 3)),
        "rewards": np.zeros(3),
        "ends": np.zeros(3, np.int64),
        "random_actions": SHARES,
        "acting_noise": NOISE,
        "batch_noise": NOISE,
        "low": (-1.0, -1.0),
        "high": (1.0, 1.0),
    }
    return ScriptedWorld(ScriptedData(**(values | changes)))


COMPARED = [
    (lambda spy, other: spy < other, [True, False, False]),
    (lambda spy, other: spy <= other, [True, True, False]),
    (lambda spy, other: spy > other, [False, False, True]),
    (lambda spy, other: spy >= other, [False, True, True]),
]


@pytest.mark.parametrize(("compare", "expected"), COMPARED)
def test_spy_compares_like_its_number_and_reports_the_other_operand(compare, expected):
    reported = []
    spy = make_threshold_spy(0.5, reported.append)
    assert [compare(spy, other) for other in (0.75, 0.5, 0.25)] == expected
    assert reported == [0.75, 0.5, 0.25] and float(spy) == 0.5


@pytest.mark.parametrize(("compare", "expected"), COMPARED)
def test_spies_of_parallel_environments_compare_one_by_one_and_report_the_largest(
    compare, expected
):
    reported = []
    spies = make_threshold_spies(0.5, 3, reported.append)
    assert spies.shape == (3,) and set(spies.tolist()) == {0.5}
    found = compare(spies, np.array([0.75, 0.5, 0.25]))
    assert type(found) is np.ndarray
    assert found.tolist() == expected
    assert reported == [0.75]


def test_the_scripted_choice_has_the_largest_score_in_every_row():
    assert_array_equal(make_choice_scores(1, 2, 3), [[0, 1, 0], [0, 1, 0]])


def test_numbers_are_scripted_once_training_has_begun_and_restored_afterwards():
    world = make_world(n_discrete_actions=4)
    names = ("normal", "standard_normal", "randn", "uniform", "randint", "choice")
    names += ("permutation", "shuffle", "rand", "random")
    originals = {name: getattr(np.random, name) for name in names}, random.random
    with script_numpy_rng(world):
        assert all(getattr(np.random, name) is not originals[0][name] for name in names)
        random.seed(3), np.random.seed(3)
        before = random.random(), np.random.rand(), np.random.normal()
        world.started = True
        assert (random.random(), np.random.random(), np.random.rand()) == (0.5,) * 3
        assert np.random.rand(2).tolist() == [0.5, 0.5]
        assert_array_equal(np.random.rand(2, 4), [[0, 1, 0, 0]] * 2)
    assert ({name: getattr(np.random, name) for name in names}, random.random) == originals
    random.seed(3), np.random.seed(3)
    assert before == (random.random(), np.random.rand(), np.random.normal())


def test_normal_numbers_exist_where_actions_are_discrete():
    world = make_world(n_discrete_actions=4, acting_noise=np.zeros((3, 0)))
    world.started = True
    with script_numpy_rng(world):
        assert np.random.randn() == 0.5
        assert_array_equal(np.random.normal(1, 2, 3), [2, 2, 2])


def test_numbers_for_continuous_actions_leave_the_uniform_generators_alone():
    original = np.random.rand, np.random.random, random.random
    with script_numpy_rng(make_world()):
        assert (np.random.rand, np.random.random, random.random) == original


def test_scripted_numbers_follow_the_step_and_have_the_requested_shape():
    world = make_world()
    world.started = True
    with script_numpy_rng(world):
        assert_array_equal(np.random.normal(), [0.5, -1])
        world.events.steps = 1
        assert_array_equal(np.random.normal(1, 2), [5, 7])
        assert_array_equal(np.random.standard_normal(2), [2, 3])
        assert_array_equal(np.random.standard_normal(), [2, 3])
        assert_array_equal(np.random.randn(3, 2), [[2, 3]] * 3)
        assert_array_equal(np.random.normal(size=(2, 2)), [[2, 3]] * 2)
        assert_array_equal(np.random.normal(size=5), [2, 3])  # of another size: as scripted
        assert_array_equal(np.random.normal(np.ones((1, 2)), 1, (3, 1, 2)), [[[3, 4]]] * 3)
        assert_array_equal(np.random.uniform(), [0, 0.5])
        assert_array_equal(np.random.uniform(-2, 2), [-2, 0])
        assert_array_equal(np.random.uniform(1, 3, 4), [1, 2, 1, 2])
        assert_array_equal(np.random.uniform(1, 3, (2, 2)), [[1, 2], [1, 2]])


def test_scripted_integers_are_consecutive_and_permutations_rotate():
    world = make_world()
    world.started = True
    with script_numpy_rng(world):
        assert np.random.randint(7) == 0 and type(np.random.randint(7)) is int
        assert np.random.randint(3, 7) == 3
        assert {draw.count for draw in world.draws} == {1}
        drawn = np.random.randint(3, 9, (2, 2), np.int32)
        assert drawn.tolist() == [[3, 4], [5, 6]] and drawn.dtype == np.int32
        assert np.random.permutation(7).tolist() == [0, 1, 2, 3, 4, 5, 6]
        assert np.random.permutation(7).tolist() == [5, 6, 0, 1, 2, 3, 4]
        entries = np.array([40, 10, 30, 20])
        assert np.random.permutation(entries).tolist() == [30, 20, 40, 10]  # rotated by 10
        np.random.shuffle(entries)
        assert entries.tolist() == [40, 10, 20, 30]  # sorted, then rotated by 15
        assert np.random.choice([5, 6, 7], 2).tolist() == [5, 6]


def test_choices_are_entries_or_integers_with_and_without_replacement():
    generator = ScriptedChoiceGenerator(make_world())
    assert generator.choice(9) == 0
    assert generator.choice([8, 6, 4]) == 8
    assert generator.choice(9, (2, 2)).tolist() == [[0, 1], [2, 3]]
    assert generator.choice(2, 3).tolist() == [0, 1, 0]
    assert generator.choice(7, 3, replace=False).tolist() == [0, 1, 2]
    assert generator.choice(7, 3, replace=False).tolist() == [5, 6, 0]
    world = make_world()
    ScriptedChoiceGenerator(world).choice(7, 3, replace=False)
    ScriptedChoiceGenerator(world).choice(7)
    assert world.draws[1].count == 1
    draw = world.draws[0]
    assert (draw.low, draw.high, draw.count, draw.with_replacement) == (0, 7, 3, False)


def test_permutations_are_recorded_as_draws_of_their_used_part():
    world = make_world()
    permutations = RotatingPermutations(world)
    permutations.draw_permutation(6)
    permutations.draw_permutation(6, 2)
    assert [(draw.high, draw.count) for draw in world.draws] == [(6, 6), (6, 2)]
    assert not any(draw.with_replacement for draw in world.draws)


def test_permutations_start_like_draws_on_request():
    world = make_world(permutes_as_draws=True, minibatch_window=4)
    other = make_world(minibatch_window=4)
    for _ in range(2):
        permutation = RotatingPermutations(world).draw_permutation(6)
        assert permutation[:4].tolist() == other.draw_integers(0, 6, 4).tolist()


class Watched:
    """A watch over generators in a training that has begun, or has not."""

    def __init__(self, steps=1, started=True, line="lib.py:7", **options):
        self.world, self.state, self.line = make_world(), 0, line
        self.world.started, self.world.events.steps = started, steps
        readers = {"lib": lambda: self.state}
        self.watch = RngWatch(self.world, lambda: 11, lambda: self.line, readers, **options)

    @property
    def events(self):
        return [
            (event.env_steps, event.updates, event.description, event.source_line)
            for event in self.watch.events
        ]


def test_seeding_during_training_is_recorded_with_its_line():
    watched = Watched()
    original = np.random.default_rng, random.seed
    with watched.watch.watch_functions([(np.linalg, "norm", "a norm")]):
        rng = np.random.default_rng(5)
        random.seed(1)
        assert np.linalg.norm([3, 4]) == 5
    assert (np.random.default_rng, random.seed) == original
    assert rng.random() == np.random.default_rng(5).random()
    words = ("numpy.random.default_rng creates a generator", "random.seed", "a norm")
    assert watched.events == [(1, 11, name, "lib.py:7") for name in words]


def test_new_objects_of_generator_classes_are_recorded():
    watched, before = Watched(), np.random.RandomState(3)
    with watched.watch.watch_functions([]):
        rng = np.random.RandomState(3)
        assert isinstance(before, np.random.RandomState) and isinstance(rng, np.random.RandomState)
        assert issubclass(type(rng), np.random.RandomState)
        assert np.random.RandomState.randint is type(before).randint
    assert type(rng) is np.random.RandomState and rng.randint(100) == before.randint(100)
    words = "numpy.random.RandomState creates a generator"
    assert watched.events == [(1, 11, words, "lib.py:7")]


@pytest.mark.parametrize("changes", [{"steps": 0}, {"started": False}, {"line": ""}])
def test_nothing_is_recorded_before_a_training_or_outside_of_a_framework(changes):
    watched = Watched(**changes)
    watched.watch.record("seed")
    watched.watch.check_key("draw", 5)
    watched.watch.check_key("draw", 5)
    assert watched.events == []


def test_abstract_generators_are_not_recorded():
    watched = Watched(is_abstract=lambda made: made is None)
    with watched.watch.watch_functions([]):
        random.seed(1)  # returns None
        np.random.default_rng(1)
    assert [event[2] for event in watched.events] == [
        "numpy.random.default_rng creates a generator"
    ]


def test_repeated_generator_state_is_recorded_and_constant_one_is_not():
    watched = Watched()
    for watched.state in (1, 1, 2, 2, 1, 3):
        watched.watch.check_states()
    assert watched.events == [(1, 11, "lib is back in an earlier state", "")]


def test_states_before_a_training_are_not_compared():
    watched = Watched(started=False)
    for watched.state in (1, 2, 1):
        watched.watch.check_states()
    watched.world.started = True
    watched.watch.check_states()
    assert watched.events == []


def test_repeated_global_generators_are_recorded_by_name():
    watched = Watched(line="")
    saved = random.getstate(), np.random.get_state()
    watched.watch.check_states()
    random.random(), np.random.random(3)
    watched.watch.check_states()
    random.setstate(saved[0]), np.random.set_state(saved[1])
    watched.watch.check_states()
    names = {event[2].split()[0] for event in watched.events}
    assert names == {"random", "numpy.random"}


def test_reused_key_is_recorded():
    watched = Watched()
    watched.watch.check_key("draw", 5)
    watched.watch.check_key("split", 5)
    watched.watch.check_key("draw", 6)
    assert watched.events == []
    watched.watch.check_key("draw", 5)
    assert watched.events == [(1, 11, "draw draws with a key that was used before", "lib.py:7")]
