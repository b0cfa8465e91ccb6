"""Phrases that say what verdicts are shares of."""

import pytest

from parallax.analysis.verdicts.options import VerdictOptions

RANGES = (("A-v1", 0.0, 1.0), ("A-v1", 5.0, 6.0), ("B-v1", 2.0, 3.0))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "10% of the way from random actions to the published or solved score"),
        ({"margin_share": 0.25, "margin_of": "score"}, "25% of the published or solved score"),
        (
            {"ranges": RANGES},
            "10% of the range given for a task, elsewhere of the way from random actions to the "
            "published or solved score",
        ),
        ({"endpoint": "steps-90", "ranges": RANGES}, "10% of the length of training"),
    ],
)
def test_margin_states_its_reference(options, text):
    assert VerdictOptions(**options).margin_description == text


def test_the_first_range_of_a_task_counts():
    assert VerdictOptions(ranges=RANGES).range_by_env == {"A-v1": (0.0, 1.0), "B-v1": (2.0, 3.0)}


def test_zero_and_the_test_are_named():
    plain = "doing nothing or random actions, whichever scores higher"
    assert VerdictOptions().zero_description == plain
    references = tuple((env, "random actions", 1.0, "x") for env in ("B", "A", "B"))
    measured = " (on A, B: or untrained policies, all as measured with the runs)"
    assert VerdictOptions(references=references).zero_description == plain + measured
    assert VerdictOptions().difference_test == "Welch's test"
    assert VerdictOptions(endpoint="steps-5").difference_test == "the log-rank test"
