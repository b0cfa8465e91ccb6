import json

import numpy as np
import pytest

from harness.probes.probe import Probe, alike, compare
from harness.probes.results import Answer, Axis, Comparison, Report, Result, from_json, to_json


def a_report():
    answer = Answer(np.array([1.0, np.nan]), np.array([1.0, 2.0]), Comparison("factor", 2.0), "x")
    result = Result(
        probe="sac.std_map",
        algorithm="sac",
        question="?",
        citation="paper",
        quantity="units",
        axis=Axis("input", np.array([0.0, 1.0])),
        answers={"a": answer},
        groups=(("a",),),
    )
    return Report((result,), {"a": ("a 1.0",)}, {"b": "its adapter has no probing part"}, 1.5)


def test_json_round_trip_keeps_everything():
    report = a_report()
    text = json.dumps(to_json(report), allow_nan=False)
    assert to_json(from_json(json.loads(text))) == to_json(report)


def test_another_schema_is_refused():
    with pytest.raises(ValueError, match="schema 99"):
        from_json({"schema": 99})


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
    found = compare(np.array(value), np.array([1.0, 2.0, -3.0]), 1e-4)
    assert (found.kind, pytest.approx(found.size)) == (kind, size)


def test_counts_differ_by_whole_numbers():
    found = compare(np.array([5.0, 7.0]), np.array([5.0, 9.0]), 0.5, counts=True)
    assert found == Comparison("count", -2.0)


def test_rounding_is_no_difference():
    expected = np.array([1.0, 2.0, -3.0])
    assert compare(expected * (1 + 1e-5), expected, 1e-4).kind == "agrees"


def test_groups_hold_those_that_agree():
    probe = Probe("a.b", "?", "paper", "units", lambda lab: None, lambda *_: "", tolerance=1e-4)
    expected = np.array([3.0, 5.0])
    values = {"a": [3.0, 6.0], "b": [3.0, 7.0], "c": [3.0, 7.0], "d": [3.0, 5.0]}
    answers = {
        name: Answer(np.array(value), expected, compare(np.array(value), expected, 1e-4), "")
        for name, value in values.items()
    }
    assert alike(probe, answers) == (("b", "c"), ("a",), ("d",))
