import dataclasses

import numpy as np
import pytest

from parallax.harness.probes.baseline import (
    OTHER_NUMBERS,
    describe_change,
    format_pair_changes,
    list_changes,
    merge_reports,
)
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.probe import compare_in_probe_units
from parallax.harness.probes.results import (
    AnswerComparison,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    make_missing_answer,
)

AGREES = AnswerComparison("agrees")


def a_result(probe="sac.critic_target", quantity="in units of return", **answers):
    return ProbeResult(probe, "sac", "?", "paper", quantity, None, answers, ())


def answer(*numbers, kind="agrees", size=0.0, meaning=""):
    value = np.array(numbers, float)
    return ProbeAnswer(value, value, AnswerComparison(kind, size), meaning)


def report(*results):
    names = {name: ("x 1",) for result in results for name in result.answers}
    return ProbeReport(results, names, {}, 1.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (answer(1.0, 2.0), answer(1.0, 2.0)),
        (answer(1.0, 2.0), answer(1.0, 2.0 + 1e-4)),
        (answer(np.nan), answer(np.nan)),
        (make_missing_answer("it cannot"), make_missing_answer("it cannot, in other words")),
    ],
)
def test_rounding_and_wording_are_no_change(before, after):
    assert describe_change(a_result(), before, after) == []


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (answer(1.0, 2.0), answer(1.0, 2.1), "position 1: 2 -> 2.1"),
        (
            answer(1.0),
            answer(2.0, kind="factor", size=2.0, meaning="twice"),
            "now: twice, 2 times the paper's",
        ),
        (answer(1.0), make_missing_answer("gone"), "now: not measured: gone"),
        (answer(1.0), answer(1.0, 2.0), "1 numbers -> 2"),
        (answer(1.0), answer(np.nan), "1 -> nan"),
    ],
)
def test_change_is_described_with_its_numbers(before, after, words):
    (line,) = describe_change(a_result(), before, after)
    assert words in line


def test_a_count_that_changes_by_one_of_many_is_a_change():
    result = a_result("sac.counts", "steps")
    assert describe_change(result, answer(20000.0), answer(20001.0))


def test_an_answer_that_is_known_to_some_percent_may_move_by_that():
    result = a_result("ppo.clip_range_annealing", "distance from 1")
    assert describe_change(result, answer(0.2, 0.1), answer(0.2, 0.102)) == []
    assert describe_change(result, answer(0.2, 0.1), answer(0.2, 0.15))


def test_small_number_next_to_a_large_one_is_compared_relatively():
    result = a_result("sac.adam_settings", "constants: eps, beta")
    (line,) = describe_change(result, answer(1e-8, 0.9), answer(1e-5, 0.9))
    assert line == "constants: eps 1e-08 -> 1e-05"


def test_words_that_group_entries_are_not_replaced_by_numbers():
    result = a_result("sac.target_update", "share: critic1_target.0.bias, critic1_target.0.weight")
    stopped = answer(0.0, 0.005, kind="function", meaning="critic1_target.0.bias never move")
    (line,) = describe_change(result, answer(0.005, 0.005), stopped)
    assert "never move" in line and "critic1_target.0.bias 0.005 -> 0" in line


def test_answers_that_only_have_other_numbers_share_a_line():
    echoes = [("sac.x", f"as in the paper {OTHER_NUMBERS} (1 -> 2)"), ("sac.y", OTHER_NUMBERS)]
    changes = [echoes[0], ("sac.z", "was a; is b"), echoes[1]]
    assert format_pair_changes(changes) == [
        "  sac.z: was a; is b",
        "  as before, with other numbers: sac.x, sac.y",
    ]
    assert format_pair_changes(echoes)[0].startswith("  sac.x: as in the paper as before")


def test_new_and_missing_requested_answers_are_changes():
    old = report(a_result(a=answer(1.0), b=answer(1.0)))
    new = report(a_result(a=answer(1.0), c=answer(1.0)), a_result("sac.x", a=answer(1.0)))
    assert list_changes(new, old) == ["sac.critic_target, c: new", "sac.x, a: new"]
    gone = dataclasses.replace(report(a_result(b=answer(1.0))), versions={"a": (), "b": ()})
    assert list_changes(gone, old) == ["sac.critic_target, a: gone"]


def test_merging_preserves_unrequested_answers():
    old = report(a_result(a=answer(1.0), b=answer(2.0)), a_result("sac.x", a=answer(3.0)))
    found = merge_reports(report(a_result(a=answer(9.0))), old)
    assert {name: a.value[0] for name, a in found.results[0].answers.items()} == {"a": 9, "b": 2}
    assert found.results[1].answers["a"].value[0] == 3
    assert set(found.versions) == {"a", "b"}


def test_a_new_probe_is_merged_where_the_catalogue_has_it():
    names = ["sac.critic_target", PROBES[0].name, "x.of_another_version"]
    old = report(*(a_result(name, a=answer(1.0)) for name in names[::2]))
    found = merge_reports(report(a_result(names[1], a=answer(1.0))), old)
    assert [one.probe for one in found.results] == [names[1], names[0], names[2]]


def test_merging_recomputes_groups_of_agreeing_implementations():
    old = report(a_result(a=answer(1.0), b=answer(2.0, kind="factor", size=2.0)))
    found = merge_reports(report(a_result(c=answer(1.0))), old)
    assert found.results[0].groups == (("a", "c"), ("b",))


def test_numbers_that_neither_side_has_are_no_difference():
    probe = next(probe for probe in PROBES if probe.name == "sac.initial_biases")
    one, other = np.array([1.0, np.nan]), np.array([9.0, np.nan])
    assert compare_in_probe_units(probe, one, one).kind == "agrees"
    assert compare_in_probe_units(probe, one, other).kind == "number"
