import json

import numpy as np
import pytest

from parallax.harness.probes.probe import Probe, compare_arrays, group_answers
from parallax.harness.probes.results import (
    AnswerAxis,
    AnswerComparison,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    report_from_dict,
    report_to_dict,
)


def a_report():
    answer = ProbeAnswer(
        np.array([1.0, np.nan]), np.array([1.0, 2.0]), AnswerComparison("factor", 2.0), "x"
    )
    result = ProbeResult(
        probe="sac.std_map",
        algorithm="sac",
        question="?",
        citation="paper",
        quantity="units",
        axis=AnswerAxis("input", np.array([0.0, 1.0])),
        answers={"a": answer},
        groups=(("a",),),
    )
    return ProbeReport((result,), {"a": ("a 1.0",)}, {"b": "its adapter has no probing part"}, 1.5)


def test_json_round_trip_is_lossless():
    report = a_report()
    text = json.dumps(report_to_dict(report), allow_nan=False)
    assert report_to_dict(report_from_dict(json.loads(text))) == report_to_dict(report)


def test_another_schema_is_refused():
    with pytest.raises(ValueError, match="schema 99"):
        report_from_dict({"schema": 99})


@pytest.mark.parametrize(
    ("value", "kind", "size"),
    [
        ([1.0, 2.0, -3.0], "agrees", 0.0),
        ([2.0, 4.0, -6.0], "factor", 2.0),
        ([-1.0, -2.0, 3.0], "factor", -1.0),
        ([0.0, 0.0, 0.0], "factor", 0.0),
        ([1.5, 2.5, -2.5], "offset", 0.5),
        ([1.0, 2.0, 3.0], "function", 6.0),
        ([1.0, 2.0], "function", -1.0),
    ],
)
def test_comparison_names_the_relation(value, kind, size):
    found = compare_arrays(np.array(value), np.array([1.0, 2.0, -3.0]), 1e-4)
    assert (found.kind, pytest.approx(found.size)) == (kind, size)


def test_counts_differ_by_whole_numbers():
    found = compare_arrays(np.array([5.0, 7.0]), np.array([5.0, 9.0]), 0.5, counts=True)
    assert found == AnswerComparison("count", -2.0)


def test_rounding_is_no_difference():
    expected = np.array([1.0, 2.0, -3.0])
    assert compare_arrays(expected * (1 + 1e-5), expected, 1e-4).kind == "agrees"


def test_groups_contain_agreeing_implementations():
    probe = Probe("a.b", "?", "paper", "units", lambda cache: None, lambda *_: "", tolerance=1e-4)
    expected = np.array([3.0, 5.0])
    values = {"a": [3.0, 6.0], "b": [3.0, 7.0], "c": [3.0, 7.0], "d": [3.0, 5.0]}
    answers = {
        name: ProbeAnswer(
            np.array(value), expected, compare_arrays(np.array(value), expected, 1e-4), ""
        )
        for name, value in values.items()
    }
    assert group_answers(probe, answers) == (("b", "c"), ("a",), ("d",))


@pytest.mark.parametrize(
    ("words", "together"),
    [("the squared error", True), ("another function, up to 0.2 away", False), ("", False)],
)
def test_answers_to_other_inputs_agree_if_the_named_function_is_equal(words, together):
    answers = {
        name: ProbeAnswer(value, value**3, AnswerComparison("function", 1.0), words)
        for name, value in (("a", np.array([1.0, 2.0])), ("b", np.array([1.0, 5.0, 7.0])))
    }
    groups = group_answers(Probe("x.y", "?", "paper", "units", lambda cache: None, None), answers)
    assert groups == ((("a", "b"),) if together else (("a",), ("b",)))
