"""Records as values."""

from constants import compare_with_stored
from records import find_changeable, find_incomparable

import parallax.harness.record


def test_results_cannot_be_changed():
    assert find_changeable(parallax.harness.record) == set()


def test_results_with_arrays_can_be_looked_up():
    assert find_incomparable(parallax.harness.record) == set()


def test_constants_and_defaults_change_on_purpose_only():
    assert compare_with_stored("harness.record") == []
