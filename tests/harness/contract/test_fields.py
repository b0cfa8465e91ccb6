"""Values of fields: conversions, bounds and the messages about them."""

import dataclasses
import math
import re

import pytest

from parallax.harness.contract import fields
from parallax.harness.contract.fields import (
    SpecError,
    bounded_field,
    build_dataclass,
    check_value,
    format_unknown_name,
    format_value,
)


@dataclasses.dataclass(frozen=True)
class Values:
    rate: float = bounded_field(above=0, maximum=2)
    count: int | None = bounded_field(minimum=1)
    sizes: tuple[int, ...] = bounded_field(minimum=1, nonempty=True)
    kind: str = bounded_field(choices=("a", "b"), legacy_value="b")
    is_on: bool = bounded_field(default=True)


GIVEN = {"rate": 1, "count": 2.0, "sizes": [3, 4.0]}


def test_values_are_converted_to_the_types_of_their_fields():
    made = build_dataclass(Values, GIVEN, "values")
    assert made == Values(1.0, 2, (3, 4), "b", True)
    assert [type(value) for value in dataclasses.astuple(made)] == [float, int, tuple, str, bool]
    assert type(made.sizes[1]) is int
    assert build_dataclass(Values, GIVEN | {"count": None, "kind": "a"}, "values").count is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate": 0}, "rate=0.0 must be greater than 0."),
        ({"rate": 2.5}, "rate=2.5 must be at most 2."),
        ({"rate": -math.inf}, "rate=-inf must be finite."),
        ({"rate": True}, "rate=True must be a number."),
        ({"rate": "1"}, "rate='1' must be a number."),
        ({"rate": None}, "rate=None must be a number."),
        ({"rate": 10**400}, "rate must be below 2e+308."),
        ({"rate": 1e300}, "rate=1e+300 must be at most 2."),
        ({"count": 10**16}, "count=10000000000000000 must be at most 9,007,199,254,740,992."),
        ({"count": 0}, "count=0 must be at least 1."),
        ({"count": 1.5}, "count=1.5 must be a whole number."),
        ({"count": math.nan}, "count=nan must be a whole number."),
        ({"count": False}, "count=False must be a whole number."),
        ({"sizes": []}, "sizes=[] must have at least one entry, such as [256, 256]."),
        ({"sizes": [2, 0]}, "sizes=0 must be at least 1."),
        ({"sizes": "12"}, "sizes='12' must be a list, such as [256, 256]."),
        ({"sizes": 5}, "sizes=5 must be a list, such as [256, 256]."),
        ({"kind": "c"}, "kind='c' must be one of: a, b."),
        ({"kind": None}, "kind='None' must be one of: a, b."),
        ({"is_on": 1}, "is_on=1 must be true or false."),
        ({"is_on": None}, "is_on=None must be true or false."),
        ({"rates": 1}, "rates is not known. Did you mean rate? Known: count, is_on, kind, rate, s"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_their_field(changes, words):
    with pytest.raises(SpecError, match=f"^values.{re.escape(words)}"):
        build_dataclass(Values, GIVEN | changes, "values")


def test_fields_without_a_legacy_value_are_required():
    with pytest.raises(SpecError, match=r"^values lacks rate, sizes: give each a value\.$"):
        build_dataclass(Values, {"count": 1}, "values")
    assert Values(1.0, 1, (1,), "a").is_on is True
    with pytest.raises(TypeError, match="'kind'"):
        Values(1.0, 1, (1,))


def test_bounds_apply_to_each_entry_and_are_inclusive():
    limits = {"minimum": 1, "maximum": 3}
    assert check_value("a", [1, 3], tuple[int, ...], limits) == (1, 3)
    assert check_value("a", [], tuple[int, ...], limits) == ()
    assert check_value("a", (), tuple[int, ...], {}) == ()
    for value, words in (([1, 4], "a=4 must be at most 3"), ([0], "a=0 must be at least 1")):
        with pytest.raises(SpecError, match=words):
            check_value("a", value, tuple[int, ...], limits)
    assert check_value("a", 3, str, {}) == "3"
    assert check_value("a", None, float | None, {"minimum": 1}) is None
    assert check_value("a", 1, float | None, {"minimum": 1}) == 1.0
    assert check_value("a", 1.5, float, {"above": 1}) == 1.5


def test_unknown_name_error_lists_closest_and_few_known_names(monkeypatch):
    assert format_unknown_name("a=PPO", "PPO", ["sac", "ppo"]) == (
        "a=PPO is not known. Did you mean ppo? Known: ppo, sac."
    )
    assert format_unknown_name("a=gama", "gama", ["gamma", "tau"]) == (
        "a=gama is not known. Did you mean gamma? Known: gamma, tau."
    )
    assert format_unknown_name("a=x", "x", ["gamma"]) == "a=x is not known. Known: gamma."
    monkeypatch.setattr(fields, "_MAX_LISTED_NAMES", 2)
    assert format_unknown_name("a=x", "x", ["b", "c"]).endswith("Known: b, c.")
    assert format_unknown_name("a=x", "x", ["b", "c", "d"]) == (
        "a=x is not known. parallax train --help lists all names."
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        ((1, 2), "[1, 2]"),
        (0.5, "0.5"),
        ("text", "text"),
        (
            {"Clip": (0.1, None), "Scale": 2, "Turn": [True]},
            "Clip(0.1, null), Scale(2), Turn(true)",
        ),
    ],
)
def test_values_are_formatted_as_typed(value, text):
    assert format_value(value) == text
