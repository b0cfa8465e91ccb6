"""Results of the statistics as values."""

from constants import compare_with_stored
from records import find_changeable, find_incomparable

import parallax.analysis.stats


def test_results_cannot_be_changed():
    assert find_changeable(parallax.analysis.stats) == set()


def test_results_with_arrays_can_be_looked_up():
    assert find_incomparable(parallax.analysis.stats) == set()


def test_constants_and_defaults_change_on_purpose_only():
    assert compare_with_stored("analysis.stats") == []
