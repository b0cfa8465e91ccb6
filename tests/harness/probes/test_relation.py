"""Words for numbers that are not the paper's."""

import numpy as np
import pytest

from parallax.harness.probes.probe import ProbeMeasurement, make_entry_description
from parallax.harness.probes.relation import describe_course, describe_relation
from parallax.harness.probes.results import AnswerComparison

E = np.random.default_rng(0).normal(size=24)
FIRST = np.arange(24) < 9


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.minimum(E, 0.5), f"at most 0.5, for {np.sum(E > 0.5)} of 24"),
        (np.maximum(E, -0.25), f"at least -0.25, for {np.sum(E < -0.25)} of 24"),
        (np.clip(E, -0.5, 0.75), "between -0.5 and 0.75, for"),
        (np.where(FIRST, 0, E), "0, for 9 of 24"),
        (np.where(FIRST, 3.0, E), "3, for 9 of 24"),
        (np.where(FIRST, 2 * E, E), "2 times the paper's, for 9 of 24"),
        (np.where(FIRST, E + 7, E), "the paper's +7, for 9 of 24"),
        (np.where(FIRST, E**2 + 5, E), "another function of its inputs, for 9 of 24"),
        (E[::-1], "the paper's numbers in another order"),
        (3 * E + 8, "3 times the paper's +8"),
        (np.clip(2 * E + 1, -1, 3), "2 times the paper's +1, cut at -1 and 3"),
        (np.clip(-E, -0.5, 0.5), "-1 times the paper's, cut at -0.5 and 0.5"),
        (np.roll(E, 1) + 9 * (np.arange(24) < 1), "the paper's numbers, 1 place later"),
        (
            np.roll(E[::-1], -2) + 9 * (np.arange(24) > 21),
            "the paper's numbers in reverse order, 2",
        ),
        (np.full(24, 40.0), "40 whatever the inputs"),
        (np.where(FIRST, 2, 5) * (E + 10), ""),
        (E**2 + 5, ""),
    ],
)
def test_forms(value, words):
    description = describe_relation(value, E)
    assert description.startswith(words) if words else description == ""


def test_forms_of_numbers_away_from_zero():
    far = np.abs(E) + 1
    assert describe_relation(np.where(FIRST, 2, 5) * far, far) == (
        "5 times the paper's, for 15 of 24, and 2 times"
    )
    assert (
        describe_relation(np.where(FIRST, -1, 1) * far, far) == "-1 times the paper's, for 9 of 24"
    )


def test_too_few_numbers_have_no_description():
    assert describe_relation(E[:5] + E[1:6], E[:5]) == ""
    assert describe_relation(np.full(24, np.nan), E) == ""
    assert describe_relation(E[:7], E) == ""


def test_numbers_that_differ_may_be_a_sum_of_known_terms():
    reward, value = E, np.roll(E, 3)
    due = reward + 0.99 * value
    terms = {"the reward": reward, "the next value": value}
    found = np.where(FIRST, reward, due)
    assert describe_relation(found, due, terms) == "1 times the reward, for 9 of 24"
    kinds = np.where(FIRST, "at time limits", "within episodes")
    assert describe_relation(found, due, terms, kinds) == (
        "1 times the reward, for 9 of 24 at time limits, of 9"
    )
    kinds[-1] = "at time limits"
    assert describe_relation(found, due, terms, kinds).endswith("at time limits, of 10")
    kinds[0] = "at terminations"
    assert describe_relation(found, due, terms, kinds).endswith("24, none within episodes")
    kinds = [f"{kind}; in update {1 + (row < 12)}" for row, kind in enumerate(kinds)]
    words = describe_relation(found, due, terms, kinds)
    assert words.endswith("24, none within episodes in update 2, of 12")


def test_courses_are_described():
    steps = np.arange(20.0)
    due = np.maximum(1 - steps / 10, 0.2)
    assert describe_course(due, due, steps) == ""
    early = np.where(steps < 4, due, 0.0)
    words = describe_course(early, due, steps)
    assert words.startswith("as due before step 4, drops at once from 0.7 to 0 at step 4, falls by")
    assert words.endswith("by 0.1 at a time, 3 times, ends at 0, not 0.2")
    words = describe_course(np.maximum(1 - steps / 20, 0.2), due, steps)
    assert words == "as due before step 1, falls by 0.05 at a time, 15 times"
    assert describe_course(np.ones(20), due, steps) == "as due before step 1: always 1"


def describe_entries(value, expected):
    describe = make_entry_description(("weight of the entropy", "of the critic"))
    measurement = ProbeMeasurement(np.array(value), np.array(expected))
    return describe(AnswerComparison("function", 1.0), measurement)


def test_entries_that_repeat_in_each_update_are_named():
    paper = [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    found = [[-1.0, 1.0], [-1.00001, 1.0], [-1.0, 1.0]]
    assert describe_entries(found, paper) == "weight of the entropy is -1, not 1"
    absent = [[1.0, 3e-8], [1.0, -2e-8], [1.0, 1e-8]]
    assert describe_entries(absent, paper) == "of the critic is 0, not 1"


def test_entries_of_unequal_updates_say_in_which_they_differ():
    paper = [[1.0, 1.0]] * 3
    in_all = describe_entries([[-1.0, 1.0], [-0.5, 1.0], [-0.7, 1.0]], paper)
    assert in_all == "weight of the entropy is -1 to -0.5, not 1"
    late = describe_entries([[1.0, 1.0], [-0.5, 1e-9], [-0.7, 0.0]], paper)
    assert late == (
        "weight of the entropy is -0.7 to -0.5, not 1 from update 2 on; "
        "of the critic is 0 to 1e-09, not 1 from update 2 on"
    )
    one = describe_entries([[1.0, 1.0], [3.0, 1.0], [1.0, 1.0]], paper)
    assert one == "weight of the entropy is 3, not 1 in update 2"
    several = describe_entries([[2.0, 1.0], [1.0, 1.0], [2.0, 1.0]], paper)
    assert several == "weight of the entropy is 2, not 1 in updates 1, 3"


def test_shapes_need_three_sizes_and_no_more_room_for_large_factors():
    few = np.repeat([0.2, -0.1], 4)
    assert "cube" not in describe_relation(40 * few**3, few)
    many = np.linspace(-0.2, 0.2, 12)
    assert describe_relation(40 * many**3, many) == "40 times the cube of the paper's"
    moved = 40 * many**3 + 0.01 * np.cos(9 * np.arange(12))
    assert "cube" not in describe_relation(moved, many)
